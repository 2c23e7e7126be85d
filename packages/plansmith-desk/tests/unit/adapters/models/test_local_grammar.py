"""Grammars: whatever one lets a model write is JSON that its schema takes."""

from __future__ import annotations

import json
import re
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.adapters.models.local_gbnf import Writer, parse_grammar

from plansmith.formats.native import schema as plan_schema
from plansmith_desk.model import grammar
from plansmith_planner.triage import SCHEMA as TRIAGE


def texts(schema: Any, count: int = 25) -> list[str]:
    rules = parse_grammar(grammar.grammar_of(schema))
    return [Writer(rules, seed).write() for seed in range(count)]


def check(schema: Any, count: int = 25) -> list[Any]:
    validator = jsonschema_rs.validator_for(schema, validate_formats=True)
    values = [json.loads(text) for text in texts(schema, count)]
    for value in values:
        validator.validate(value)
    return values


def obj(required: tuple[str, ...] = (), **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


TREE = {
    "$ref": "#/$defs/node",
    "$defs": {
        "node": obj(
            ("name",),
            name={"type": "string"},
            children={"type": "array", "items": {"$ref": "#/$defs/node"}, "maxItems": 2},
        )
    },
}
SCHEMAS: dict[str, Any] = {
    "anything": {},
    "text": {"type": "string"},
    "short text": {"type": "string", "minLength": 2, "maxLength": 5},
    "enum": {"enum": ["a", 'quo"te', "back\\slash", 3, None, True, "中文"]},
    "const": {"const": {"a": [1, "x"]}},
    "two types": {"type": ["string", "null"]},
    "whole": {"type": "integer", "minimum": -7, "maximum": 123},
    "latitude": {"type": "number", "minimum": -90, "maximum": 90},
    "share": {"type": "number", "minimum": 0, "maximum": 1},
    "positive": {"type": "number", "exclusiveMinimum": 0},
    "below": {"type": "integer", "exclusiveMaximum": -3},
    "list": {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 4},
    "empty list": {"type": "array", "maxItems": 0},
    "pair": {
        "type": "array",
        "prefixItems": [{"type": "string"}, {"type": "integer"}],
        "minItems": 2,
    },
    "old pair": {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "array",
        "items": [{"type": "string"}, {"type": "boolean"}],
    },
    "required last": obj(
        ("b", "d"), a={"type": "string"}, b={}, c={"type": "null"}, d={"const": 1}
    ),
    "all optional": obj(a={"type": "string"}, b={"type": "integer"}, c={"type": "boolean"}),
    "required unnamed": {"type": "object", "required": ["x"]},
    "closed and empty": {"type": "object", "additionalProperties": False},
    "table": {
        "type": "object",
        "additionalProperties": {"type": "integer"},
        "minProperties": 1,
    },
    "names": {
        "type": "object",
        "patternProperties": {"^[a-z]{2,4}$": {"type": "integer"}},
        "additionalProperties": False,
    },
    "any of": {"anyOf": [{"type": "string"}, obj(("k",), k={"enum": ["v"]})]},
    "one of": {"oneOf": [{"type": "string"}, {"type": "integer"}]},
    "all of": {"allOf": [obj(("a",), a={"type": "string"}), obj(("b",), b={"type": "integer"})]},
    "tree": TREE,
    "root ref": obj(next={"$ref": "#"}, v={"type": "integer"}),
    "pointer": {
        "properties": {"a/b": {"type": "integer"}, "c": {"$ref": "#/properties/a~1b"}},
        "type": "object",
    },
    "plan": plan_schema(),
    "triage": TRIAGE,
    **{
        f"format {name}": {"type": "string", "format": name}
        for name in (
            *("date", "time", "date-time", "email", "hostname", "ipv4", "uuid", "uri"),
            "uri-reference",
        )
    },
    **{
        f"pattern {pattern}": {"type": "string", "pattern": pattern}
        for pattern in (
            r"^[A-Z]{2}\d{3}$",
            r"^(?:ab|cd)+x?$",
            r"^\w+-\w*$",
            r"^[^ \"]+$",
            "abc",
            r"^\+?[0-9 ().-]{3,8}$",
            r"^a\.b\/c$",
            r"^[\w.-]+@[\w-]+\.[a-z]{2,3}$",
            r"\.(svg|png)$",
        )
    },
}


@pytest.mark.parametrize("name", SCHEMAS)
def test_whatever_a_grammar_allows_is_valid(name: str) -> None:
    check(SCHEMAS[name])


def test_optional_fields_come_and_go_and_required_ones_stay() -> None:
    values = check(obj(("b",), a={"type": "boolean"}, b={"type": "null"}, c={"type": "null"}), 60)
    assert {tuple(value) for value in values} == {("b",), ("a", "b"), ("b", "c"), ("a", "b", "c")}


@given(st.integers(-3000, 3000), st.integers(0, 3000), st.integers(-9999, 9999))
def test_a_range_takes_exactly_the_numbers_in_it(low: int, span: int, probe: int) -> None:
    found = _regex(grammar.whole_range(low, low + span)).fullmatch(str(probe))
    assert bool(found) == (low <= probe <= low + span)


@given(st.integers(-200, 200), st.integers(0, 300), st.floats(-500, 500).map(lambda x: round(x, 3)))
def test_a_range_of_numbers_takes_none_outside(low: int, span: int, probe: float) -> None:
    found = _regex(grammar.number_range(low, low + span)).fullmatch(f"{probe:.3f}")
    if found:
        assert low <= probe <= low + span
    elif not probe.is_integer():
        assert not low < probe < low + span


def _regex(expression: str) -> re.Pattern[str]:
    """An expression of plain texts, sets, groups and repetitions as a regular expression."""
    joined = re.sub(r'"([^"]*)"', lambda found: re.escape(found[1]), expression)
    return re.compile(joined.replace(" ", ""))


LEAVES = st.sampled_from(
    [
        {"type": "string"},
        {"type": "string", "minLength": 1, "maxLength": 3},
        {"type": "integer", "minimum": 3},
        {"type": "number", "maximum": 12},
        {"type": "boolean"},
        {"enum": ["red", "green", 7]},
        {"type": "string", "format": "date"},
        {"const": None},
    ]
)


def _bigger(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    names = st.sampled_from(["a", "b b", "c.c", "中", 'q"q'])
    fields = st.dictionaries(names, inner, max_size=4)
    objects = st.builds(
        lambda props, closed: {
            "type": "object",
            "properties": props,
            "required": sorted(props)[::2],
            **({"additionalProperties": False} if closed else {}),
        },
        fields,
        st.booleans(),
    )
    arrays = st.builds(
        lambda items, least, more: {
            "type": "array",
            "items": items,
            "minItems": least,
            "maxItems": least + more,
        },
        inner,
        st.integers(0, 2),
        st.integers(0, 2),
    )
    return objects | arrays | st.lists(inner, min_size=1, max_size=3).map(lambda x: {"anyOf": x})


@given(st.recursive(LEAVES, _bigger, max_leaves=8))
def test_grammars_of_random_schemas_allow_only_what_is_valid(schema: Any) -> None:
    check(schema, 6)


@pytest.mark.parametrize(
    "pattern",
    [r"^a|b$", r"(?=a)b", r"\bword", r"a*?", r"[A-z]", r"\p{L}", "(", "[", r"(a)\1", r"[a\S]"],
)
def test_a_pattern_that_cannot_be_said_is_left_to_the_checker(pattern: str) -> None:
    assert grammar.pattern_expression(pattern) is None
    assert grammar.grammar_of({"type": "string", "pattern": pattern}).startswith(
        "root ::= string\n"
    )


def test_what_has_no_anchor_may_stand_in_any_text() -> None:
    assert len({*texts({"type": "string", "pattern": r"\.svg$"})}) > 1


@pytest.mark.parametrize(
    "schema",
    [{"$ref": "#/nowhere"}, {"$ref": "https://example.org/x"}, {"type": "strange"}, {"type": []}],
)
def test_what_is_not_understood_may_be_anything(schema: Any) -> None:
    for text in texts(schema):
        json.loads(text)
