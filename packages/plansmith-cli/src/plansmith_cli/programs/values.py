"""Values: what stands in a plan in their place, and how they compare; part of every program."""

from __future__ import annotations

# JSON is `Any` here, to keep programs plain; the strict mode has no use for that.
# pyright: basic
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

Json = Any  # null, true, false, a number, a text, a list or an object
SECRETS: dict[str, str] = {}  # the values that were used, to be taken out of results


class StepError(Exception):
    """Why a step has no result; `kind` is tool, time, result or reference.

    Of a call: whether it may be made `again`, and whether it may have taken effect (`unsure`).
    """

    def __init__(
        self, message: str, kind: str = "reference", *, again: bool = False, unsure: bool = False
    ) -> None:
        super().__init__(message)
        self.message, self.kind, self.again, self.unsure = message, kind, again, unsure


class Ref(NamedTuple):
    """The result of a step, or a part of it."""

    step: str
    path: tuple[str | int, ...] = ()

    def __str__(self) -> str:
        return "{{" + self.step + "".join(map(key_text, self.path)) + "}}"


class First(NamedTuple):
    """The first of these whose step has a result."""

    refs: tuple[Ref, ...]


class Secret(NamedTuple):
    """A secret, which is in a variable of the environment."""

    name: str
    variable: str


class Text(NamedTuple):
    """Texts and values, joined."""

    parts: tuple[str | Ref | Secret, ...]


class Length(NamedTuple):
    """The length of a text, a list or an object, which is called `said`."""

    of: Json
    said: str


class Check(NamedTuple):
    """Whether two values compare so; `said` in words."""

    name: str
    left: Json
    right: Json
    said: str


class Skipped(str):
    """What stands in a text for the result of a step that was skipped."""

    __slots__ = ()


def fill(template: Json, values: Mapping[str, Json]) -> Json:
    """Returns a value of the plan with results in the place of references."""
    match template:
        case Ref():
            return at(values, template)
        case First(refs):
            return first(values, refs)
        case Text(parts):
            return "".join(value_text(fill(each, values)) for each in parts)
        case Secret(name, variable):
            return secret(name, variable)
        case Length(of, said):
            return length(fill(of, values), said)
        case list():
            return [fill(each, values) for each in template]
        case dict():
            return {key: fill(each, values) for key, each in template.items()}
        case _:
            return template


def first(values: Mapping[str, Json], refs: Sequence[Ref]) -> Json:
    known = [each for each in refs if each.step in values]
    if not known:
        raise StepError(f"none of {', '.join(map(str, refs))} has a result")
    return at(values, known[0])


def key_text(key: str | int) -> str:
    if isinstance(key, int):
        return f"[{key}]"
    is_plain = re.fullmatch(r"""[^\s.\[\]{}"]+""", key)
    return f".{key}" if is_plain else f"[{json.dumps(key, ensure_ascii=False)}]"


def at(values: Mapping[str, Json], ref: Ref) -> Json:
    """Returns the result of a step, or the part of it at a path."""
    if ref.step not in values:
        raise StepError(f"{ref}: there is no result of '{ref.step}'")
    value = values[ref.step]
    if isinstance(value, Skipped):
        return value
    for depth, key in enumerate(ref.path):
        try:
            value = member(value, key)
        except (KeyError, IndexError, TypeError):
            here = f"{Ref(ref.step, ref.path[:depth])} has {parts_text(value)}"
            raise StepError(f"{ref}: nothing at {key_text(key)} ({here})") from None
    return value


def member(value: Json, key: str | int) -> Json:
    if isinstance(value, dict):
        return value[str(key)]
    if isinstance(value, list) and (isinstance(key, int) or (key.isascii() and key.isdigit())):
        return value[int(key)]
    raise TypeError(type(value))


def parts_text(value: Json) -> str:
    if isinstance(value, dict):
        return f"the keys {', '.join(list(value)[:8])}" if value else "no keys"
    if isinstance(value, list):
        return f"{len(value)} items"
    return f"no parts: it is {value_text(value)[:40]!r}"


def value_text(value: Json) -> str:
    """Returns a value as it is written inside a text: text as it is, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def kind_of(value: Json) -> str:
    kinds = {bool: "true or false", int: "a number", float: "a number", str: "a text"}
    return {**kinds, list: "a list", dict: "an object"}.get(type(value), "null")


def length(value: Json, said: str) -> int:
    if isinstance(value, (str, list, dict)):
        return len(value)
    raise StepError(f"{said} is {kind_of(value)}, which has no length")


def holds(condition: Json, values: Mapping[str, Json]) -> bool:
    """Tells whether a condition holds; fails if its values are not comparable."""
    match condition:
        case Check("empty", operand, _, said):
            value = fill(operand, values)
            return value is None or length(value, said) == 0
        case Check(name, left, right, said):
            left, right = fill(left, values), fill(right, values)
            found = COMPARISONS[name](left, right)
            if found is None:
                kinds = f"{kind_of(left)} and {kind_of(right)}"
                why = f"it cannot be said whether {said}: {kinds} are not compared that way"
                raise StepError(why)
            return found
        case ("not", inner):
            return not holds(inner, values)
        case _:
            together = all if condition[0] == "all" else any
            return together(holds(each, values) for each in condition[1])


def equals(left: Json, right: Json) -> bool | None:
    """Tells whether two values are equal, 1 and 1.0 too; None if they are of unlike types."""
    kind, other = kind_of(left), kind_of(right)
    if "null" in (kind, other):
        return kind == other
    if kind != other:
        return None
    if kind == "a number":
        return bool(left == right)
    # The same JSON: True, 1 and 1.0 are three values.
    return json.dumps(left, sort_keys=True) == json.dumps(right, sort_keys=True)


def not_equals(left: Json, right: Json) -> bool | None:
    found = equals(left, right)
    return None if found is None else not found


def ordered(wanted: str, left: Json, right: Json) -> bool | None:
    """Tells whether two numbers or texts are ordered so: one of `<`, `=`, `>`."""
    if kind_of(left) != kind_of(right) or kind_of(left) not in ("a number", "a text"):
        return None
    return ("<" if left < right else ">" if left > right else "=") in wanted


def is_in(value: Json, items: Json) -> bool | None:
    if not isinstance(items, list):
        return None
    found = [equals(value, each) for each in items]
    return None if found and set(found) == {None} else True in found


def contains(left: Json, right: Json) -> bool | None:
    if isinstance(left, (str, dict)) and isinstance(right, str):
        return right in left
    return is_in(right, left)


COMPARISONS: dict[str, Callable[[Json, Json], bool | None]] = {
    "equals": equals,
    "not_equals": not_equals,
    "below": partial(ordered, "<"),
    "at_most": partial(ordered, "<="),
    "above": partial(ordered, ">"),
    "at_least": partial(ordered, ">="),
    "in": is_in,
    "contains": contains,
}


def secret(name: str, variable: str) -> str:
    value = os.environ.get(variable, "")
    if not value:
        raise StepError(f"the secret '{name}' is not in the environment: set {variable}", "tool")
    SECRETS[value] = f"${{secret:{name}}}"
    return value


def hidden(value: Json) -> Json:
    """Returns a value without the secrets that were used."""
    written = json.dumps(value, ensure_ascii=False, allow_nan=False)
    for known, mark in SECRETS.items():
        written = written.replace(json.dumps(known, ensure_ascii=False)[1:-1], mark)
    written.encode()
    return json.loads(written)
