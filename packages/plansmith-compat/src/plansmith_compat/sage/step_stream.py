"""Tells what a run does while it runs, as the events of SAGE's runtime."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

from plansmith.formats.dialect import in_order
from plansmith.plan.events import PlanProposed, StepDone, StepFailed, StepStarted, StepUnknown
from plansmith.plan.run import Run, StepState, StepStatus
from plansmith.plan.sentence import in_language
from plansmith.plan.steps import ToolStep
from plansmith_compat.sage.dialect import observations_of

if TYPE_CHECKING:
    from plansmith.app import Plansmith
    from plansmith.plan.events import Event
    from plansmith.plan.plan import Plan
    from plansmith_compat.calling import Tell


class _Teller:
    def __init__(self, smith: Plansmith, run_id: str, tell: Tell) -> None:
        self._smith = smith
        self._run_id = run_id
        self._tell = tell
        self._last = 0

    async def follow(self) -> None:
        async for event in self._smith.events(self._run_id, follow=True):
            await self.take(event)

    async def catch_up(self) -> None:
        async for event in self._smith.events(self._run_id, after=self._last):
            await self.take(event)

    async def take(self, event: Event) -> None:
        if event.number <= self._last:
            return
        self._last = event.number
        body = event.body
        if not isinstance(body, (StepStarted, StepDone, StepFailed, StepUnknown)):
            return
        run = await self._smith.get(self._run_id)
        step = run.plan.by_id.get(body.step) if run.plan is not None else None
        if run.plan is None or not isinstance(step, ToolStep):
            return
        if isinstance(body, StepStarted):
            self._tell({"type": "tool_start", "tool": step.tool, "arguments": dict(step.inputs)})
        elif isinstance(body, StepDone):
            result = run.steps[step.id].result
            self._tell({"type": "tool_result", "tool": step.tool, "result": result})
        else:
            error = run.steps[step.id].error
            self._tell({"type": "tool_error", "tool": step.tool, "error": error})


async def failed_before(smith: Plansmith, run: Run) -> list[dict[str, Any]]:
    """Returns an observation for each tool step that failed under an earlier plan of the run."""
    plan: Plan | None = None
    found: list[dict[str, Any]] = []
    if not run.replans:
        return found
    async for event in smith.events(run.id):
        body = event.body
        if isinstance(body, PlanProposed):
            plan = body.plan
        elif isinstance(body, StepFailed) and plan is not None and plan != run.plan:
            state = StepState(status=StepStatus.FAILED, error=in_language(body.error, run.locale))
            seen = [*observations_of(in_order(plan), Run(id=run.id, steps={body.step: state}))]
            found += seen if not body.again else []
    return found


@asynccontextmanager
async def tell_steps(smith: Plansmith, run_id: str, tell: Tell) -> AsyncGenerator[None]:
    """Tells each tool step as it starts and ends, until the block ends."""
    teller = _Teller(smith, run_id, tell)
    task = asyncio.create_task(teller.follow())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        await teller.catch_up()
