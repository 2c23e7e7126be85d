"""I2 and H8: no value out of a tool, and no word of a program, reaches an effect on its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.property.test_running import TwoTools

from plansmith import Plan, RunStatus
from plansmith.app import Plansmith
from plansmith.errors import Refused
from plansmith.plan.data import Json
from plansmith.plan.earlier import EarlierResult
from plansmith.plan.events import Actor, QuestionAnswered
from plansmith.plan.graph import upstream
from plansmith.plan.limits import Limits
from plansmith.plan.run_options import RunOptions
from plansmith.ports import Call
from plansmith.runs.intake import NewRun
from plansmith_planner.threads.earlier_results import results_of

MARK = "CAME-OUT-OF-A-TOOL"
EARLIER = "run:r1/found"
FIRST = Plan.model_validate({"goal": "g", "steps": [{"id": "found", "tool": "read"}]})


class World(TwoTools):
    """Tools whose every output is marked; the arguments of calls that write, by key."""

    names = "read", "write"

    def __init__(self) -> None:
        self.written: dict[str, str] = {}

    async def call(self, tool: str, arguments: Mapping[str, Json], call: Call) -> Json:
        if tool == "write":
            self.written[call.key] = str(arguments)
        return {"text": MARK, "list": [MARK, MARK]}


def ids() -> Callable[[], str]:
    numbers = count(1)
    return lambda: f"r{next(numbers)}"


@st.composite
def plans(draw: Any) -> Plan:
    steps: list[dict[str, Any]] = []
    for number in range(draw(st.integers(2, 6))):
        earlier = [each["id"] for each in steps if each["id"] != "q"]
        source = draw(st.sampled_from(earlier)) if earlier else None
        inputs: dict[str, Any] = {"n": number}
        kind = draw(st.sampled_from(["plain", "ref", "text", "asked", "map"]))
        if draw(st.integers(0, 3)) == 0:
            source = EARLIER
        name = f"s{number}"
        tool = draw(st.sampled_from(["read", "write"]))
        if kind == "ref" and source:
            inputs["x"] = {"deep": [{"$from": source}]}
        elif kind == "text" and source:
            inputs["x"] = "say {{" + source + "}}"
        elif kind == "asked":
            if not any(each["id"] == "q" for each in steps):
                steps.append({"id": "q", "question": "what?"})
            inputs["x"] = "{{q}}"
        if kind == "map" and source and not source.startswith("m"):
            each = {"tool": tool, "inputs": {"item": {"$from": "item"}}}
            over = {"$from": source, "$path": ["list"]}
            steps.append({"id": f"m{number}", "over": over, "each": each})
        else:
            steps.append({"id": name, "tool": tool, "inputs": inputs})
    return Plan.model_validate({"goal": "g", "steps": steps})


async def finish(app: Plansmith, plan: Plan, word: str) -> Any:
    before = await app.submit(FIRST)
    earlier = results_of([await app.runs.run(before.id)])

    async def found(_: str, __: int | None) -> Sequence[EarlierResult]:
        return earlier

    setattr(app.runs.registry.conversations, "results", found)  # noqa: B010
    options = RunOptions(thread="talk", message=2)
    run = (await app.runs.create(NewRun("next", plan, options=options, by="ada"))).run
    assert set(run.pins) == ({EARLIER} if EARLIER in str(plan.to_json()) else set())
    if run.status is RunStatus.REVIEWING:
        await app.decide(run.id, approve=plan.hash, by="ada")
    asked = 0
    for _ in range(60):
        run = await app.runs.run(run.id)
        if run.status.over:
            return run, asked
        for question in list(run.questions):
            about_data = question.startswith("data:")
            asked += about_data
            await app.answer(run.id, question, word if about_data else "mine", by="ada")
    raise AssertionError(run.status)


@given(plans(), st.sampled_from(["refuse", "deny"]))
async def test_no_data_reaches_an_effect_unless_a_person_allows_these_values(
    plan: Plan, mode: str
) -> None:
    world = World()
    limits = Limits(first_wait_s=0, data="deny" if mode == "deny" else "ask")
    app = Plansmith(tools=[world], limits=limits, ids=ids())
    run, asked = await finish(app, plan, "refuse")
    assert not any(MARK in written for written in world.written.values())
    if mode == "deny":
        assert asked == 0
    reaches = run.status is not RunStatus.DONE
    allowing = World()
    app = Plansmith(tools=[allowing], limits=Limits(first_wait_s=0, data="ask"), ids=ids())
    run, asked = await finish(app, plan, "allow")
    assert run.status is RunStatus.DONE
    assert (asked > 0) == reaches
    assert any(MARK in written for written in allowing.written.values()) == reaches


BOT = Actor(kind="program", name="bot")
WORD = "SAID-BY-A-PROGRAM"


@st.composite
def asking_plans(draw: Any) -> Plan:
    """Questions, reads, writes and maps that need each other by order or by reference."""
    steps: list[dict[str, Any]] = [{"id": "s0", "question": "which?"}]
    for number in range(1, draw(st.integers(2, 7))):
        names = [each["id"] for each in steps]
        before = draw(st.lists(st.sampled_from(names), max_size=2, unique=True))
        asked = [each["id"] for each in steps if "question" in each]
        inputs: dict[str, Any] = {"n": number}
        if draw(st.booleans()):
            inputs["x"] = {"$from": draw(st.sampled_from(asked))}
        kind = draw(st.sampled_from(["ask", "read", "write", "map"]))
        step: dict[str, Any] = {"id": f"s{number}", "after": before}
        if kind == "ask":
            step |= {"question": "and which?"}
        elif kind == "map":
            step |= {"over": [1, 2], "each": {"tool": "write", "inputs": inputs}}
        else:
            step |= {"tool": kind, "inputs": inputs}
        steps.append(step)
    return Plan.model_validate({"goal": "g", "steps": steps})


@given(asking_plans(), st.booleans())
async def test_no_effect_waits_for_a_programs_word(plan: Plan, restarts: bool) -> None:
    world = World()
    smith = Plansmith(tools=[world], limits=Limits(data="show", first_wait_s=0))
    run = await smith.submit(plan, by=BOT)
    if run.status is RunStatus.REVIEWING:
        await smith.decide(run.id, approve=plan.hash, by="ann")
    answered: set[str] = set()
    while True:
        run = await smith.runs.run(run.id)
        before = len(answered)
        for question in run.questions:
            try:
                await smith.answer(run.id, question, WORD, by=BOT)
            except Refused:
                continue
            answered.add(question)
        if restarts:
            store = smith.store
            smith = Plansmith(tools=[world], store=store, limits=smith.runs.execution.limits)
        if len(answered) == before:
            break
    graph = plan.needs
    for key, arguments in world.written.items():
        assert not upstream(graph, [key.split("/")[1]]) & answered
        assert WORD not in arguments
    # What was left open is what something that acts waits for, and nothing else.
    writes = {s.id for s in plan.steps if s.kind == "map" or getattr(s, "tool", "") == "write"}
    guards = {each for write in writes for each in upstream(graph, [write]) - {write}}
    assert set(run.questions) <= guards
    events = [each async for each in smith.events(run.id)]
    assert all(each.by == BOT for each in events if isinstance(each.body, QuestionAnswered))
