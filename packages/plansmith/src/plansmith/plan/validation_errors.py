"""Says in words what is wrong with a value, from the first error of its validation."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from pydantic import ValidationError

from plansmith.plan.sentence import Sentence
from plansmith.text import safe

# The code of each rule, and the name of its limit in the validation error.
_RULES: Final[Mapping[str, tuple[str, str]]] = {
    "greater_than_equal": ("must.at_least", "ge"),
    "greater_than": ("must.more", "gt"),
    "less_than_equal": ("must.at_most", "le"),
    "less_than": ("must.less", "lt"),
    "literal_error": ("must.one_of", "expected"),
    "enum": ("must.one_of", "expected"),
    "string_too_short": ("must.min_length", "min_length"),
    "string_too_long": ("must.max_length", "max_length"),
    "decimal_max_digits": ("must.max_digits", "max_digits"),
    "missing": ("must.missing", ""),
    "extra_forbidden": ("must.unknown", ""),
}
# What a pattern wants, in words; a test requires them for each pattern of our models.
PATTERN_WORDS: Final[Mapping[str, str]] = {
    r"\S": "must.not_blank",
    r"^[^\r\n\x00]*$": "must.one_line",
    r"^([01][0-9]|2[0-3]):[0-5][0-9]$": "must.time_of_day",
    r"^([1-9]\d{0,4}[hdw])?$": "must.length",
    r"^[^\W_][\w.-]{0,63}$": "must.name",
    "^(auto|json_schema|tool|text)$": "must.reply_form",
}
_KINDS: Final[Mapping[str, str]] = {
    "int": "must.int",
    "float": "must.number",
    "finite": "must.number",
    "decimal": "must.number",
    "bool": "must.bool",
    "string": "must.text",
    "list": "must.list",
    "tuple": "must.list",
    "dict": "must.table",
    "model": "must.table",
}


def why_invalid(error: ValidationError) -> str:
    """Describes the first error, such as `run.width must be at least 1 (got 0)`."""
    first: Mapping[str, Any] = error.errors()[0]
    place = safe(".".join(map(str, first["loc"])))  # keys are whatever a file has
    rule, given = broken_rule(first), _given(first)
    return (
        Sentence("{place} {rule}{given}", place=place, rule=rule, given=given)
        if place
        else Sentence("{rule}{given}", rule=rule, given=given)
    )


def broken_rule(first: Mapping[str, Any]) -> str:
    """The rule that an entry of a validation error breaks, such as `must be at least 1`."""
    kind = str(first["type"])
    if kind == "string_pattern_mismatch":
        return Sentence(PATTERN_WORDS.get(first["ctx"]["pattern"], "must.form"))
    if kind in _RULES:
        code, limit = _RULES[kind]
        return Sentence(code, value=str(first["ctx"][limit])) if limit else Sentence(code)
    wanted = _KINDS.get(kind.partition("_")[0])
    if wanted is not None and kind != "string_unicode":
        return Sentence(wanted)
    # Our checks raise sentences; pydantic keeps such an error beside its own message.
    raised = first.get("ctx", {}).get("error")
    words = raised.args[0] if isinstance(raised, ValueError) and raised.args else first["msg"]
    return words if isinstance(words, str) else str(words)


def _given(first: Mapping[str, Any]) -> str:
    value = first.get("input")
    # Other text is not shown: it may be a secret in the wrong place.
    is_choice = isinstance(value, str) and first["type"] in ("literal_error", "enum")
    is_number = isinstance(value, int | float) and first["type"] != "extra_forbidden"
    if not is_choice and not is_number:
        return ""
    text = json.dumps(value, ensure_ascii=False)
    return Sentence(" (got {value})", value=text if len(text) <= 60 else f"{text[:59]}…")
