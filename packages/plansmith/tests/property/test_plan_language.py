"""The plan language: canonical text, JSON and YAML, references, hashes, and the order of steps."""

from __future__ import annotations

import copy
import json
import math
from decimal import Decimal
from hashlib import sha256
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.property.strategies import JSON, TEXT, plan_values, plans

from plansmith import check_plan, plan_hash, try_read_plan
from plansmith.errors import PlanInvalid
from plansmith.formats.native import schema, to_json, to_yaml
from plansmith.plan.data import Json, canonical_hash, canonical_json, content_of, parse_json
from plansmith.plan.graph import cycle_problems, order, upstream
from plansmith.plan.plan import Plan
from plansmith.plan.refs import escape_text, fill, fill_text

# Where the shortest forms of different encoders part: around 1e16, below 1e-4, and everywhere else.
NUMBERS = (
    st.floats(allow_nan=False, allow_infinity=False)
    | st.floats(min_value=1e14, max_value=1e18)
    | st.floats(min_value=1e-8, max_value=1e-2)
    | st.integers()
    | st.integers(-(10**18), 10**18).map(float)
)
SCALARS = st.none() | st.booleans() | NUMBERS | st.text() | st.sampled_from(["null", ":1e5"])
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(max_size=4) | st.just(",1e5"), inner, max_size=4)
    ),
    max_leaves=12,
)


def slow(value: object, *, sort_keys: bool = True) -> bytes:
    """The canonical text by its rules alone, as a program in another language would write it."""
    return _written(value, sort_keys=sort_keys).encode()


def _written(value: Any, *, sort_keys: bool) -> str:
    match value:
        case dict():
            keys = sorted(value, key=str.encode) if sort_keys else value
            fields = (f"{_quoted(key)}:{_written(value[key], sort_keys=sort_keys)}" for key in keys)
            return "{" + ",".join(fields) + "}"
        case list():
            return "[" + ",".join(_written(each, sort_keys=sort_keys) for each in value) + "]"
        case float():
            return _number(value)
        case str():
            return _quoted(value)
        case _:
            return json.dumps(value)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _number(number: float) -> str:
    """The shortest digits that read back as the number: plain from 1e-5 to below 1e16."""
    sign, found, exponent = Decimal(repr(number)).as_tuple()
    digits = "".join(map(str, found)).rstrip("0") or "0"
    point = len(found) + int(exponent)  # how many digits stand before the decimal point
    minus = "-" if sign else ""
    if not number:
        return f"{minus}0.0"
    if 0 < point <= 16:
        return f"{minus}{digits[:point].ljust(point, '0')}.{digits[point:] or '0'}"
    if -5 < point <= 0:
        return f"{minus}0.{'0' * -point}{digits}"
    rest = f".{digits[1:]}" if digits[1:] else ""
    return f"{minus}{digits[0]}{rest}e{point - 1}"


@given(VALUES)
def test_the_canonical_text_of_a_value_follows_from_its_rules(value: Any) -> None:
    assert canonical_json(value) == slow(value)
    assert slow(parse_json(canonical_json(value))) == slow(value)


def test_true_one_and_one_point_zero_are_three_values() -> None:
    assert canonical_json([True, 1, 1.0]) == b"[true,1,1.0]"
    value = {"é": [1e16, 1e-6, 0.00001, -0.0], "a": {"z": None, "b": 123456789.25}}
    text = '{"a":{"b":123456789.25,"z":null},"é":[1e16,1e-6,0.00001,-0.0]}'
    assert canonical_json(value).decode() == text
    assert canonical_hash(value) == sha256(text.encode()).hexdigest()


@given(VALUES)
def test_a_stored_value_keeps_its_keys_in_their_order(value: Any) -> None:
    content = content_of(value)
    assert content.text == slow(value, sort_keys=False)
    assert content_of(content.value()) == content
    assert canonical_hash(content.value()) == sha256(slow(value)).hexdigest()


WRITTEN = st.decimals(allow_nan=False, allow_infinity=False, places=2).map(lambda n: f"{n:f}")


@given(st.lists(st.dictionaries(st.text(), WRITTEN | st.just("1.50e3"), max_size=4)))
def test_a_stored_number_keeps_its_digits(rows: list[dict[str, str]]) -> None:
    text = "[" + ",".join(_object(row) for row in rows) + "]"
    assert content_of(parse_json(text)).text == text.encode()
    assert content_of([parse_json(text), None, 1e-7]).text == f"[{text},null,1e-7]".encode()
    assert copy.deepcopy(parse_json(text)) == parse_json(text)


def _object(row: dict[str, str]) -> str:
    return "{" + ",".join(f"{slow(key).decode()}:{number}" for key, number in row.items()) + "}"


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_a_number_that_json_cannot_hold_never_becomes_text(number: float) -> None:
    for value in (number, [number], {"a": {"b": number}}):
        with pytest.raises(ValueError, match="not JSON compliant"):
            canonical_json(value)


@pytest.mark.parametrize("value", ["\ud800", ["\ud800"], {"\ud800": 1}])
def test_half_a_letter_never_becomes_text(value: Any) -> None:
    with pytest.raises(UnicodeEncodeError):
        canonical_json(value)


GRAPHS = st.integers(1, 12).flatmap(
    lambda size: st.lists(
        st.tuples(st.integers(0, size - 1), st.integers(0, size - 1)), max_size=25
    ).map(lambda edges: _graph(size, edges))
)


def _graph(size: int, edges: list[tuple[int, int]]) -> dict[str, frozenset[str]]:
    graph: dict[str, frozenset[str]] = {f"n{number}": frozenset() for number in range(size)}
    for node, need in edges:
        graph[f"n{node}"] |= {f"n{need}"}
    return graph


def _reaches_itself(graph: dict[str, frozenset[str]]) -> bool:
    return any(node in upstream(graph, [node]) for node in graph)


@given(plans(10))
def test_order_respects_every_need(plan: Plan) -> None:
    graph = plan.needs
    ordered = order(graph)
    assert sorted(ordered) == sorted(graph)
    place = {node: index for index, node in enumerate(ordered)}
    assert all(place[need] < place[node] for node in graph for need in graph[node])


@given(GRAPHS)
def test_a_graph_has_an_order_exactly_when_it_has_no_ring(graph: dict[str, frozenset[str]]) -> None:
    found = cycle_problems(graph)
    assert bool(found) == _reaches_itself(graph)
    if found:
        assert found[0].step in upstream(graph, [str(found[0].step)])
        with pytest.raises(PlanInvalid):
            order(graph)
    else:
        assert len(order(graph)) == len(graph)


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
    stored = canonical_json(parse_json(plan.stored_text))
    assert stored == canonical_json(plan.model_dump(mode="json", exclude_defaults=True))
    for step in plan.steps:
        assert canonical_json(step.stored()) == canonical_json(step.to_json())
    again = Plan.model_validate_json(plan.stored_text)
    assert (again, again.hash) == (plan, plan.hash)
    assert again.stored_text == plan.stored_text
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
    steps = [changed if each is step else each for each in _with_step(plan, step)]
    other = Plan.model_validate(plan.to_json() | {"steps": steps})
    assert plan_hash(other) != plan_hash(plan)


def _with_step(plan: Plan, step: Any) -> list[Any]:
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
