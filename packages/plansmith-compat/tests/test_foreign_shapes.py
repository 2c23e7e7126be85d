"""Plans written in the shapes of the five systems, and read again."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.property.strategies import TEXT, plans

from plansmith import Plan
from plansmith.formats.dialect import Reading, Writing, dialect, dialect_names
from plansmith.plan.refs import escape_text
from plansmith_compat.spring.dialects import write_as

Writer = Callable[[Plan], Writing]
Shape = tuple[str, Writer]
SHAPES: dict[str, Shape] = {
    "sage": ("sage", lambda plan: dialect("sage").write(plan, None)),
    "openmanus": ("openmanus", lambda plan: dialect("openmanus").write(plan, None)),
    "valuecell": ("valuecell", lambda plan: dialect("valuecell").write(plan, None)),
    "deerflow": ("deerflow", lambda plan: dialect("deerflow").write(plan, None)),
    "nl2sql": ("spring", lambda plan: write_as("nl2sql", plan)),
    "jmanus": ("spring", lambda plan: write_as("jmanus", plan)),
    "deepresearch": ("spring", lambda plan: write_as("deepresearch", plan)),
}
AGENTS = ["researcher", "coder", "analyst", "sql_writer", "BROWSER_AGENT"]
WORDS = TEXT.filter(lambda text: bool(text.strip()))


@st.composite
def chains(draw: st.DrawFn) -> Plan:
    """Plans for agents that see what came before them, or nothing."""
    agents = draw(st.lists(st.sampled_from(AGENTS), max_size=4))
    steps: list[dict[str, Any]] = []
    for place, agent in enumerate(agents, start=1):
        before = {str(step["id"]): {"$from": step["id"]} for step in steps}
        inputs = before if draw(st.booleans()) else {}
        task = escape_text(draw(WORDS))
        steps.append({"id": f"s{place}", "agent": agent, "task": task, "inputs": inputs})
    if draw(st.booleans()):
        steps.append({"id": f"s{len(steps) + 1}", "instruction": escape_text(draw(WORDS))})
    goal, enough = draw(WORDS | st.just("")), draw(st.booleans())
    return Plan.model_validate({"goal": goal, "enough_context": enough, "steps": steps})


def back(shape: str, written: Writing) -> Reading:
    return dialect(SHAPES[shape][0]).read(json.loads(json.dumps(written.value)))


@pytest.mark.parametrize("shape", SHAPES)
@given(plan=chains() | plans(4))
def test_whatever_does_not_come_back_was_told(shape: str, plan: Plan) -> None:
    written = SHAPES[shape][1](plan)
    found = back(shape, written)
    if not written.lost and plan.steps:
        assert found.plan == plan.replace(revision=1)
    assert all(each.code == "PS017" and each.message and each.hint for each in written.lost)
    lost = {each.step for each in written.lost}
    count = len(found.plan.steps) if found.plan else 0
    # A report at the end goes without saying in the shapes of research.
    assert count >= len([step for step in plan.steps if step.id not in lost])


@pytest.mark.parametrize("shape", SHAPES)
@given(plan=chains() | plans(4))
def test_a_plan_that_was_written_and_read_once_loses_nothing_more(shape: str, plan: Plan) -> None:
    first = back(shape, SHAPES[shape][1](plan)).plan
    assume(first is not None and first.steps)
    assert first is not None
    again = SHAPES[shape][1](first)
    # SAGE and OpenManus tell each time that references stay as they are written.
    assert again.lost == () or shape in ("sage", "openmanus")
    assert back(shape, again).plan == first


NATIVE: list[dict[str, Any]] = [
    {"id": "look", "title": "Look", "tool": "weather", "inputs": {"city": "Oslo"}},
    {"id": "think", "agent": "researcher", "task": "why {{look.text}}", "title": "x"},
    {"id": "late", "agent": "researcher", "task": "go", "timeout_s": 60.0},
    {"id": "ask", "question": "sure?"},
    {"id": "all", "over": {"$from": "look"}, "each": {"agent": "a", "task": "{{item}}"}},
    {"id": "week", "template": "weekly"},
    {"id": "off", "agent": "coder", "task": "never", "disabled": True},
    {"id": "end", "instruction": "Tell {{think}}"},
]


@pytest.mark.parametrize("shape", SHAPES)
def test_what_a_shape_cannot_hold_of_a_step_is_told_at_that_step(shape: str) -> None:
    plan = Plan.model_validate({"goal": "g", "steps": NATIVE})
    lost = SHAPES[shape][1](plan).lost
    assert {each.step for each in lost} >= set(plan.by_id)
    own = shape in ("sage", "nl2sql")  # no agents, or only those of its nodes
    assert own or ("late", ("timeout_s",)) in {(each.step, each.path) for each in lost}


@pytest.mark.parametrize("shape", dialect_names())
@settings(max_examples=20)
@given(place=st.integers(0, 8), depth=st.integers(65, 900))
def test_a_plan_nested_without_end_is_refused_in_every_shape(
    shape: str, place: int, depth: int
) -> None:
    steps = [{"id": "s1", "tool": "look", "inputs": {"q": "QQ", "n": [1, {"a": "QQ"}]}}]
    plan = Plan.model_validate({"goal": "QQ", "steps": [*steps, {"id": "s2", "instruction": "QQ"}]})
    text = json.dumps(dialect(shape).write(plan, None).value)
    marks = [each.start() for each in re.finditer('"QQ"', text)]
    start = marks[place % len(marks)]
    deep = json.loads(text[:start] + '{"a":' * depth + "1" + "}" * depth + text[start + 4 :])
    read = dialect(shape).read(deep)
    assert (read.plan, [each.code for each in read.problems]) == (None, ["PS007"])
