"""Limits and budgets of runs, and plain messages for invalid values."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Any, Final, Literal

from pydantic import Field, ValidationError

from plansmith.plan.data import Flag, Number, Record, StrictInt
from plansmith.plan.sentence import Sentence
from plansmith.text import safe


class Limits(Record):
    """How many steps run at once, how often calls are tried, how long a run waits, and the like.

    A person is asked before a run exceeds `max_replans`, `max_iterations` or `max_rejections`.

    Attributes:
        width: How many steps run at the same time.
        per_tool: How many calls of a tool run at the same time, by its name.
        tries: How many times to try a call that is safe to repeat.
        first_wait_s: Seconds before the second try; each later wait is longer.
        grace_s: Seconds that running calls get to finish when a run is stopped.
        replan: When a new plan is made: `never`, `on_failure` (or when an agent advises it), or
            `after_each` step.
        max_replans: How many new plans are made after a failure or advice.
        max_iterations: How many plans a run may have in total, if it plans again after all steps
            have run; 1 means plan once.
        max_rejections: How many plans a person may send back.
        tool_texts: Whether a planner that plans again reads errors and results of tools:
            `reviewed`: only where a person sees every plan; `ask`: always, and a person reviews the
            new plan; `trust`: always, and a person reviews only what goes beyond the approval.
        data: What happens when a value from a tool reaches a call that changes something: `show`
            it at review, `ask` before the call, or `deny` the call.
        data_free: Name patterns of tools to which `data` does not apply.
        early_start: Whether steps that only read start while the plan is still being written.
        lease_s: Seconds of silence after which other machines consider this process dead.

    Examples:
        >>> from plansmith import Limits, Plansmith
        >>> smith = Plansmith(limits=Limits(width=4, tries=1))
    """

    width: StrictInt = Field(default=16, ge=1)
    per_tool: dict[str, Annotated[StrictInt, Field(ge=1)]] = Field(default_factory=dict)
    tries: StrictInt = Field(default=3, ge=1)
    first_wait_s: Number = Field(default=0.5, ge=0)
    grace_s: Number = Field(default=5.0, ge=0)
    replan: Literal["never", "on_failure", "after_each"] = "on_failure"
    max_replans: StrictInt = Field(default=2, ge=0)
    max_iterations: StrictInt = Field(default=1, ge=1)
    max_rejections: StrictInt = Field(default=3, ge=0)
    tool_texts: Literal["reviewed", "ask", "trust"] = "reviewed"
    data: Literal["show", "ask", "deny"] = "ask"
    data_free: tuple[str, ...] = ()
    early_start: Flag = True
    lease_s: Number = Field(default=20.0, ge=1, le=3600)


class BudgetLimits(Record):
    """What one run, or all runs together, may use before they stop and ask; None is no limit.

    Attributes:
        money: US dollars.
        tokens: Tokens of models.
        steps: Calls of tools and agents, replies, and each new plan of a run under way.
        seconds: Time from the start of the run.

    Examples:
        >>> from plansmith import BudgetLimits, Plansmith
        >>> smith = Plansmith(budget=BudgetLimits(tokens=50_000, seconds=60))
    """

    money: Decimal | None = Field(default=None, gt=0, max_digits=20)
    tokens: StrictInt | None = Field(default=None, ge=1)
    steps: StrictInt | None = Field(default=None, ge=1)
    seconds: Number | None = Field(default=None, gt=0)


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
# What a pattern wants, in words; a test asks for one for each pattern of our own models.
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
    # A check of ours raises a sentence; pydantic keeps the error beside its own words.
    raised = first.get("ctx", {}).get("error")
    words = raised.args[0] if isinstance(raised, ValueError) and raised.args else first["msg"]
    return words if isinstance(words, str) else str(words)


def _given(first: Mapping[str, Any]) -> str:
    value = first.get("input")
    # Not shown: other text may be a secret in the wrong place.
    is_choice = isinstance(value, str) and first["type"] in ("literal_error", "enum")
    is_number = isinstance(value, int | float) and first["type"] != "extra_forbidden"
    if not is_choice and not is_number:
        return ""
    text = json.dumps(value, ensure_ascii=False)
    return Sentence(" (got {value})", value=text if len(text) <= 60 else f"{text[:59]}…")
