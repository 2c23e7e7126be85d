"""Converts a JSON Schema to a grammar with which llama.cpp constrains a model.

A grammar gives the shape of a value: its type, its fields and its choices. Patterns, lengths and
limits of numbers are left to the checker.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, cast
from urllib.parse import unquote

from plansmith.plan.data import Json

Schema = Mapping[str, Any]

_MOST: Final = 256  # repetitions that a grammar spells out
_DEEPEST: Final = 24  # schemas inside each other before anything goes
# What a schema without a type implies.
_SIGNS: Final = {
    "object": {"properties", "required", "additionalProperties"},
    "array": {"items", "prefixItems"},
}
_TYPES: Final = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    type(None): "null",
    dict: "object",
    list: "array",
}
# The rules of every grammar, which expressions name.
_RULES: Final = {
    "ws": '" "?',
    "char": '[^"\\\\\\x00-\\x1f\\x7f] | "\\\\" ["\\\\/bfnrt]',
    "string": '"\\"" char* "\\""',
    "whole": '"-"? ("0" | [1-9] [0-9]{0,14})',
    "number": 'whole ("." [0-9]{1,12})?',
    "boolean": '"true" | "false"',
    "null": '"null"',
    "value": "object | array | string | number | boolean | null",
    "array": '"[" ws (value ("," ws value)*)? "]"',
    "object": '"{" ws (pair ("," ws pair)*)? "}"',
    "pair": 'string ":" ws value',
    "day": '[0-9]{4} "-" [01] [0-9] "-" [0-3] [0-9]',
    "moment": '[0-2] [0-9] ":" [0-5] [0-9] ":" [0-5] [0-9] ("Z" | [+-] [0-9]{2} ":" [0-9]{2})',
}
_FORMATS: Final = {"date": "day", "time": "moment", "date-time": 'day "T" moment'}


def grammar_of(schema: Mapping[str, Json]) -> str:
    """Returns the grammar of all JSON texts that a schema allows."""
    book = GrammarBook(schema)
    return book.text(book.value(schema))


def literal(text: str) -> str:
    """Returns an expression for exactly this text."""
    plain = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + re.sub(r"[\x00-\x1f]", lambda sign: f"\\x{ord(sign[0]):02x}", plain) + '"'


def exactly(value: Json) -> str:
    """Returns an expression for exactly this JSON value."""
    return literal(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def quoted(expression: str) -> str:
    """Returns an expression for a text in quotation marks."""
    return f'"\\"" {expression} "\\""'


class GrammarBook:
    """Collects the rules of one grammar; expressions refer to them by name.

    `without` are characters that no text may contain, written as members of a set.
    """

    def __init__(self, root: Schema | None = None, *, without: str = "") -> None:
        self._root = root or {}
        self._without = without
        self._rules: dict[str, str] = {}
        self._names: dict[object, str] = {}
        self._deep = 0

    def text(self, root: str) -> str:
        char = _RULES["char"].replace("\\x7f]", f"\\x7f{self._without}]")
        rows = {"root": root, **_RULES, "char": char, **self._rules}
        return "\n".join(f"{name} ::= {expression}" for name, expression in rows.items()) + "\n"

    def rule(self, expression: str) -> str:
        """Adds an expression as a rule and returns its name; equal expressions share one."""
        name = self._names.get(expression)
        if name is None:
            name = self._names[expression] = f"r{len(self._names)}"
            self._rules[name] = expression
        return name

    def within(self, root: Schema, schema: Any) -> str:
        """Returns the expression of a subschema whose references point into `root`."""
        before, self._root = self._root, root
        found = self.value(schema)
        self._root = before
        return found

    def value(self, schema: Any) -> str:
        if not isinstance(schema, Mapping) or self._deep > _DEEPEST:
            return "value"
        self._deep += 1
        found = self._value(cast("Schema", schema))
        self._deep -= 1
        return found

    def _value(self, schema: Schema) -> str:
        if "$ref" in schema:
            return self._reference(str(schema["$ref"]))
        if "const" in schema:
            return exactly(schema["const"])
        if schema.get("enum"):
            kinds = _kinds(schema)
            fitting = [each for each in schema["enum"] if _TYPES[type(each)] in kinds]
            return self._either(map(exactly, fitting or schema["enum"]))
        for word in ("anyOf", "oneOf", "allOf"):
            if schema.get(word):
                rest = {key: each for key, each in schema.items() if key != word}
                if word != "allOf":
                    return self._either(self.value(_merged(rest, each)) for each in schema[word])
                for each in schema[word]:
                    rest = _merged(rest, self._resolved(each))
                return self.value(rest)
        implied = [kind for kind, signs in _SIGNS.items() if not signs.isdisjoint(schema)]
        return self._either(self._kind(each, schema) for each in _kinds(schema) or implied or [""])

    def _kind(self, kind: str, schema: Schema) -> str:
        match kind:
            case "object":
                return self._object(schema)
            case "array":
                return self._array(schema)
            case "string":
                return self._string(schema)
            case "integer":
                return "whole"
            case "number" | "boolean" | "null":
                return kind
            case _:
                return "value"

    def _either(self, parts: Iterable[str]) -> str:
        several = list(dict.fromkeys(parts))
        return self.rule(" | ".join(several)) if len(several) > 1 else several[0]

    def _reference(self, pointer: str) -> str:
        """Returns a rule for the target of a pointer; the target may refer to itself."""
        key = (id(self._root), pointer)
        if key in self._names:
            return self._names[key]
        target = self._at(pointer)
        if target is None:
            return "value"
        name = self._names[key] = f"r{len(self._names)}"
        self._rules[name] = ""
        deep, self._deep = self._deep, 0
        self._rules[name] = self.value(target)
        self._deep = deep
        return name

    def _resolved(self, schema: Any) -> Any:
        known = cast("dict[str, Any]", schema) if isinstance(schema, dict) else None
        return self._at(str(known["$ref"])) if known and "$ref" in known else cast("Any", schema)

    def _at(self, pointer: str) -> Any:
        """Returns what a pointer within the schema points at; None if it is nothing."""
        place: Any = self._root if pointer.startswith("#") else None
        for part in pointer.split("/")[1:]:
            key = unquote(part).replace("~1", "/").replace("~0", "~")
            if isinstance(place, list):
                place = {str(at): each for at, each in enumerate(cast("Any", place))}
            place = cast("Schema", place).get(key) if isinstance(place, Mapping) else None
        return place

    def _object(self, schema: Schema) -> str:
        properties = cast("Mapping[str, Any]", schema.get("properties") or {})
        required = [str(each) for each in schema.get("required") or ()]
        # A required name without a schema of its own may hold anything.
        named = {**properties, **{name: True for name in required if name not in properties}}
        fields = {name: self.value(each) for name, each in named.items() if each is not False}
        if fields:
            return self.record(fields, required)
        if schema.get("additionalProperties") is False:
            return '"{" "}"'
        content = self.value(schema.get("additionalProperties", True))
        pair = self.rule(f'string ":" ws {content}')
        return self.rule(f'"{{" {self._several(pair, _bounds(schema, "Properties"))} "}}"')

    def record(self, fields: Mapping[str, str], required: Sequence[str]) -> str:
        """Returns an object of named expressions in order; optional ones may be left out."""
        head = tail = ""
        for name, expression in [*fields.items()][::-1]:
            pair = self.rule(f'{exactly(name)} ":" ws {expression}')
            here, more = f"{pair} {tail}".strip(), f'"," ws {pair}'
            if name in required:
                head, tail = here, self.rule(f"{more} {tail}".strip())
            else:
                head = self.rule(f"{here} | {head}" if head else f"({here})?")
                tail = self.rule(f"({more})? {tail}".strip())
        return self.rule(f'"{{" {head} "}}"')

    def _array(self, schema: Schema) -> str:
        items: Any = schema.get("items", True)
        first: Any = cast("Any", items) if isinstance(items, list) else schema.get("prefixItems")
        if first:
            joined = ' "," ws '.join(map(self.value, cast("list[Any]", first)))
            return self.rule(f'"[" {joined} "]"')
        if items is False:
            return '"[" "]"'
        return self.rule(f'"[" {self._several(self.value(items), _bounds(schema, "Items"))} "]"')

    def _several(self, part: str, bounds: tuple[int, int | None]) -> str:
        least, most = bounds
        if most == 0:
            return '""'
        high = "" if most is None else most - 1
        more = f'("," ws {part}){{{max(least - 1, 0)},{high}}}'
        return f"{part} {more}" if least else f"({part} {more})?"

    def _string(self, schema: Schema) -> str:
        inside = _FORMATS.get(str(schema.get("format")))
        return self.rule(quoted(inside)) if inside else "string"


def _kinds(schema: Schema) -> list[str]:
    given: Any = schema.get("type")
    return cast("list[str]", given) if isinstance(given, list) else [given] if given else []


def _merged(schema: Schema, more: Any) -> dict[str, Any]:
    """Merges two schemas that must both hold, as far as one schema can say it."""
    other: Schema = cast("Schema", more) if isinstance(more, Mapping) else {}
    both = {**schema, **other}
    if "properties" in schema and "properties" in other:
        both["properties"] = {**schema["properties"], **other["properties"]}
    if "required" in schema and "required" in other:
        both["required"] = [*schema["required"], *other["required"]]
    return both


def _bounds(schema: Schema, what: str) -> tuple[int, int | None]:
    least, most = schema.get(f"min{what}") or 0, schema.get(f"max{what}")
    high = int(most) if isinstance(most, (int, float)) and most <= _MOST else None
    return min(int(least), _MOST), high
