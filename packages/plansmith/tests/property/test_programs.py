"""H8: whatever a program answers, no effect is let through by it, and its words stay marked."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.property.test_labels import World

from plansmith import Plan, RunStatus
from plansmith.app import Plansmith
from plansmith.errors import Refused
from plansmith.plan.events import Actor, QuestionAnswered
from plansmith.plan.graph import upstream
from plansmith.plan.limits import Limits

BOT = Actor(kind="program", name="bot")
WORD = "SAID-BY-A-PROGRAM"


@st.composite
def plans(draw: Any) -> Plan:
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


@given(plans(), st.booleans())
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
