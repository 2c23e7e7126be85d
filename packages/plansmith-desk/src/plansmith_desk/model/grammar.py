"""Converts a JSON Schema to a grammar with which llama.cpp constrains a model."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from typing import Any, Final, cast
from urllib.parse import unquote

from plansmith.plan.data import Json

Schema = Mapping[str, Any]

_MOST: Final = 256  # repetitions that a grammar spells out
_DEEPEST: Final = 24  # schemas inside each other before anything goes
_LONGEST: Final = 15  # digits: beyond this a number is no longer exact everywhere
# What a schema without a type implies.
_SIGNS: Final = {
    "object": "properties required additionalProperties minProperties maxProperties propertyNames "
    "patternProperties",
    "array": "items prefixItems minItems maxItems",
    "string": "minLength maxLength pattern format",
    "number": "minimum maximum exclusiveMinimum exclusiveMaximum multipleOf",
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
_DAY: Final = (
    '(("0" [13578] | "1" [02]) "-" ("0" [1-9] | [12] [0-9] | "3" [01])'
    ' | ("0" [469] | "11") "-" ("0" [1-9] | [12] [0-9] | "30")'
    ' | "02-" ("0" [1-9] | "1" [0-9] | "2" [0-8]))'
)
_LEAP_DAY: Final = '[0-9]{2} ("0" [48] | [2468] [048] | [13579] [26]) "-02-29"'
_HOUR: Final = '([01] [0-9] | "2" [0-3])'
_OFFSET: Final = f'("Z" | [+-] {_HOUR} ":" [0-5] [0-9])'
_WORD: Final = '[a-zA-Z0-9]+ ("-" [a-zA-Z0-9]+){0,4}'
_OCTET: Final = '("25" [0-5] | "2" [0-4] [0-9] | "1" [0-9]{2} | [1-9] [0-9] | [0-9])'
# Rules that may be named in expressions; each is written out only when it is used.
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
    "day": f'[0-9]{{4}} "-" {_DAY} | {_LEAP_DAY}',
    "moment": f'{_HOUR} ":" [0-5] [0-9] ":" [0-5] [0-9] ("." [0-9]{{1,6}})? {_OFFSET}',
    "path": '("/" [a-zA-Z0-9._~-]*)* ("?" [a-zA-Z0-9._~=&+-]*)?',
    "hex": "[0-9a-fA-F]",
}
_FORMATS: Final = {
    "date": "day",
    "time": "moment",
    "date-time": 'day "T" moment',
    "email": f'{_WORD} ("." {_WORD}){{0,4}} "@" {_WORD} ("." {_WORD}){{1,4}}',
    "ipv4": f'{_OCTET} ("." {_OCTET}){{3}}',
    "uuid": 'hex{8} "-" hex{4} "-" hex{4} "-" hex{4} "-" hex{12}',
    "uri": f'("http" "s"? | "ftp" | "file") "://" {_WORD} ("." {_WORD}){{0,6}} path',
    "hostname": f'{_WORD} ("." {_WORD}){{0,6}}',
    "uri-reference": "[a-zA-Z0-9._~-]+ path",
}
_NAMES: Final = re.compile(r'"(?:[^"\\]|\\.)*"|\[(?:[^\[\]\\]|\\.)*\]|([a-z]+)')


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
        rows = {"root": root, **self._rules}
        return "\n".join(f"{name} ::= {expression}" for name, expression in rows.items()) + "\n"

    def use(self, name: str) -> str:
        """Adds a predefined rule and those that it names; returns its name."""
        if name not in self._rules:
            without = f"\\x7f{self._without}]"
            self._rules[name] = _RULES[name].replace("\\x7f]", without)
            self._use_all(_RULES[name])
        return name

    def _use_all(self, expression: str) -> str:
        for other in filter(None, _NAMES.findall(expression)):
            self.use(other)
        return expression

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
            return self.use("value")
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
        implied = [
            kind for kind, signs in _SIGNS.items() if not schema.keys().isdisjoint(signs.split())
        ]
        return self._either(self._kind(each, schema) for each in _kinds(schema) or implied or [""])

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
            return self.use("value")
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
            known: Mapping[Any, Any] = {}
            number = isinstance(place, list) and key.isdecimal()
            if isinstance(place, list):
                known = dict(enumerate(cast("Sequence[Any]", place)))
            elif isinstance(place, Mapping):
                known = cast("Schema", place)
            place = known.get(int(key) if number else key)
        return place

    def _object(self, schema: Schema) -> str:
        properties = cast("Mapping[str, Any]", schema.get("properties") or {})
        required = [str(each) for each in schema.get("required") or ()]
        # A required name without a schema of its own may hold anything.
        named = {**properties, **{name: True for name in required if name not in properties}}
        fields = {name: self.value(each) for name, each in named.items() if each is not False}
        if fields:
            return self.record(fields, required)
        if schema.get("additionalProperties") is False and not schema.get("patternProperties"):
            return '"{" "}"'
        key, content = self._key(schema)
        pair = self.rule(f'{key} ":" {self.use("ws")} {content}')
        return self.rule(f'"{{" {self._several(pair, _bounds(schema, "Properties"))} "}}"')

    def _key(self, schema: Schema) -> tuple[str, str]:
        """Returns name and value of an object that allows any number of fields."""
        for pattern, content in cast("Schema", schema.get("patternProperties") or {}).items():
            expression = pattern_expression(pattern)
            if expression is not None:
                return self.rule(quoted(self._use_all(expression))), self.value(content)
        names = cast("Schema", schema.get("propertyNames") or {})
        key = self.value({"type": "string", **names})
        return key, self.value(schema.get("additionalProperties", True))

    def record(self, fields: Mapping[str, str], required: Sequence[str]) -> str:
        """Returns an object of named expressions in order; optional ones may be left out."""
        ws, head, tail = self.use("ws"), "", ""
        for name, expression in [*fields.items()][::-1]:
            pair = self.rule(f'{exactly(name)} ":" {ws} {expression}')
            here, more = f"{pair} {tail}".strip(), f'"," {ws} {pair}'
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
            joined = f' "," {self.use("ws")} '.join(map(self.value, cast("list[Any]", first)))
            return self.rule(f'"[" {joined} "]"')
        if items is False:
            return '"[" "]"'
        return self.rule(f'"[" {self._several(self.value(items), _bounds(schema, "Items"))} "]"')

    def _several(self, part: str, bounds: tuple[int, int | None]) -> str:
        """Returns an expression for some parts with commas between them."""
        least, most = bounds
        if most == 0:
            return '""'
        high = "" if most is None else most - 1
        more = f'("," {self.use("ws")} {part}){{{max(least - 1, 0)},{high}}}'
        return f"{part} {more}" if least else f"({part} {more})?"

    def _string(self, schema: Schema) -> str:
        pattern, form = schema.get("pattern"), schema.get("format")
        inside = pattern_expression(pattern) if isinstance(pattern, str) else None
        if inside is None and pattern is None and isinstance(form, str):
            inside = _FORMATS.get(form)
        if inside is None:
            least, most = _bounds(schema, "Length")
            if not least and most is None:
                return self.use("string")
            inside = f"char{{{least},{'' if most is None else most}}}"
        return self.rule(quoted(self._use_all(inside)))

    def _number(self, schema: Schema, *, whole: bool) -> str:
        low, high = _limits(schema)
        expression = ""
        if low is not None or high is not None:
            expression = whole_range(low, high) if whole else number_range(low, high)
        if schema.get("exclusiveMinimum") == 0 and not whole:
            expression += ' | "0." [0-9]{0,8} [1-9]'
        return self.rule(expression) if expression else self.use("whole" if whole else "number")


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


def _limits(schema: Schema) -> tuple[int | None, int | None]:
    """Returns the whole numbers between which a number must be."""
    low, high = schema.get("minimum"), schema.get("maximum")
    least = [] if low is None else [math.ceil(low)]
    most = [] if high is None else [math.floor(high)]
    above, below = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
    least += [] if above is None or above is True else [math.floor(above) + 1]
    most += [] if below is None or below is True else [math.ceil(below) - 1]
    return max(least, default=None), min(most, default=None)


def whole_range(low: int | None, high: int | None) -> str:
    """Returns an expression for the whole numbers from `low` to `high`; None is no limit."""
    least = -(10**_LONGEST) + 1 if low is None else low
    most = 10**_LONGEST - 1 if high is None else high
    parts = ['"0"'] if least <= 0 <= most else []
    if least < 0 and least <= most:
        parts.append(f'"-" ({_between(max(1, -most), -least)})')
    if most > 0 and least <= most:
        parts.append(_between(max(1, least), most))
    return " | ".join(parts)


def number_range(low: int | None, high: int | None) -> str:
    """Returns an expression for numbers from `low` to `high`, with fractions."""
    parts: list[str] = []
    if low is None or low < 0:
        sizes = _sizes(max(0, -high) if high is not None else 0, None if low is None else -low)
        parts += [f'"-" ({sizes})'] if sizes else []
    if high is None or high >= 0:
        parts += filter(None, [_sizes(max(0, low or 0), high)])
    return " | ".join(parts)


def _sizes(least: int, most: int | None) -> str:
    """Numbers without a sign; the largest whole number gets no fraction."""
    inner = whole_range(least, None if most is None else most - 1)
    parts = [f'({inner}) ("." [0-9]{{1,12}})?'] if inner else []
    parts += [f'"{most}"'] if most is not None and most >= least else []
    return " | ".join(parts)


def _between(low: int, high: int) -> str:
    """Returns expressions for the numbers between two positive ones, by number of digits."""
    return " | ".join(
        _digits(str(max(low, 10 ** (length - 1))), str(min(high, 10**length - 1)))
        for length in range(len(str(low)), len(str(high)) + 1)
    )


def _digits(low: str, high: str) -> str:
    """Returns an expression for digit texts between two of the same length."""
    if low == high:
        return f'"{low}"'
    rest = len(low) - 1
    zeros, nines = "0" * rest, "9" * rest
    start, end = int(low[0]), int(high[0])
    if start == end:
        return f'"{start}" ({_digits(low[1:], high[1:])})'
    parts: list[str] = []
    if low[1:] != zeros:
        parts.append(f'"{start}" ({_digits(low[1:], nines)})')
        start += 1
    if high[1:] != nines:
        parts.append(f'"{end}" ({_digits(zeros, high[1:])})')
        end -= 1
    if start <= end:
        parts.append(f"[{start}-{end}]" + (f" [0-9]{{{rest}}}" if rest else ""))
    return " | ".join(parts)


_NEVER: Final = '"\\\\\\x00-\\x1f\\x7f'  # members of a set that JSON must escape
_CLASSES: Final = {"DIGIT": "0-9", "WORD": "a-zA-Z0-9_", "SPACE": " ", "NOT_SPACE": f"^ {_NEVER}"}


class _TooRich(Exception):
    """The pattern cannot be expressed as a grammar."""


def pattern_expression(pattern: str) -> str | None:
    """Returns an expression for the texts that match a pattern; None if impossible.

    Any text may stand before and behind it where it has no anchor.
    """
    try:
        parts = list(import_module("re._parser").parse(pattern))
        start, end = _is_anchor(parts[:1], "BEGINNING"), _is_anchor(parts[-1:], "END")
        inside = _sequence(parts[start : len(parts) - end])
    except (_TooRich, re.error, RecursionError, OverflowError):
        return None
    return " ".join(filter(None, ["" if start else "char*", inside, "" if end else "char*"]))


def _is_anchor(parts: list[Any], name: str) -> bool:
    return [(str(kind), str(value)) for kind, value in parts] == [("AT", f"AT_{name}")]


def _sequence(parts: Iterable[Any]) -> str:
    return " ".join(_atom(str(kind), value) for kind, value in parts) or '""'


def _atom(kind: str, value: Any) -> str:
    match kind:
        case "LITERAL":
            return _in_json(chr(value))
        case "NOT_LITERAL":
            return f"[^{_member(value)}{_NEVER}]"
        case "ANY":
            return f"[^{_NEVER}]"
        case "IN":
            return _set(value)
        case "BRANCH":
            return f"({' | '.join(map(_sequence, value[1]))})"
        case "SUBPATTERN" if not value[1] and not value[2]:
            return f"({_sequence(value[3])})"
        case "MAX_REPEAT":
            return _repeated(*value)
        case _:
            raise _TooRich


def _repeated(low: int, high: Any, inside: Iterable[Any]) -> str:
    endless = str(high) == "MAXREPEAT"
    if max(low, 0 if endless else high) > _MOST:
        raise _TooRich
    return f"({_sequence(inside)}){{{low},{'' if endless else high}}}"


def _in_json(sign: str) -> str:
    """Returns a character as it is written inside a JSON text."""
    if sign < " " or sign == "\x7f":
        raise _TooRich
    return literal(f"\\{sign}" if sign in '"\\' else sign)


def _set(parts: Sequence[Any]) -> str:
    """Returns a character set; characters that JSON must escape are never in it."""
    negated = str(parts[0][0]) == "NEGATE"
    members = [
        _members(str(kind), value, negated=negated, alone=len(parts) == 1)
        for kind, value in parts[negated:]
    ]
    return f"[^{''.join(members)}{_NEVER}]" if negated else f"[{''.join(members)}]"


def _members(kind: str, value: Any, *, negated: bool, alone: bool) -> str:
    if kind == "CATEGORY":
        name = str(value).removeprefix("CATEGORY_")
        if name not in _CLASSES or (name == "NOT_SPACE" and not alone):
            raise _TooRich
        return _CLASSES[name]
    first, last = value if kind == "RANGE" else (value, value)
    # Negated, quotes and backslashes are left out anyway.
    if not negated and (first < 32 or any(first <= ord(sign) <= last for sign in '"\\\x7f')):
        raise _TooRich
    return _member(first) if first == last else f"{_member(first)}-{_member(last)}"


def _member(code: int) -> str:
    return f"\\x{code:02x}" if code < 128 and not chr(code).isalnum() else chr(code)
