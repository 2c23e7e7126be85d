"""Plain values: texts, numbers, booleans and null, which need no conversion and no copy."""

from __future__ import annotations

from typing import Final, TypeGuard

from plansmith.plan.data import Content, Json

_UNCHANGING: Final = frozenset({str, int, float, bool, type(None)})
_FAR: Final = 2**63


def is_plain(value: object) -> TypeGuard[str | int | float | bool | None]:
    """Tells whether a value is surely fit for JSON as it is; false if it must be looked at."""
    if type(value) is str:
        return value.isascii() or _is_text(value)
    if type(value) is int:
        return -_FAR < value < _FAR
    if type(value) is float:
        return value - value == 0.0  # neither infinite nor NaN
    return value is None or type(value) is bool


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # half a character, as undecodable file names bring it
        return False
    return True


def own_value(value: Json, content: Content) -> Json:
    """Returns a value for one user alone: itself if it cannot be changed, else a new copy."""
    if type(value) in _UNCHANGING:
        return value
    # Reading the text again would take much longer for the usual list of texts or numbers.
    return [*value] if _is_flat(value) else content.value()


def _is_flat(value: Json) -> TypeGuard[list[Json]]:
    return type(value) is list and _UNCHANGING.issuperset(map(type, value))


def own_inputs(inputs: dict[str, Json], content: Content) -> dict[str, Json]:
    """Returns these inputs, which nobody else may use, or a copy: the callee may change them."""
    for name, value in inputs.items():
        if type(value) in _UNCHANGING:
            continue
        if type(value) is not list or not _UNCHANGING.issuperset(map(type, value)):
            copy = content.value()
            assert isinstance(copy, dict)  # noqa: S101
            return copy
        inputs[name] = [*value]
    return inputs
