from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.property.strategies import JSON, TEXT, plan_values, plans

from plansmith import check_plan, plan_hash, try_read_plan
from plansmith.formats.native import schema, to_json, to_yaml
from plansmith.plan.data import Json, canonical_json, parse_json
from plansmith.plan.plan import Plan
from plansmith.plan.refs import escape_text, fill, fill_text

_SHAPED = st.dictionaries(
    st.sampled_from(["goal", "steps", "schedule", "id", "after", "each", "kind", "tool", "x"]),
    JSON | st.lists(st.dictionaries(st.sampled_from(["id", "kind", "tool", "over", "each"]), JSON)),
)

VALIDATOR = jsonschema_rs.validator_for(schema())


@given(plans())
def test_a_plan_survives_json_and_yaml(plan: Plan) -> None:
    assert try_read_plan(to_json(plan)) == plan
    assert try_read_plan(to_yaml(plan)) == plan
    assert try_read_plan(plan.to_json()) == plan


@given(plans())
def test_every_plan_is_valid_under_the_published_schema(plan: Plan) -> None:
    VALIDATOR.validate(plan.to_json())


@given(plans())
def test_the_text_of_a_plan_is_what_its_fields_are_stored_as(plan: Plan) -> None:
    stored = canonical_json(parse_json(plan.stored_text()))
    assert stored == canonical_json(plan.model_dump(mode="json", exclude_defaults=True))
    for step in plan.steps:
        assert canonical_json(step.stored()) == canonical_json(step.to_json())
    again = Plan.model_validate_json(plan.stored_text())
    assert (again, again.hash) == (plan, plan.hash)
    assert again.stored_text() == plan.stored_text()
    for step, kept in zip(plan.steps, again.steps, strict=True):
        assert json.dumps(getattr(step, "inputs", 0)) == json.dumps(getattr(kept, "inputs", 0))


@given(plan_values())
def test_a_plan_means_the_same_from_python_and_from_json(value: dict[str, Any]) -> None:
    from_python = try_read_plan(value)
    assert isinstance(from_python, Plan)
    assert try_read_plan(json.dumps(value)) == from_python
    assert Plan.model_validate_json(json.dumps(value)) == from_python


@given(plans(), TEXT)
def test_the_hash_ignores_prose(plan: Plan, prose: str) -> None:
    steps = [step.to_json() | {"title": prose, "why": prose} for step in plan.steps]
    described = Plan.model_validate(
        plan.to_json() | {"goal": prose, "thought": prose, "id": prose, "steps": steps}
    )
    assert plan_hash(described) == plan_hash(plan)


@given(plans(), st.data())
def test_the_hash_sees_every_argument(plan: Plan, data: st.DataObject) -> None:
    with_inputs = [each for each in plan.to_json()["steps"] if each.get("inputs")]  # type: ignore[union-attr]
    assume(with_inputs)
    step: Any = data.draw(st.sampled_from(with_inputs))
    name = data.draw(st.sampled_from(sorted(step["inputs"])))
    value = data.draw(JSON)
    assume(canonical_json(value) != canonical_json(step["inputs"][name]))
    changed = {**step, "inputs": {**step["inputs"], name: value}}
    steps = [changed if each is step else each for each in _steps(plan, step)]
    other = Plan.model_validate(plan.to_json() | {"steps": steps})
    assert plan_hash(other) != plan_hash(plan)


def _steps(plan: Plan, step: Any) -> list[Any]:
    return [step if each.id == step["id"] else each.to_json() for each in plan.steps]


@given(plans(), st.randoms(use_true_random=False))
def test_the_hash_ignores_the_order_in_which_steps_are_written(plan: Plan, random: Any) -> None:
    steps = list(plan.steps)
    random.shuffle(steps)
    assert plan.replace(steps=tuple(steps)).hash == plan.hash


@given(TEXT, TEXT)
def test_an_escaped_text_is_filled_as_itself(text: str, more: str) -> None:
    value = text + "{{" + more + "}}"
    assert fill_text(escape_text(value), {}) == value
    assert fill(escape_text(value), {}) == value


@given(JSON)
def test_filling_leaves_no_reference_and_never_looks_at_a_result_again(value: Json) -> None:
    hostile: Json = {"$from": "b", "text": "{{b.secret}}", "v": value}
    template: Json = {"a": {"$from": "a"}, "t": "{{a.text}}", "l": ["x {{a.v}}", "{{a}}"]}
    filled: Any = fill(template, {"a": hostile, "b": {"secret": "leaked"}})
    assert filled["a"] == hostile
    assert filled["t"] == "{{b.secret}}"
    assert filled["l"][1] == hostile
    assert "leaked" not in json.dumps(filled)


@given(st.text() | JSON | _SHAPED)
def test_reading_and_checking_never_raise_on_any_value(value: Json) -> None:
    found = try_read_plan(value)
    if isinstance(found, Plan):
        check_plan(found, {})
    else:
        assert found
        assert all(each.code and each.hint for each in found)
