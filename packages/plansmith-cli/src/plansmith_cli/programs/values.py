"""Part of every written program: references to results, texts made of them, and conditions."""

from __future__ import annotations

# JSON is `Any` here, to keep programs plain; the strict mode has no use for that.
# pyright: basic
import json
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

Json = Any  # null, true, false, a number, a text, a list or an object


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


class Values(dict[str, Json]):
    """The results that a step can refer to by name; `skipped` are steps without one."""

    def __init__(self, known: Mapping[str, Json], skipped: Mapping[str, str] | None = None) -> None:
        super().__init__(known)
        self.skipped = skipped or {}


def ref(step: str, *path: str | int) -> Ref:
    """Returns a reference to a result, or to a part of it."""
    return Ref(step, path)


def key_text(key: str | int) -> str:
    """Returns a key or a position as it is written in a reference."""
    if isinstance(key, int):
        return f"[{key}]"
    is_plain = re.fullmatch(r"""[^\s.\[\]{}"]+""", key)
    return f".{key}" if is_plain else f"[{json.dumps(key, ensure_ascii=False)}]"


def at(values: Mapping[str, Json], step: str, *path: str | int) -> Json:
    """Returns the result of a step, or the part of it at a path."""
    if step not in values:
        raise StepError(f"{Ref(step, path)}: there is no result of '{step}'")
    value = values[step]
    for depth, key in enumerate(path):
        try:
            value = member(value, key)
        except (KeyError, IndexError, TypeError):
            here, parts = Ref(step, path[:depth]), parts_text(value)
            where = f"nothing at {key_text(key)} ({here} has {parts})"
            raise StepError(f"{Ref(step, path)}: {where}") from None
    return value


def member(value: Json, key: str | int) -> Json:
    """Returns what an object has at a key, or a list at a position."""
    if isinstance(value, dict):
        return value[str(key)]
    if isinstance(value, list) and (isinstance(key, int) or (key.isascii() and key.isdigit())):
        return value[int(key)]
    raise TypeError(type(value))


def parts_text(value: Json) -> str:
    """Says which parts a value has."""
    if isinstance(value, dict):
        return f"the keys {', '.join(list(value)[:8])}" if value else "no keys"
    if isinstance(value, list):
        return f"{len(value)} items"
    return f"no parts: it is {value_text(value)[:40]!r}"


def first(values: Mapping[str, Json], *refs: Ref) -> Json:
    """Returns the first of these whose step has a result."""
    for each in refs:
        if each.step in values:
            return at(values, each.step, *each.path)
    raise StepError(f"none of {', '.join(map(str, refs))} has a result")


def value_text(value: Json) -> str:
    """Returns a value as it is written inside a text: text as it is, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def text(values: Values, *parts: str | Ref) -> str:
    """Joins texts and values; in place of a step that was skipped stands that it was."""
    found: list[str] = []
    for each in parts:
        if isinstance(each, str):
            found.append(each)
        elif each.step in values.skipped:
            found.append(values.skipped[each.step])
        else:
            found.append(value_text(at(values, each.step, *each.path)))
    return "".join(found)


def kind_of(value: Json) -> str:
    """Returns the type of a value in words."""
    for kinds, name in (
        (bool, "true or false"),
        ((int, float), "a number"),
        (str, "a text"),
        (list, "a list"),
        (dict, "an object"),
    ):
        if isinstance(value, kinds):
            return name
    return "null"


def length(value: Json, said: str) -> int:
    """Returns the length of a text, a list or an object."""
    if isinstance(value, (str, list, dict)):
        return len(value)
    raise StepError(f"{said} is {kind_of(value)}, which has no length")


def empty(value: Json, said: str) -> bool:
    """Tells whether a value is null, or an empty text, list or object."""
    return value is None or length(value, said) == 0


def is_so(left: Json, name: str, right: Json, said: str) -> bool:
    """Tells whether two values compare as a condition says; fails if they are not comparable."""
    found = COMPARISONS[name](left, right)
    if found is None:
        kinds = f"{kind_of(left)} and {kind_of(right)}"
        raise StepError(f"it cannot be said whether {said}: {kinds} are not compared that way")
    return found


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
    """Tells whether two values differ; None if they are of unlike types."""
    found = equals(left, right)
    return None if found is None else not found


def ordered(wanted: str) -> Callable[[Json, Json], bool | None]:
    """Returns what tells whether two numbers or texts are ordered so: one of `<`, `=`, `>`."""

    def compare(left: Json, right: Json) -> bool | None:
        if kind_of(left) != kind_of(right) or kind_of(left) not in ("a number", "a text"):
            return None
        return ("<" if left < right else ">" if left > right else "=") in wanted

    return compare


def is_in(value: Json, items: Json) -> bool | None:
    """Tells whether a value is in a list; None if nothing in the list is like it."""
    if not isinstance(items, list):
        return None
    found = [equals(value, each) for each in items]
    return None if found and set(found) == {None} else True in found


def contains(left: Json, right: Json) -> bool | None:
    """Tells whether a list has a value, a text a text, or an object a key."""
    if isinstance(left, (str, dict)) and isinstance(right, str):
        return right in left
    return is_in(right, left)


COMPARISONS: dict[str, Callable[[Json, Json], bool | None]] = {
    "equals": equals,
    "not_equals": not_equals,
    "below": ordered("<"),
    "at_most": ordered("<="),
    "above": ordered(">"),
    "at_least": ordered(">="),
    "in": is_in,
    "contains": contains,
}
