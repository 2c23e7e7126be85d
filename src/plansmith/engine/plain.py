"""Plain values: texts, numbers, booleans and null, which need no conversion and no copy."""

from __future__ import annotations

from typing import Final, TypeGuard

from plansmith.plan.data import Content, Json

_UNCHANGING: Final = frozenset({str, int, float, bool, type(None)})
_FAR: Final = 2**63


def is_plain(value: object) -> TypeGuard[str | int | float | bool | None]:
    """Tells whether a value is surely fit for JSON as it is; false if it must be looked at."""
    if type(value) is str:
        return value.isascii()
    if type(value) is int:
        return -_FAR < value < _FAR
    if type(value) is float:
        return value - value == 0.0  # neither infinite nor NaN
    return value is None or type(value) is bool


def own_value(value: Json, content: Content) -> Json:
    """Returns a value for one user alone: itself if it cannot be changed, else a new copy."""
    return value if type(value) in _UNCHANGING else content.value()


def own_inputs(inputs: dict[str, Json], content: Content) -> dict[str, Json]:
    """Returns these inputs, which nobody else may use, or a copy: the callee may change them."""
    for value in inputs.values():
        if type(value) not in _UNCHANGING:
            copy = content.value()
            assert isinstance(copy, dict)  # noqa: S101
            return copy
    return inputs
