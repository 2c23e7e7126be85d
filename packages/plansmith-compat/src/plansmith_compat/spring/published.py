"""Templates published as tools: each call is a run of its own, found again under the call's key."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from uuid import UUID

from plansmith.app import Plansmith
from plansmith.errors import InputNeeded, RunBusy, StaleWriter, ToolBusy, ToolFailed
from plansmith.plan.capability import Effect, ToolSpec
from plansmith.plan.data import Json
from plansmith.plan.events import StepStarted
from plansmith.plan.fold import GO_ON
from plansmith.plan.ids import uuid7
from plansmith.plan.run import Run, RunStatus
from plansmith.plan.run_options import Origin
from plansmith.plan.steps import LONGEST_TIMEOUT_S
from plansmith.ports import Call
from plansmith.review.policy import active_steps, effects
from plansmith.templates.book import Template


class PublishedTemplates:
    """Templates as a tool source: each call is a run with its own journal.

    A call that is made again, after a restart or a time limit, goes on with the run that it began.
    """

    def __init__(self, smith: Plansmith, templates: Sequence[Template]) -> None:
        self._smith = smith
        self._templates = {each.name: each for each in templates}
        self._stopping: set[asyncio.Task[Run]] = set()

    async def tools(self) -> Sequence[ToolSpec]:
        """Returns one tool per template, with its parameters and the effects of its steps."""
        specs = (await self._smith.runs.intake.callees()).specs
        agents = {card.name: card for card in self._smith.runs.intake.agents()}
        made: list[ToolSpec] = []
        for each in self._templates.values():
            steps = active_steps(each.plan, self._smith.runs.intake.templates)
            found = [effect for s in steps for _, effect in effects(s, tools=specs, agents=agents)]
            made.append(
                ToolSpec(
                    name=each.name,
                    description=each.request,
                    input_schema=each.parameters,
                    effect=max(found, key=lambda effect: effect.rank, default=Effect.READ),
                    idempotent=True,
                    timeout_s=LONGEST_TIMEOUT_S,  # the steps of the run have their own limits
                )
            )
        return made

    async def call(self, tool: str, arguments: Mapping[str, Json], call: Call) -> Json:
        """Runs the template and returns the results by step; fails if the run does.

        A run that waits for a person makes the step ask. Stopping the caller stops the run.
        """
        template = self._templates.get(tool)
        if template is None:
            raise ToolFailed(f"there is no published template {tool!r}")
        run_id = sub_run_id(call.key)
        try:
            await self._begin(run_id, template, arguments)
            run = await self._smith.runs.run(run_id)
        except asyncio.CancelledError:
            if call.is_stopped():
                await self._stop(run_id)
            raise
        except RunBusy as busy:
            raise ToolBusy(str(busy)) from None
        return _results(tool, run)

    async def _begin(self, run_id: str, template: Template, arguments: Mapping[str, Json]) -> None:
        if await self._smith.store.events(run_id):
            return
        plan = await self._smith.templates.plan(template.full_name, arguments)
        with suppress(StaleWriter):  # another process has begun it meanwhile
            await self._smith.runs.create(
                plan.goal or template.request,
                plan=plan,
                origin=Origin(kind="template", id=template.full_name),
                about={"origin": "template"},
                by="",
                run_id=run_id,
            )

    async def _stop(self, run_id: str) -> None:
        """Stops a run, to its end even if the caller does not wait for it."""
        if await self._smith.store.events(run_id):
            stopping = asyncio.ensure_future(self._smith.cancel(run_id))
            self._stopping.add(stopping)
            stopping.add_done_callback(self._stopping.discard)
            await asyncio.shield(stopping)


def _results(tool: str, run: Run) -> Json:
    hint = f"look at run {run.id}"
    if not run.status.over:
        text = f"the template {tool!r} waits for a person in run {run.id}: it is {run.status}"
        raise InputNeeded(f"{text}. Go on once it is decided there?", options=[GO_ON])
    if run.status is not RunStatus.DONE:
        raise ToolFailed(f"the template {tool!r} is {run.status}: {run.reason}", hint=hint)
    return {name: state.result for name, state in run.steps.items() if "/" not in name}


def sub_run_id(key: str) -> str:
    """Returns the id of the run that the call with this key begins; it sorts with its caller."""
    bits = int.from_bytes(sha256(key.encode()).digest()[:10], "big") >> 6
    try:
        milliseconds = UUID(key.partition("/")[0]).int >> 80
    except ValueError:
        milliseconds = 0
    return uuid7(milliseconds, bits)


async def stop_with_sub_runs(smith: Plansmith, run_id: str, *, by: str) -> Run:
    """Stops a run and what it has begun in the same store, also in a process that died."""
    run = await smith.cancel(run_id, by=by)
    keys = [
        event.body.key
        async for event in smith.events(run_id)
        if isinstance(event.body, StepStarted)
    ]
    for sub_run in map(sub_run_id, dict.fromkeys(keys)):
        if await smith.store.events(sub_run):
            await stop_with_sub_runs(smith, sub_run, by=by)
    return run
