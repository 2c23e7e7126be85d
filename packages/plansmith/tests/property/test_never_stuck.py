"""Whatever is done to a run, it is over, waits for a named word, or goes on; nothing is doubled."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st
from tests.property.test_nested_guards import Story, stories
from tests.property.test_running import Crash, MortalStore, TwoTools

from plansmith import Plan, RunStatus, StepStatus
from plansmith.app import Plansmith
from plansmith.errors import PlansmithError, ToolFailed
from plansmith.plan.data import Json
from plansmith.plan.events import verify_chain
from plansmith.plan.limits import Limits
from plansmith.plan.run import Run
from plansmith.plan.steps import MapStep
from plansmith.ports import Call

WORDS = ("done", "not_done", "retry")
DEEDS = ("run", "answer", "edit", "approve", "skip", "undo", "pause", "resume", "cancel")
OFTEN = ("run", "answer", "edit", "approve") * 3


class World(TwoTools):
    """Payments that work, are refused, or break after the money has gone."""

    def __init__(self, fates: list[str]) -> None:
        self.fates = fates
        self.calls = 0
        self.made: Counter[str] = Counter()
        self.allowed: Counter[str] = Counter()

    async def call(self, tool: str, arguments: Mapping[str, Json], call: Call) -> Json:
        self.calls += 1
        fate = self.fates[self.calls % len(self.fates)]
        await asyncio.sleep(0)
        if fate == "refused":
            raise ToolFailed("no")
        if tool == "pay":
            self.made[call.key] += 1
        if fate == "broken":
            raise RuntimeError("half-way")
        return {"given": dict(arguments)}


class Teller:
    """Does what persons and processes do, one deed after the other."""

    def __init__(self, story: Story, world: World) -> None:
        self.story, self.world, self.store = story, world, MortalStore()
        self.run = Run(id="")

    def enter(self) -> Plansmith:
        limits = Limits(width=self.story.width, first_wait_s=0, grace_s=0.01, data="show")
        return Plansmith(
            tools=[self.world], store=self.store, limits=limits, templates=self.story.templates
        )

    async def look(self) -> Run:
        self.run = await self.enter().get(self.run.id)
        return self.run

    async def do(self, deed: str, choice: int) -> None:
        run = await self.look()
        if run.status.over:
            return
        # What is not possible as things stand is refused, and changes nothing.
        with suppress(PlansmithError):
            await self._do(deed, run, choice)

    async def _do(self, deed: str, run: Run, choice: int) -> None:
        app = self.enter()
        assert run.plan is not None
        match deed:
            case "answer" if run.questions:
                await self.answer(run, [*run.questions][choice % len(run.questions)], choice)
            case "skip":
                await app.runs.stopping.skip(run.id, [*run.steps][choice % len(run.steps)])
            case "edit":
                await app.edit(run.id, _edited(run.plan, choice))
            case "approve":
                await app.decide(run.id, approve=run.plan.hash)
            case "run":
                await app.runs.run(run.id)
            case "undo":
                await app.runs.editing.undo(run.id)
            case "pause" | "resume" | "cancel":
                await getattr(app, deed)(run.id)
            case _:
                return

    async def answer(self, run: Run, question: str, choice: int) -> None:
        asked = run.questions[question]
        word = "yes" if asked.kind != "unknown" else WORDS[choice % 3]
        await self.enter().answer(run.id, question, word)
        if word in ("retry", "not_done"):
            self.world.allowed[str(asked.step)] += 1

    async def finish(self) -> None:
        """What a patient person does, who answers everything and wants nothing changed."""
        for _ in range(300):
            run = await self.look()
            if run.status.over:
                return
            if run.paused:
                await self.enter().resume(run.id)
            elif run.phase is RunStatus.REVIEWING and not run.is_approved:
                assert run.plan is not None
                await self.enter().decide(run.id, approve=run.plan.hash)
            elif run.questions and run.status is RunStatus.ASKING:
                await self.answer(run, next(iter(run.questions)), 0)
            before = run.last
            after = await self.enter().runs.run(run.id)
            moved = after.last != before or after.status.over
            assert moved or after.questions or after.paused, after.status
        raise AssertionError(f"it is stuck: {self.run.status} {self.run.questions}")


def _edited(plan: Plan, choice: int) -> Plan:
    """Another plan, made of this one in one of several ways."""
    steps = list(plan.steps)
    place = choice % len(steps)
    step = steps[place]
    match choice % 5:
        case 0 if len(steps) > 1:
            steps = [each.replace(after=()) for each in steps if each is not step]
        case 1 if isinstance(step, MapStep) and isinstance(step.over, list):
            steps[place] = step.replace(over=[*reversed(step.over), choice])
        case 2:
            steps[place] = step.replace(disabled=not step.disabled)
        case 3 if step.kind in ("tool", "plan"):
            steps[place] = step.replace(inputs={"n": choice})
        case _:
            steps[place] = step.replace(title=f"title {choice}")
    return plan.replace(steps=tuple(steps))


@given(
    stories(),
    st.lists(st.tuples(st.sampled_from(DEEDS + OFTEN), st.integers(0, 19)), max_size=16),
    st.lists(st.sampled_from(["fine", "fine", "refused", "broken"]), min_size=1, max_size=5),
    st.lists(st.tuples(st.integers(0, 8), st.booleans()), max_size=3),
)
async def test_a_run_to_which_anything_was_done_still_comes_to_an_end(
    story: Story, deeds: list[tuple[str, int]], fates: list[str], crashes: list[tuple[int, bool]]
) -> None:
    world = World(fates)
    teller = Teller(story, world)
    teller.run = await teller.enter().submit(story.plan)
    await teller.do("approve", 0)
    for number, (deed, choice) in enumerate(deeds):
        if number < len(crashes):
            teller.store.appends_left, teller.store.durable_first = crashes[number]
        with suppress(Crash):
            await teller.do(deed, choice)
        teller.store.appends_left = 10**9
    await teller.finish()

    verify_chain(list(await teller.store.events(teller.run.id)))
    for key, count in world.made.items():
        unit = key.partition("/")[2].rpartition("/")[0]
        assert count <= 1 + world.allowed[unit], key
    statuses = {state.status for state in teller.run.steps.values()}
    assert not statuses & {StepStatus.RUNNING, StepStatus.ASKING, StepStatus.WAITING}
