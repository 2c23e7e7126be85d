"""A person in a simulated world: approves what is hers, and answers as things really are."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import Any, Literal, cast

from lab.simulation.checks import Agreed
from lab.simulation.plans import (
    EPOCHS,
    Effect,
    Facts,
    effects_of,
    found_items,
    looks_of,
    writes_of,
)
from lab.simulation.previews import effect_of
from lab.simulation.process import Deed, Process
from lab.simulation.twists import drop_step, shuffle_lists
from lab.simulation.world import World
from plansmith import Plan, Plansmith, Run, RunStatus
from plansmith.errors import PlansmithError, StoreAway
from plansmith.plan import events as e
from plansmith.plan.next_move import Execute, next_move
from plansmith.plan.run_options import RunOptions
from plansmith.runs.decisions import ApprovalDetails
from plansmith.runs.intake import NewRun
from plansmith.runs.journals import delete_run

STRANGERS = ("mallory", "eve")


class Person:
    """Decides, answers, pauses and changes plans, through whichever process is at hand."""

    def __init__(self, world: World, *, twice: float = 0.15) -> None:
        self.world = world
        self._twice = twice
        self.agreed: dict[str, Agreed] = {}
        # What she tried, and what she was told is done, by run and kind of event.
        self.tried: Counter[tuple[str, str]] = Counter()
        self.told: Counter[tuple[str, str]] = Counter()
        # Her approvals: of which run, with which hash, and what she said of its calls.
        self.said: set[tuple[str, str, str]] = set()
        self._changed: dict[Effect, str] = {}

    async def attend(self, process: Process, run_id: str) -> bool:
        """Decides one thing that waits for her, if anything does; False if nothing does."""
        run = self.world.view(run_id)
        if run is None or run.status.over:
            return False
        try:
            if run.questions:
                return await self._answer(process, run)
            if run.status is RunStatus.PAUSED:
                await self._do(process, run_id, "run_resumed", lambda s: s.resume(run_id, by="ada"))
                return True
            if run.phase is RunStatus.REVIEWING and not run.is_approved:
                return await self._decide(process, run)
            if next_move(run) == Execute(begun=False, needs_start=True):
                await self.start(process, run_id)
                return True
        except PlansmithError:
            return True  # someone else was quicker: look again
        return False

    async def start(self, process: Process, run_id: str) -> None:
        """Lets a process go on with a run."""
        if process.state is not None:
            background = process.state.background
            await process.do(lambda _: _soon(lambda: background.go_on(run_id)))
        else:
            await process.do(lambda smith: smith.runs.run(run_id))

    async def ask(self, process: Process, *, plan: Plan | None = None) -> None:
        """Asks for a plan to be made, or submits one; a server goes on with the run."""
        state, wanted = process.state, "pay what is due"
        modes: list[Literal["", "review"]] = ["", "review"]
        mode = self.world.rng.choice(modes)

        async def ask(smith: Plansmith) -> Any:
            if state is None:
                return await (
                    smith.submit(plan, by="ada") if plan else smith.plan(wanted, by="ada")
                )
            # As the route does it.
            run_id = smith.runs.journals.new_id()
            options = RunOptions(mode=mode)
            try:
                new = NewRun(wanted, plan, run_id=run_id, options=options, by="ada")
                await smith.runs.create(new)
            except StoreAway:
                state.background.go_on(run_id)
                raise
            state.background.go_on(run_id)
            return True

        await process.do(ask)

    async def _do(self, process: Process, run_id: str, kind: str, deed: Deed) -> Any:
        """Does something that she is then told is done."""
        self.tried[run_id, kind] += 1
        state = process.state

        async def whole(smith: Plansmith) -> Any:
            done = await deed(smith)
            if state is not None:
                state.background.go_on(run_id)
            return done

        done = await process.do(whole)
        self.world.note("told", kind, run_id, done is not None)
        self.told[run_id, kind] += done is not None
        return done

    async def _decide(self, process: Process, run: Run) -> bool:
        if self.world.has_previews and self.world.previewer.random() < 0.6:
            found = await self._look_first(run)
            if found is None:
                return True
            run = found
        plan = cast("Plan", run.plan)
        if self.refuses(plan, run):
            await self._do(
                process, run.id, "plan_rejected", lambda s: s.decide(run.id, reject=True, by="ada")
            )
            return True
        self.agreed[run.id] = Agreed(plan, run.templates)
        ways = [self._do(process, run.id, "plan_approved", self._approval(plan, run))]
        if self.world.rng.random() < self._twice:  # she clicks in two windows
            other = self.world.rng.choice(self.world.living() or [self.world.boot()])
            ways.append(self._do(other, run.id, "plan_approved", self._approval(plan, run)))
        for each in await asyncio.gather(*ways, return_exceptions=True):
            if isinstance(each, BaseException) and not isinstance(each, PlansmithError):
                raise each
        return True

    async def preview(self, process: Process, run_id: str) -> None:
        """Looks at what a plan would do, sometimes with another result of what it reads."""
        dice, run = self.world.previewer, self.world.view(run_id)
        looks = looks_of(run.plan) if run is not None and run.plan is not None else {}
        given: dict[str, Any] = {}
        if looks and dice.random() < 0.2:
            name = dice.choice(sorted(looks))
            given[name] = {"items": found_items(looks[name], dice.randrange(EPOCHS))}
        await process.do(lambda smith: smith.runs.preview(run_id, given=given, by="ada"))

    async def _look_first(self, run: Run) -> Run | None:
        """Has a plan previewed, perhaps twice, or decides meanwhile; None if it is another now."""
        world, plan = self.world, run.plan
        for _ in range(world.previewer.choice((1, 1, 1, 2))):
            process = world.previewer.choice(world.living() or [world.boot()])
            looking = asyncio.create_task(self.preview(process, run.id))
            if world.previewer.random() < 0.15:
                looking.add_done_callback(lambda task: task.cancelled() or task.exception())
                await asyncio.sleep(world.previewer.choice((0, 0.02, 0.5)))
            else:
                await looking
        found = world.view(run.id)
        if found is None or found.plan is None or found.plan != plan:
            return None
        waits = found.phase is RunStatus.REVIEWING and not found.is_approved
        return found if waits else None

    def _approval(self, plan: Plan, run: Run) -> Deed:
        """Returns her decision: on the plan alone, or on what was shown of it."""
        dice, made = self.world.previewer, run.previewed
        approve, details = plan.hash, ApprovalDetails()
        if made is not None and dice.random() < 0.8:
            approve = made.approval
            shown = self.world.value(made.content).get("calls", ())
            details = self._details({each["step"]: each for each in shown})
        for epoch in range(EPOCHS if self.world.has_previews else 1):
            looks = {name: found_items(n, epoch) for name, n in looks_of(plan).items()}
            for changed in ({}, self._changed):
                facts = Facts(looks, changed=changed)
                self.world.approved |= set(writes_of(plan, run.templates, facts))
        self.said.add((run.id, approve, json.dumps(details, sort_keys=True)))
        return lambda smith: smith.decide(run.id, approve=approve, by="ada", **details)

    def _details(self, shown: dict[str, Any]) -> ApprovalDetails:
        """Leaves some calls out, changes the id of some, or wants fresh data."""
        dice, details = self.world.previewer, ApprovalDetails()
        if shown and dice.random() < 0.3:
            details["leave_out"] = [dice.choice(sorted(shown))]
        if shown and dice.random() < 0.3:
            name = dice.choice(sorted(shown))
            call = shown[name]
            field = "id" if "id" in call["inputs"] else "task"
            tool, old = effect_of(call["callee"], call["inputs"])
            new = f"{old}.changed"
            details["change"] = {name: {field: new}}
            before = [each for each, was in self._changed.items() if (each[0], was) == (tool, old)]
            self._changed |= dict.fromkeys([*before, (tool, old)], new)
        if dice.random() < 0.25:
            details["fresh"] = True
        return details

    def refuses(self, plan: Plan, run: Run) -> bool:
        """Whether the plan pays a stranger, or, as the review says, would pay what is paid."""
        wanted = effects_of(plan, run.templates)
        if len(set(wanted)) < len(wanted) or any(
            s in name for _, name in wanted for s in STRANGERS
        ):
            return True
        asked = [
            each.body
            for each in self.world.journals()[run.id]
            if isinstance(each.body, e.ReviewAsked)
        ]
        words = ["would make it again"]
        if self.world.chain(run.id) != run.id:  # who continues wants nothing twice
            words.append("is done again")
        return any(word in reason for reason in asked[-1].reasons for word in words)

    async def _answer(self, process: Process, run: Run) -> bool:
        asked = self.world.rng.choice(
            sorted(run.questions.values(), key=lambda each: each.question)
        )
        answer = self._word(run, asked)
        if answer is None:
            return False
        deed = lambda s: s.runs.answer(run.id, asked.question, answer, by="ada")  # noqa: E731
        await self._do(process, run.id, "question_answered", deed)
        return True

    def _word(self, run: Run, asked: e.QuestionAsked) -> Any:
        """Returns her answer; None if she would rather wait."""
        rng = self.world.rng
        match asked.kind:
            case "unknown":
                return self._what_became(run.id, cast("str", asked.step))
            case "step":
                return rng.choice(["yes"] * 9 + ["no"] * (not asked.options))
            case _:
                word = rng.choice(asked.options)
                likes = self.world.has_previews and self.world.previewer.random() < 0.7
                return "allow" if likes and "allow" in asked.options else word

    def _what_became(self, run_id: str, unit: str) -> Any:
        """Returns what the bank says about a call: she waits while it may still be on its way."""
        started = [
            each.body
            for each in self.world.journals()[run_id]
            if isinstance(each.body, e.StepStarted) and each.body.step == unit
        ][-1]
        inputs = self.world.value(started.inputs)
        name = str(inputs.get("id", inputs.get("task")))
        what = started.callee, name, self.world.chain(run_id)
        bank, rng = self.world.bank, self.world.rng
        if any(each.what == what for each in bank.made):
            return rng.choice(["done", {"done": {"paid": name}}])
        if bank.on_the_way[what]:
            if rng.random() < 0.8:
                return None
            self.world.excused.add(what)
        return rng.choice(["retry", "not_done"])

    async def edit(self, process: Process, run_id: str) -> None:
        """Changes the plan herself: without a step, or with its lists in another order."""
        run = self.world.view(run_id)
        if run is None or run.plan is None or not run.plan.steps:
            return
        value = json.loads(json.dumps(run.plan.to_json()))
        self.world.rng.choice([drop_step, shuffle_lists])(value, self.world.rng)
        await process.do(lambda smith: smith.edit(run_id, Plan.model_validate(value), by="ada"))

    async def skip(self, process: Process, run_id: str) -> None:
        """Leaves a step out."""
        run = self.world.view(run_id)
        if run is not None and run.steps:
            name = self.world.rng.choice(sorted(run.steps))
            await process.do(lambda smith: smith.runs.skip(run_id, name, by="ada"))

    async def pause(self, process: Process, run_id: str) -> None:
        """Pauses a run."""
        await process.do(lambda smith: smith.pause(run_id, by="ada"))

    async def cancel(self, process: Process, run_id: str) -> None:
        """Cancels a run."""
        await self._do(process, run_id, "cancel_asked", lambda s: s.cancel(run_id, by="ada"))

    async def delete(self, process: Process, run_id: str) -> None:
        """Deletes a run, as the route does it."""

        async def cancel_and_delete(smith: Plansmith) -> Any:
            await smith.cancel(run_id, by="ada")
            return await delete_run(smith.runs.journals, run_id, by="ada")

        self.tried[run_id, "cancel_asked"] += 1
        await process.do(cancel_and_delete)

    async def undo(self, process: Process, run_id: str) -> None:
        """Goes back to the plan before."""
        await process.do(lambda smith: smith.runs.editing.undo(run_id, by="ada"))

    async def changes(self, process: Process, run_id: str) -> None:
        """Asks the planner for another plan."""
        await process.do(lambda smith: smith.request_changes(run_id, "other", by="ada"))

    async def force(self, process: Process, run_id: str) -> None:
        """Takes a run from the process that executes it."""
        process.forcing.add(run_id)
        await process.do(lambda smith: smith.resume(run_id, by="ada", force=True))
        await self.start(process, run_id)


async def _soon(act: Any) -> bool:
    act()
    return True
