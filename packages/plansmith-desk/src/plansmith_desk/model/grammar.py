"""Converts a JSON Schema to a grammar with which llama.cpp constrains a model."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, cast
from urllib.parse import unquote

from plansmith.plan.data import Json
from plansmith_desk.model.grammar_rules import (
    FORMATS,
    RULES,
    USES,
    exactly,
    literal,
    number_range,
    pattern_expression,
    whole_range,
)

Schema = Mapping[str, Any]

_MOST: Final = 256  # repetitions that a grammar spells out
_DEEPEST: Final = 24  # schemas inside each other before anything goes
_SIGNS: Final = {
    "object": (
        *("properties", "required", "additionalProperties", "minProperties", "maxProperties"),
        *("propertyNames", "patternProperties"),
    ),
    "array": ("items", "prefixItems", "minItems", "maxItems"),
    "string": ("minLength", "maxLength", "pattern", "format"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
}


def grammar_of(schema: Mapping[str, Json]) -> str:
    """Returns the grammar of all JSON texts that a schema allows."""
    book = GrammarBook(schema)
    return book.text(book.value(schema))


class GrammarBook:
    """Collects the rules of one grammar; expressions refer to them by name.

    `without` are characters that no text may contain, written as members of a set.
    """

    def __init__(self, root: Schema | None = None, *, without: str = "") -> None:
        self._root = root or {}
        self._without = without
        self._roots = 0
        self._rules: dict[str, str] = {}
        self._names: dict[str, str] = {}
        self._deep = 0

    def text(self, root: str) -> str:
        """Returns the grammar whose root is an expression."""
        rows = {"root": root, **self._rules}
        return "\n".join(f"{name} ::= {expression}" for name, expression in rows.items()) + "\n"

    def use(self, name: str) -> str:
        """Adds a predefined rule and returns its name."""
        if name not in self._rules:
            self._rules[name] = RULES[name]
            if name == "char":
                self._rules[name] = RULES[name].replace("\\x7f]", f"\\x7f{self._without}]")
            for other in USES.get(name, ()):
                self.use(other)
        return name

    def rule(self, expression: str) -> str:
        """Adds an expression as a rule and returns its name; equal expressions share one."""
        name = self._names.get(expression)
        if name is None:
            name = self._names[expression] = f"r{len(self._names)}"
            self._rules[name] = expression
        return name

    def value(self, schema: Any) -> str:
        """Returns the expression of a schema."""
        if not isinstance(schema, Mapping) or self._deep > _DEEPEST:
            return self.use("value")
        self._deep += 1
        try:
            return self._value(cast("Schema", schema))
        finally:
            self._deep -= 1

    def within(self, root: Schema, schema: Any) -> str:
        """Returns the expression of a subschema whose references point into `root`."""
        before, self._root = self._root, root
        self._roots += 1
        try:
            return self.value(schema)
        finally:
            self._root = before

    def _value(self, schema: Schema) -> str:
        if "$ref" in schema:
            return self._reference(str(schema["$ref"]))
        if "const" in schema:
            return exactly(schema["const"])
        if schema.get("enum"):
            return self.rule(_either(map(exactly, _fitting(schema))))
        for word in ("anyOf", "oneOf"):
            if schema.get(word):
                rest = {key: each for key, each in schema.items() if key != word}
                choices = [_merged(rest, each) for each in schema[word]]
                return self.rule(_either(self.value(each) for each in choices))
        if schema.get("allOf"):
            rest = {key: each for key, each in schema.items() if key != "allOf"}
            for each in schema["allOf"]:
                rest = dict(_merged(rest, self._resolved(each)))
            return self.value(rest)
        return self._typed(schema)

    def _typed(self, schema: Schema) -> str:
        kinds = _kinds(schema) or _guessed(schema)
        parts = [self._kind(kind, schema) for kind in kinds]
        return self.rule(_either(parts)) if len(parts) > 1 else parts[0]

    def _kind(self, kind: str, schema: Schema) -> str:
        match kind:
            case "object":
                return self._object(schema)
            case "array":
                return self._array(schema)
            case "string":
                return self._string(schema)
            case "integer" | "number":
                return self._number(schema, whole=kind == "integer")
            case "boolean" | "null":
                return self.use(kind)
            case _:
                return self.use("value")

    def _reference(self, pointer: str) -> str:
        """Returns a rule for the target of a pointer; the target may refer to itself."""
        key = f"{self._roots} {pointer}"
        if key in self._names:
            return self._names[key]
        target = self._at(pointer)
        if target is None:
            return self.use("value")
        name = self._names[key] = f"r{len(self._names)}"
        self._rules[name] = ""
        deep, self._deep = self._deep, 0
        self._rules[name] = self.value(target)
        self._deep = deep
        return name

    def _resolved(self, schema: Any) -> Any:
        if not isinstance(schema, Mapping):
            return schema
        known = cast("Schema", schema)
        return self._at(str(known["$ref"])) if "$ref" in known else known

    def _at(self, pointer: str) -> Any:
        if pointer == "#":
            return self._root
        if not pointer.startswith("#/"):
            return None
        place: Any = self._root
        for part in pointer[2:].split("/"):
            key = unquote(part).replace("~1", "/").replace("~0", "~")
            if isinstance(place, Mapping):
                place = cast("Schema", place).get(key)
            elif isinstance(place, (list, tuple)) and key.isdecimal():
                place = dict(enumerate(cast("list[Any]", place))).get(int(key))
            else:
                return None
        return place

    def _object(self, schema: Schema) -> str:
        properties = cast("Mapping[str, Any]", schema.get("properties") or {})
        required = [str(each) for each in schema.get("required") or ()]
        # A required name without a schema of its own may hold anything.
        named = {**properties, **{name: True for name in required if name not in properties}}
        named = {name: each for name, each in named.items() if each is not False}
        if named:
            return self.record({name: self.value(each) for name, each in named.items()}, required)
        if schema.get("additionalProperties") is False and not schema.get("patternProperties"):
            return '"{" "}"'
        least, most = _bounds(schema, "Properties")
        key, content = self._key(schema)
        pair = self.rule(f'{key} ":" {self.use("ws")} {content}')
        return self.rule(f'"{{" {self._several(pair, least, most)} "}}"')

    def _key(self, schema: Schema) -> tuple[str, str]:
        """Returns name and value of an object that allows any number of fields."""
        for pattern, content in cast("Schema", schema.get("patternProperties") or {}).items():
            expression = pattern_expression(pattern)
            if expression is not None:
                return self.rule(f'"\\"" {expression} "\\""'), self.value(content)
        names = schema.get("propertyNames")
        key = self.value({"type": "string", **cast("Schema", names)}) if names else "string"
        self.use("string")
        return key, self.value(schema.get("additionalProperties", True))

    def record(self, fields: Mapping[str, str], required: Sequence[str]) -> str:
        """Returns an object of named expressions in order; optional ones may be left out."""
        ws, names = self.use("ws"), list(fields)
        tails = [""] * (len(names) + 1)
        head = ""
        for place in range(len(names) - 1, -1, -1):
            name, rest = names[place], tails[place + 1]
            pair = self.rule(
                f'{literal(json.dumps(name, ensure_ascii=False))} ":" {ws} {fields[name]}'
            )
            here = f"{pair} {rest}".strip()
            more = f'"," {ws} {pair}'
            if name in required:
                head = here
                tails[place] = self.rule(f"{more} {rest}".strip())
            else:
                head = self.rule(f"{here} | {head}" if head else f"({here})?")
                tails[place] = self.rule(f"({more})? {rest}".strip())
        return self.rule(f'"{{" {head} "}}"')

    def _array(self, schema: Schema) -> str:
        first: list[Any] = schema.get("prefixItems") or []
        items: Any = schema.get("items", True)
        if isinstance(items, (list, tuple)):
            first, items = cast("list[Any]", items), True
        least, most = _bounds(schema, "Items")
        if first:
            joined = f' "," {self.use("ws")} '.join(self.value(each) for each in first)
            return self.rule(f'"[" {joined} "]"')
        if items is False:
            return '"[" "]"'
        return self.rule(f'"[" {self._several(self.value(items), least, most)} "]"')

    def _several(self, part: str, least: int, most: int | None) -> str:
        """Returns an expression for `least` to `most` parts with commas between them."""
        if most == 0:
            return '""'
        high = "" if most is None else str(most - 1)
        more = f'("," {self.use("ws")} {part}){{{max(least - 1, 0)},{high}}}'
        return f"{part} {more}" if least else f"({part} {more})?"

    def _string(self, schema: Schema) -> str:
        form = schema.get("format")
        if isinstance(form, str) and form in FORMATS and "pattern" not in schema:
            return self.use(form)
        pattern = schema.get("pattern")
        if isinstance(pattern, str):
            expression = pattern_expression(pattern)
            if expression is not None:
                return self.rule(f'"\\"" {expression} "\\""')
        least, most = _bounds(schema, "Length")
        if not least and most is None:
            return self.use("string")
        high = "" if most is None else str(most)
        return self.rule(f'"\\"" {self.use("char")}{{{least},{high}}} "\\""')

    def _number(self, schema: Schema, *, whole: bool) -> str:
        low, high = _limits(schema)
        if low is None and high is None:
            return self.use("whole" if whole else "number")
        expression = whole_range(low, high) if whole else number_range(low, high)
        if schema.get("exclusiveMinimum") == 0 and not whole:
            expression += ' | "0." [0-9]{0,8} [1-9]'
        return self.rule(expression) if expression else self.use("whole" if whole else "number")


def _either(parts: Iterable[str]) -> str:
    return " | ".join(dict.fromkeys(parts))


def _kinds(schema: Schema) -> list[str]:
    given: Any = schema.get("type")
    return cast("list[str]", given) if isinstance(given, list) else [given] if given else []


def _guessed(schema: Schema) -> list[str]:
    """Returns the types that a schema without `type` implies; all if it implies none."""
    spoken = [kind for kind, signs in _SIGNS.items() if any(sign in schema for sign in signs)]
    return spoken or ["any"]


def _fitting(schema: Schema) -> list[Any]:
    """Returns the enum values of the schema's type; all if none is."""
    kinds = _kinds(schema)
    values: list[Any] = list(schema["enum"])
    return [each for each in values if _TYPES[type(each)] in kinds] or values


