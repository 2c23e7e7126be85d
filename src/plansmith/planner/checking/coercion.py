"""Coercion: values that say the right thing in the wrong type, brought into the right one."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Final, NamedTuple, cast

from plansmith.plan.data import Json, Path, flaws, same
from plansmith.plan.refs import LITERAL, literal
from plansmith.planner.checking.blanks import Blanks, at, put
from plansmith.planner.checking.faults import Fault, faults, under
from plansmith.planner.checking.schemas import Schema, Unusable

_INTEGER: Final = re.compile(r"[+-]?\d{1,18}(?:\.0{1,6})?")
_NUMBER: Final = re.compile(r"[+-]?\d{1,18}(?:\.\d{1,18})?(?:[eE][+-]?\d{1,2})?")
_BOOLEANS: Final = {"true": True, "false": False}
_MOST_ROUNDS: Final = 8
_MOST_NESTED: Final = 3


class Change(NamedTuple):
    """One value that was converted, and where in the step's inputs it stands."""

    path: Path
    before: Json
    after: Json


class Coerced(NamedTuple):
    """Inputs after coercion, and what was changed."""

    inputs: Json
    changes: list[Change]


def coerce(inputs: Json, schema: Schema, *, nested: int = 0) -> Coerced:
    """The inputs with every harmless conversion made that turns a wrong value into a right one."""
    changes: list[Change] = []
    for _ in range(_MOST_ROUNDS):
        blanks = Blanks(inputs)
        found = faults(schema, blanks)
        if isinstance(found, Unusable) or not found:
            break
        step = next(
            (
                made
                for fault in found
                for candidate in _candidates(fault, at(blanks.value, fault.path))
                if (made := _tried(inputs, schema, blanks, fault.path, candidate, nested))
            ),
            None,
        )
        if step is None:
            break
        inputs = step.inputs
        changes += step.changes
    return Coerced(inputs, changes)


def _tried(
    inputs: Json, schema: Schema, blanks: Blanks, path: Path, candidate: Json, nested: int
) -> Coerced | None:
    """The inputs with one value converted, if nothing is wrong there any more."""
    real, before = blanks.real(path), at(blanks.value, path)
    if blanks.has_blanks(path) or any(flaws(candidate)):
        return None
    inner = candidate if LITERAL in real else literal(candidate)
    made = Coerced(put(inputs, real, inner), [Change(real, before, candidate)])
    if nested < _MOST_NESTED and isinstance(candidate, (dict, list)):
        deeper = coerce(made.inputs, schema, nested=nested + 1)
        made = Coerced(deeper.inputs, made.changes + deeper.changes)
    left = faults(schema, Blanks(made.inputs))
    wrong = isinstance(left, Unusable) or under(left, path)
    return None if wrong else made


def _candidates(fault: Fault, value: Json) -> Iterator[Json]:
    """What the value may have been meant to be, the likeliest first."""
    match fault.keyword:
        case "enum":
            yield from _options(cast("list[Json]", fault.detail["options"]), value)
        case "const":
            yield from _options([cast("Json", fault.detail["expected_value"])], value)
        case "pattern" | "format" | "maxLength" | "minLength":
            pass
        case _:
            yield from _of_types(cast("list[str]", fault.detail.get("types", [])), value)
    if isinstance(value, str) and value != value.strip():
        yield value.strip()


def _options(options: list[Json], value: Json) -> Iterator[Json]:
    if isinstance(value, (dict, list)) or value is None:
        return
    near = [each for each in options if _plain(each) == _plain(value) and not same(each, value)]
    if len(near) == 1:
        yield near[0]


def _plain(value: Json) -> str:
    """A scalar as text without case, spaces and separators."""
    text = value if isinstance(value, str) else json.dumps(value)
    return re.sub(r"[\s_-]+", "", text).casefold()


def _of_types(types: list[str], value: Json) -> Iterator[Json]:
    if isinstance(value, str):
        yield from _from_text(types, value.strip())
    elif isinstance(value, float) and value.is_integer() and "integer" in types:
        yield int(value)
    if isinstance(value, (bool, int, float)) and "string" in types:
        yield json.dumps(value)
    if "array" in types and value is not None and not isinstance(value, (list, dict)):
        yield [value]
        if isinstance(value, str):
            yield from ([each] for each in _from_text(["integer", "number"], value.strip()))


def _from_text(types: list[str], text: str) -> Iterator[Json]:
    if "integer" in types and _INTEGER.fullmatch(text):
        yield int(text.partition(".")[0])
    if "number" in types and _NUMBER.fullmatch(text):
        yield int(text) if re.fullmatch(r"[+-]?\d+", text) else float(text)
    if "boolean" in types and text.lower() in _BOOLEANS:
        yield _BOOLEANS[text.lower()]
    if text[:1] in ("{", "[") and {"object", "array"}.intersection(types):
        try:
            yield cast("Json", json.loads(text))
        except (ValueError, RecursionError):
            return
