"""Where arguments came from, from plans as they were proposed and changed."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plansmith import Plan, ToolSpec
from plansmith.plan import events as e
from plansmith_server.provenance import Known, known_after, plan_origins

AT = datetime(2026, 1, 1, tzinfo=UTC)
TOOLS = {
    "weather": ToolSpec(
        name="weather",
        input_schema={
            "type": "object",
            "properties": {"city": {"type": "string"}, "days": {"default": 3}},
        },
    )
}


def journal(*bodies: e.AnyBody) -> list[e.Event]:
    found: list[e.Event] = []
    for body in bodies:
        last = found[-1] if found else None
        found.append(e.next_event(body, run="r", by=e.Actor(kind="system"), at=AT, last=last))
    return found


def plan(**inputs: Any) -> Plan:
    step = {"id": "a", "kind": "tool", "tool": "weather", "inputs": inputs}
    return Plan.model_validate({"goal": "g", "steps": [step]})


def proposed(made: Plan, origin: Any = "model") -> e.PlanProposed:
    return e.PlanProposed(plan=made, origin=origin)


def test_what_the_person_said_is_theirs_and_the_rest_the_models_or_a_default() -> None:
    made = plan(city="Oslo", days=3, unit="celsius", of={"$from": "b"}, text="see {{b.x}}")
    found = known_after(
        journal(e.RunCreated(request="weather in OSLO"), proposed(made)), TOOLS, Known()
    ).marks
    assert found == {
        "a": {
            "inputs.city": "request",
            "inputs.days": "default",
            "inputs.unit": "model",
            "inputs.of": "step:b",
            "inputs.text": "step:b",
        }
    }


@pytest.mark.parametrize("origin", ["rules", "submitted", "program", "template", "rerun"])
def test_a_value_that_no_model_wrote_is_never_called_the_models_or_the_persons(origin: str) -> None:
    events = journal(e.RunCreated(request="weather in Oslo"), proposed(plan(city="Rome"), origin))
    assert known_after(events, {}, Known()).marks == {"a": {"inputs.city": origin}}


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc"), inner, max_size=3),
    max_leaves=10,
)


@given(st.dictionaries(st.text("xyz", min_size=1), VALUES, max_size=4))
def test_every_argument_of_an_untouched_plan_keeps_its_origin(inputs: dict[str, Any]) -> None:
    made = plan(**inputs)
    known = known_after(journal(e.RunCreated(request=""), proposed(made)), {}, Known()).marks
    assert plan_origins(made, made, known) == known
    assert plan_origins(made, None, {}).keys() == known.keys()
