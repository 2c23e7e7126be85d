"""Grammars: whatever one lets a model write is JSON of the shape that its schema has."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
import pytest
from tests.unit.adapters.models.toy_model import random_texts

from plansmith.formats.native import schema as plan_schema
from plansmith_desk.model import grammar
from plansmith_planner.triage import SCHEMA as TRIAGE


def texts(schema: Any, count: int = 8) -> list[str]:
    found = random_texts(grammar.grammar_of(schema), count)
    assert found
    return found


def check(schema: Any, count: int = 8) -> list[Any]:
    validator = jsonschema_rs.validator_for(shape(schema))
    values = [json.loads(text) for text in texts(schema, count)]
    for value in values:
        validator.validate(value)
    return values


LEFT_TO_THE_CHECKER = {"pattern", "minLength", "maxLength", "minimum", "maximum"}


def shape(schema: Any) -> Any:
    """A schema without what only the checker looks at."""
    if isinstance(schema, dict):
        kept = {key: each for key, each in schema.items() if key not in LEFT_TO_THE_CHECKER}
        return {key: shape(each) for key, each in kept.items()}
    return [shape(each) for each in schema] if isinstance(schema, list) else schema


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
    "enum": {"enum": ["a", 'quo"te', "back\\slash", 3, None, True, "中文"]},
    "const": {"const": {"a": [1, "x"]}},
    "two types": {"type": ["string", "null"]},
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
    "day": {"type": "string", "format": "date"},
}


@pytest.mark.parametrize("name", SCHEMAS)
def test_whatever_a_grammar_allows_is_valid(name: str) -> None:
    check(SCHEMAS[name])


def test_optional_fields_come_and_go_and_required_ones_stay() -> None:
    values = check(obj(("b",), a={"type": "boolean"}, b={"type": "null"}, c={"type": "null"}), 60)
    assert {tuple(value) for value in values} == {("b",), ("a", "b"), ("b", "c"), ("a", "b", "c")}


@pytest.mark.parametrize(
    "schema",
    [{"$ref": "#/nowhere"}, {"$ref": "https://example.org/x"}, {"type": "strange"}, {"type": []}],
)
def test_what_is_not_understood_may_be_anything(schema: Any) -> None:
    for text in texts(schema):
        json.loads(text)
