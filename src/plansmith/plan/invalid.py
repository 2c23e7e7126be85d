"""Says in plain words what is wrong with a value that a person or a program gave."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from pydantic import ValidationError

_RULES: Final[Mapping[str, str]] = {
    "greater_than_equal": "must be at least {ge}",
    "greater_than": "must be more than {gt}",
    "less_than_equal": "must be at most {le}",
    "less_than": "must be less than {lt}",
    "literal_error": "must be {expected}",
    "enum": "must be {expected}",
    "string_too_short": "must have at least {min_length} characters",
    "string_too_long": "must have at most {max_length} characters",
    "string_pattern_mismatch": "must look like {pattern}",
    "decimal_max_digits": "must have at most {max_digits} digits",
    "missing": "is missing",
    "extra_forbidden": "is not known",
}
_KINDS: Final[Mapping[str, str]] = {
    "int": "a whole number",
    "float": "a number",
    "finite": "a number",
    "decimal": "a number",
    "bool": "true or false",
    "string": "text",
    "list": "a list",
    "tuple": "a list",
    "dict": "a table",
    "model": "a table",
}


def why_invalid(error: ValidationError) -> str:
    """The first thing that is wrong, such as `run.width must be at least 1 (got 0)`."""
    first: Mapping[str, Any] = error.errors()[0]
    place = ".".join(map(str, first["loc"]))
    return f"{place} {_rule(first)}{_given(first)}".strip()


def _rule(first: Mapping[str, Any]) -> str:
    kind = str(first["type"])
    if kind in _RULES:
        return _RULES[kind].format(**first.get("ctx", {}))
    wanted = _KINDS.get(kind.partition("_")[0])
    if wanted is not None and kind != "string_unicode":
        return f"must be {wanted}"
    return str(first["msg"]).removeprefix("Value error, ")


def _given(first: Mapping[str, Any]) -> str:
    value = first.get("input")
    # Other text may be a secret that stands in the wrong place.
    is_choice = isinstance(value, str) and first["type"] in ("literal_error", "enum")
    is_number = isinstance(value, int | float) and first["type"] != "extra_forbidden"
    if not is_choice and not is_number:
        return ""
    shown = json.dumps(value, ensure_ascii=False)
    return f" (got {shown if len(shown) <= 60 else shown[:59] + '…'})"
