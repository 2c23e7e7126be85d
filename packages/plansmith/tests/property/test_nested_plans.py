"""Random nested plans, restarted and changed anywhere: no guard opens, and none is stuck."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
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

DEPTH = 3


class World(TwoTools):
    """Counts effects by the name of the unit that made the call, and looks at its guards."""

    def __init__(self, story: Story) -> None:
        self.story = story
        self.effects: Counter[str] = Counter()
        self.answered: set[str] = set()
        self.opened: list[str] = []

    async def call(self, tool: str, arguments: Mapping[str, Json], call: Call) -> Json:
        unit = call.key.partition("/")[2].rpartition("/")[0]
        missing = self.story.guards(unit) - self.answered
        if missing:
            self.opened.append(f"{unit} before {sorted(missing)}")
        await asyncio.sleep(0)
        if tool == "pay":
            self.effects[unit] += 1
        return {"unit": unit, "arguments": dict(arguments)}


class Story:
    """A plan with its templates, where to crash, and in which order to answer."""

    def __init__(self) -> None:
        self.templates: dict[str, Plan] = {}
        self.plan = Plan(goal="g", steps=())
        self.crashes: list[tuple[int, bool]] = []
        self.picks: list[int] = []
        self.width = 16

    def guards(self, unit: str) -> set[str]:
        """The questions that a unit needs, directly or not, at every level above it."""
        plan, scope, found = self.plan, "", set[str]()
        names = unit.split("/")
        while names:
            name = names.pop(0)
            found |= {f"{scope}{each}" for each in _needed_asks(plan, name)}
            found |= self._inner_asks(plan, name, scope)
            step: Any = plan.by_id[name]
            scope = f"{scope}{name}/"
            if step.kind == "map":
                if not names:
                    break
                scope = f"{scope}{names.pop(0)}/"
                step = step.each
            if step.kind == "plan" and names:
                plan = self.templates[step.template]
        return found

    def _inner_asks(self, plan: Plan, name: str, scope: str) -> set[str]:
        """The questions inside of map and plan steps that a step needs."""
        found = set[str]()
        for need in _upstream(plan, name):
            found |= self._asks_of(plan.by_id[need], f"{scope}{need}")
        return found

    def _asks_of(self, step: Any, name: str) -> set[str]:
        match step.kind:
            case "ask":
                return {name}
            case "map":
                count = len(step.over)
                return {
                    ask for n in range(count) for ask in self._asks_of(step.each, f"{name}/{n}")
                }
            case "plan":
                inner = self.templates[step.template]
                return {
                    ask for each in inner.steps for ask in self._asks_of(each, f"{name}/{each.id}")
                }
            case _:
                return set()


def _upstream(plan: Plan, name: str) -> set[str]:
    found = set[str]()
    todo = [name]
    while todo:
        for need in plan.by_id[todo.pop()].needed - {"item", "params"}:
            if need not in found:
                found.add(need)
                todo.append(need)
    return found


def _needed_asks(plan: Plan, name: str) -> set[str]:
    return {each for each in _upstream(plan, name) if plan.by_id[each].kind == "ask"}


@st.composite
def stories(draw: Any) -> Story:
    story = Story()

    def scope(level: int) -> list[dict[str, Any]]:
        steps: list[dict[str, Any]] = []
        kinds = ["ask", "pay", "look"] + (["plan", "map"] * 2 if level < DEPTH else [])
        for number in range(draw(st.integers(1, 3))):
            earlier = [each["id"] for each in steps]
            after = draw(st.lists(st.sampled_from(earlier), unique=True)) if earlier else []
            made = {"id": f"s{number}", "after": after, **step(draw(st.sampled_from(kinds)), level)}
            steps.append(made)
        return steps

    def step(kind: str, level: int) -> dict[str, Any]:
        match kind:
            case "ask":
                return {"question": "Really?"}
            case "plan":
                return {"template": template(level)}
            case "map":
                each = {"template": template(level)} if draw(st.booleans()) else {"tool": "pay"}
                over = list(range(draw(st.integers(1, 2))))
                return {"over": over, "each": each, "width": draw(st.integers(1, 2))}
            case _:
                return {"tool": kind}

    def template(level: int) -> str:
        steps = scope(level + 1)
        name = f"t{len(story.templates)}"
        story.templates[name] = Plan.model_validate({"goal": name, "steps": steps})
        return name

    story.plan = Plan.model_validate({"goal": "g", "steps": scope(1)})
    story.crashes = draw(st.lists(st.tuples(st.integers(0, 12), st.booleans()), max_size=4))
    story.picks = draw(st.lists(st.integers(0, 7), min_size=1, max_size=12))
    story.width = draw(st.sampled_from([1, 2, 16]))
    return story


async def tell(story: Story, *, calmly: bool) -> tuple[World, Run]:
    world, store = World(story), MortalStore()
    limits = Limits(width=story.width, first_wait_s=0, data="show")

    def restarted() -> Plansmith:
        return Plansmith(tools=[world], store=store, limits=limits, templates=story.templates)

    app = restarted()
    run = await app.submit(story.plan)
    if run.plan is not None and run.status is RunStatus.REVIEWING:
        run = await app.decide(run.id, approve=run.plan.hash, by="ada")
    crashes = [] if calmly else list(story.crashes)
    for turn in range(400):
        store.appends_left, store.durable_first = crashes.pop() if crashes else (10**9, False)
        app = restarted()
        try:
            run = await app.runs.run(run.id)
        except Crash:
            store.appends_left = 10**9
            continue
        store.appends_left = 10**9
        if run.status.over:
            return world, run
        assert run.status is RunStatus.ASKING, run.status
        assert run.questions
        name = [*run.questions][story.picks[turn % len(story.picks)] % len(run.questions)]
        await _answer(app, run, name, world)
    raise AssertionError(f"it never ended: {run.questions}")


async def _answer(app: Plansmith, run: Run, name: str, world: World) -> None:
    """A person who knows the truth."""
    if name.startswith("unknown:"):
        happened = world.effects[name.removeprefix("unknown:")]
        await app.answer(run.id, name, "done" if happened else "retry")
        return
    await app.answer(run.id, name, "yes")
    world.answered.add(name)


@given(stories())
async def test_no_effect_of_a_nested_plan_comes_before_a_question_it_needs(story: Story) -> None:
    world, run = await tell(story, calmly=False)
    assert not world.opened
    calm, calm_run = await tell(story, calmly=True)
    assert not calm.opened
    assert run.status is calm_run.status is RunStatus.DONE
    assert world.effects == calm.effects
    assert set(world.effects.values()) <= {1}


WORDS = ("done", "not_done", "retry")
DEEDS = ("run", "answer", "edit", "approve", "skip", "undo", "pause", "resume", "cancel")
OFTEN = ("run", "answer", "edit", "approve") * 3


class HalfWay(TwoTools):
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

    def __init__(self, story: Story, world: HalfWay) -> None:
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
                await app.runs.skip(run.id, [*run.steps][choice % len(run.steps)])
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
    world = HalfWay(fates)
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
