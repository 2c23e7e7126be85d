"""Inputs filled by compiled forms are those that plain filling gives, with the same errors."""

from __future__ import annotations

import copy

from hypothesis import given
from hypothesis import strategies as st
from tests.property.strategies import JSON, TEXT

from plansmith.engine.units import Unit, resolved
from plansmith.errors import ReferenceFailed
from plansmith.plan.data import Json, canonical_json
from plansmith.plan.refs import fill
from plansmith.plan.steps import ToolStep

SOURCES = st.sampled_from(["a", "b", "item", "gone"])
PATHS = st.lists(st.sampled_from(["x", "y", 0, 1, -1, True, "0"]), max_size=2)
REFERENCES = st.one_of(
    st.builds(lambda step, path: {"$from": step, "$path": path}, SOURCES, PATHS),
    st.builds(lambda step: {"$from": step}, SOURCES),
    st.builds(lambda step, more: {"$from": step, "other": more}, SOURCES, TEXT),
    st.builds(lambda value: {"$literal": value}, JSON),
    st.builds(lambda step, text: text + "{{" + step + ".x}}" + text, SOURCES, TEXT),
    st.builds(lambda step: "{{" + step + "[0]}}", SOURCES),
    st.sampled_from(["{{", "{{a", "{{ a }}", "{{a b}}", '{{"{{"}}', '{{"}}']),
)
TEMPLATES: st.SearchStrategy[Json] = st.recursive(
    JSON | REFERENCES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)


def outcome(make: object) -> object:
    try:
        return canonical_json(make())  # type: ignore[operator]
    except ReferenceFailed as error:
        return str(error)


@given(st.dictionaries(TEXT, TEMPLATES, max_size=4), JSON, JSON)
def test_forms_fill_like_plain_filling(inputs: dict[str, Json], first: Json, second: Json) -> None:
    step = ToolStep(id="s", tool="t", inputs=inputs)
    results = {"a": first, "b": {"x": second, "y": [first, second]}}
    bound: dict[str, Json] = {"item": second}
    before = copy.deepcopy(step.inputs)
    unit = Unit("s", step, bound=bound)
    expected = outcome(lambda: fill(before, results | bound))
    # A top-level input that looks like a reference is the name of an input.
    if "$from" not in inputs and "$literal" not in inputs:
        assert outcome(lambda: resolved(unit, results)) == expected
        assert outcome(lambda: resolved(unit, results)) == expected
    assert step.inputs == before