_TYPES: Final = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    type(None): "null",
    dict: "object",
    list: "array",
}


def _merged(schema: Schema, more: Any) -> Schema:
    """Merges two schemas that must both hold, as far as one schema can say it."""
    if not isinstance(more, Mapping):
        return schema
    other = cast("Schema", more)
    both = {**schema, **other}
    if "properties" in schema and "properties" in other:
        both["properties"] = {**schema["properties"], **other["properties"]}
    if "required" in schema and "required" in other:
        both["required"] = list(dict.fromkeys([*schema["required"], *other["required"]]))
    return both


def _bounds(schema: Schema, what: str) -> tuple[int, int | None]:
    least, most = schema.get(f"min{what}") or 0, schema.get(f"max{what}")
    high = int(most) if isinstance(most, (int, float)) and most <= _MOST else None
    return min(int(least), _MOST), high


def _limits(schema: Schema) -> tuple[int | None, int | None]:
    """Returns the whole numbers between which a number must be."""
    low, high = schema.get("minimum"), schema.get("maximum")
    least = None if low is None else -int(-low // 1)
    most = None if high is None else int(high // 1)
    above, below = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
    if isinstance(above, (int, float)) and not isinstance(above, bool):
        least = max(int(above // 1) + 1, -(10**15) if least is None else least)
    if isinstance(below, (int, float)) and not isinstance(below, bool):
        most = min(-int(-below // 1) - 1, 10**15 if most is None else most)
    if above is True and least is not None and low == least:
        least += 1
    if below is True and most is not None and high == most:
        most -= 1
    return least, most
