"""Random plans x failures x crash points x decisions, with invariants that hold for all of them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from plansmith import Effect, Plan, RunStatus, StepStatus, ToolSpec
from plansmith.app import Plansmith
from plansmith.errors import PlansmithError, ToolBusy, ToolFailed
from plansmith.plan.data import Content, Json
from plansmith.plan.events import Event, StepDone, StepStarted, verify_chain
from plansmith.plan.limits import BudgetLimits, Limits
from plansmith.ports import Call
from plansmith.testing import MemoryStore

EFFECTS = {"read": Effect.READ, "keyed": Effect.WRITE, "write": Effect.WRITE}


class Crash(BaseException):
    """The process dies here."""


class MortalStore(MemoryStore):
    """A store whose process dies at one of its appends, before or after it is durable."""

    def __init__(self) -> None:
        super().__init__()
        self.appends_left = 10**9
        self.durable_first = False

    async def append(
        self, events: Sequence[Event], values: Sequence[Json | Content] = (), **options: Any
    ) -> None:
        self.appends_left -= 1
        if self.appends_left < 0:
            if self.durable_first and self.appends_left == -1:
                await super().append(events, values, **options)
            raise Crash
        await super().append(events, values, **options)


class TwoTools:
    """A tool that reads and one that writes."""

    names: ClassVar[tuple[str, str]] = ("look", "pay")

    async def tools(self) -> list[ToolSpec]:
        pairs = zip(self.names, (Effect.READ, Effect.WRITE), strict=True)
        return [ToolSpec(name=name, effect=effect) for name, effect in pairs]


class Service:
    """The world outside: counts calls and effects; keyed calls take effect once a key."""

    def __init__(self, failures: Mapping[str, str]) -> None:
        self.failures = failures
        self.calls: Counter[str] = Counter()
        self.effects: Counter[str] = Counter()
        self.keys: set[str] = set()
        self.order: list[str] = []
        self.vouched: set[str] = set()  # a person says that it happened

    async def tools(self) -> list[ToolSpec]:
        return [
            ToolSpec(name=name, effect=effect, idempotent=name == "keyed")
            for name, effect in EFFECTS.items()
        ]

    async def call(self, tool: str, arguments: Mapping[str, Json], call: Call) -> Json:
        name = str(arguments["name"])
        self.calls[name] += 1
        self.order.append(name)
        failure = self.failures.get(name)
        if failure == "busy" and self.calls[name] == 1:
            raise ToolBusy("later")
        if failure == "broken":
            raise ToolFailed("no")
        await asyncio.sleep(0)
        if tool == "write" or (tool == "keyed" and call.key not in self.keys):
            self.effects[name] += 1
        self.keys.add(call.key)
        return {"name": name}


@st.composite
def stories(draw: Any) -> dict[str, Any]:
    size = draw(st.integers(1, 6))
    steps: list[dict[str, Any]] = []
    for number in range(size):
        earlier = [each["id"] for each in steps]
        after = draw(st.lists(st.sampled_from(earlier), max_size=2, unique=True)) if earlier else []
        tool = draw(st.sampled_from(list(EFFECTS)))
        inputs: dict[str, Any] = {"name": f"s{number}"}
        if after and draw(st.booleans()):
            inputs["from"] = {"$from": after[0], "$path": ["name"]}
        steps.append({"id": f"s{number}", "tool": tool, "inputs": inputs, "after": after})
    names = [each["id"] for each in steps]
    return {
        "plan": Plan.model_validate({"goal": "g", "steps": steps}),
        "failures": draw(
            st.dictionaries(st.sampled_from(names), st.sampled_from(["busy", "broken"]), max_size=2)
        ),
        "crashes": draw(st.lists(st.tuples(st.integers(0, 9), st.booleans()), max_size=3)),
        "answers": draw(st.lists(st.sampled_from(["done", "not_done", "retry"]), max_size=8)),
        "width": draw(st.integers(1, 4)),
        "budget": draw(st.none() | st.integers(1, 4)),
    }


async def tell(
    story: dict[str, Any], store: MortalStore | None = None
) -> tuple[Service, MortalStore, Any, Counter[str]]:
    service, store = Service(story["failures"]), store or MortalStore()
    limits = Limits(width=story["width"], first_wait_s=0, data="show")
    plan: Plan = story["plan"]
    retries: Counter[str] = Counter()
    budget = BudgetLimits(steps=story["budget"])
    app = Plansmith(tools=[service], store=store, limits=limits)
    run = await app.submit(plan)
    if run.status is RunStatus.REVIEWING:
        assert not service.calls
        await app.decide(run.id, approve=plan.hash, by="ada")
    crashes, answers = list(story["crashes"]), list(story["answers"])
    for _ in range(60):
        store.appends_left, store.durable_first = crashes.pop() if crashes else (10**9, False)
        app = Plansmith(tools=[service], store=store, limits=limits, budget=budget)
        try:
            run = await app.runs.run(run.id)
        except Crash:
            store.appends_left = 10**9
            continue
        store.appends_left = 10**9
        if run.status.over:
            break
        assert run.status in (RunStatus.ASKING, RunStatus.PAUSED), run.status
        assert run.questions
        if budget.steps is not None:
            most = budget.steps * (run.grants.get("budget", 0) + 1)
            assert sum(service.calls.values()) <= most
        for question in list(run.questions):
            word = "go_on" if question.startswith("budget:") else (answers or ["done"]).pop()
            answer: Json = {"done": "done"} if word == "done" else word
            step = question.removeprefix("unknown:")
            retries[step] += word == "retry"
            if word == "done":
                service.vouched.add(step)
            await app.answer(run.id, question, answer)
    return service, store, run, retries


@given(stories())
async def test_every_story_ends_and_keeps_its_promises(story: dict[str, Any]) -> None:
    service, store, run, retries = await tell(story)
    plan: Plan = story["plan"]
    assert run.status.over
    events = list(await store.events(run.id))
    verify_chain(events)

    for name, before in plan.needs.items():
        if service.calls[name]:
            first = service.order.index(name)
            assert before <= {*service.order[:first], *service.vouched}

    done = Counter(event.body.step for event in events if isinstance(event.body, StepDone))
    assert all(count == 1 for count in done.values())
    assert set(done) == {n for n, s in run.steps.items() if s.status is StepStatus.DONE}

    started = {event.body.step for event in events if isinstance(event.body, StepStarted)}
    assert set(service.calls) <= started
    _assert_effects(service, plan, retries)

    statuses = {step.status for step in run.steps.values()}
    if run.status is RunStatus.DONE:
        assert statuses == {StepStatus.DONE}
    else:
        assert StepStatus.FAILED in statuses


def _assert_effects(service: Service, plan: Plan, retries: Counter[str]) -> None:
    for step in plan.steps:
        if step.to_json()["tool"] == "keyed":
            assert service.effects[step.id] <= 1
        if step.to_json()["tool"] == "write":
            assert service.effects[step.id] <= 1 + retries[step.id]


@given(stories(), st.text(max_size=3))
async def test_nothing_with_an_effect_happens_without_the_right_hash(
    story: dict[str, Any], wrong: str
) -> None:
    service = Service({})
    app = Plansmith(tools=[service], store="memory")
    plan: Plan = story["plan"]
    assume({str(step.to_json()["tool"]) for step in plan.steps} != {"read"})
    run = await app.submit(plan)
    edited = plan.replace(steps=plan.steps[:-1])
    for guess in (wrong, plan.hash[:-1], edited.hash):
        with pytest.raises(PlansmithError):
            await app.decide(run.id, approve=guess)
    run = await app.runs.run(run.id)
    assert not service.calls
    assert run.status is RunStatus.REVIEWING
