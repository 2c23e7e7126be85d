"""Reads the rules of a step that a model wrote in other words; what could mean two things stays.

What stays as it was written is refused by the reader of plans, and the model is told.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from typing import Final

from plansmith.plan.conditions import LISTS, OPERATORS, PAIRS
from plansmith.plan.data import Json
from plansmith.plan.refs import STEP_ID, Ref, pieces

# Other names of the rules; those of `_NEGATED` hold the opposite of a condition.
RULE_ALIASES: Final = {
    **dict.fromkeys(("condition", "if", "only_if", "run_if"), "when"),
    **dict.fromkeys(("depends_on_condition", "unless", "skip_if"), "when"),
    **dict.fromkeys(("loop", "repeat_until"), "repeat"),
    **dict.fromkeys(("on_failure", "on_fail", "onError"), "on_error"),
    "retries": "retry",
    "compensate_with": "undo_with",
}
_NEGATED: Final = frozenset({"unless", "skip_if"})
_OPERATORS: Final = {
    **dict.fromkeys(("<", "lt", "less_than"), "below"),
    **dict.fromkeys(("<=", "lte", "le"), "at_most"),
    **dict.fromkeys((">", "gt", "greater_than"), "above"),
    **dict.fromkeys((">=", "gte", "ge"), "at_least"),
    **dict.fromkeys(("==", "=", "eq", "equal"), "equals"),
    **dict.fromkeys(("!=", "<>", "ne", "neq", "not_equal"), "not_equals"),
    **dict.fromkeys(("and", "&&"), "all"),
    **dict.fromkeys(("or", "||"), "any"),
    "!": "not",
    "is_empty": "empty",
    "includes": "contains",
}
_OPPOSITES: Final = {"not_in": "in", "not_contains": "contains", "not_empty": "empty"}
_AT_MOST: Final = ("max", "max_rounds", "max_iterations", "max_times", "times", "limit")
_RETRIES: Final = ("max", "max_retries", "retries", "times", "count")
_EVERY: Final = ("interval", "interval_s", "interval_seconds", "every_seconds", "every_s")
_PAUSE: Final = ("delay", "delay_s", "delay_seconds", "wait_seconds", *_EVERY)
_ON_ERROR: Final = {"ignore": "skip", "stop": "fail", "abort": "fail", "raise": "fail"}
_SIDES: Final = re.compile(r"(.*[^<>=!\s])\s*+(<=|>=|==|!=|<>|<|>|=)\s*+([^<>=!]+)")
_BARE: Final = re.compile(rf"({STEP_ID})((?:\.[\w-]+|\[\d+\])*)")
_SECONDS: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(s|secs?|seconds?|min|minutes?|hours?)")
_UNITS: Final = {"s": 1, "m": 60, "h": 3600}


def as_rule(name: str, value: Json) -> Json:
    """Returns what was written under another name of a rule, as the rule itself holds it."""
    return {name: value} if name in _NEGATED else value


def rule_as_meant(rule: str, value: Json, ids: Collection[str]) -> Json:
    """Returns the value of a rule as the plan language has it; `ids` are those of all steps."""
    match rule:
        case "when":
            return _condition(value, ids)
        case "repeat" if isinstance(value, dict):
            return _repeat(value, ids)
        case "retry":
            return _retry(value)
        case "on_error":
            return _on_error(value)
        case "otherwise" if not isinstance(value, dict):
            return {"value": value}
        case _:
            return value


def _repeat(value: dict[str, Json], ids: Collection[str]) -> Json:
    found = _renamed(value, {"at_most": _AT_MOST, "every": _PAUSE})
    found = _renamed(found, {"until": ("stop_when", "condition")})
    if "while" in found and "until" not in found:
        found["until"] = {"not": _condition(found.pop("while"), ids)}
    elif "until" in found:
        found["until"] = _condition(found["until"], ids)
    return found


def _retry(value: Json) -> Json:
    if isinstance(value, dict):
        return _renamed(value, {"at_most": _RETRIES, "every": _PAUSE})
    whole = isinstance(value, int) and not isinstance(value, bool)
    return {"at_most": value} if whole else value


def _on_error(value: Json) -> Json:
    if isinstance(value, dict) and value.keys() == {"default"}:
        return {"value": value["default"]}
    return _ON_ERROR.get(value, value) if isinstance(value, str) else value


def _renamed(value: dict[str, Json], others: Mapping[str, Collection[str]]) -> dict[str, Json]:
    """Returns an object with its keys and times as meant; two names of one key stay as they are."""
    found = dict(value)
    for name, aliases in others.items():
        given = [each for each in aliases if each in found]
        if len(given) == 1 and name not in found:
            found[name] = found.pop(given[0])
    every = found.get("every")
    read = _SECONDS.fullmatch(every.strip().lower()) if isinstance(every, str) else None
    if read is not None:
        seconds = float(read[1]) * _UNITS[read[2][0]]
        found["every"] = int(seconds) if seconds.is_integer() else seconds
    return found


def _condition(value: Json, ids: Collection[str]) -> Json:
    if isinstance(value, str):
        return _comparison(value, ids)
    if not isinstance(value, dict):
        return value
    if (spelled := _spelled_out(value)) is not None:
        value = spelled
    if len(value) != 1:
        return value
    name, given = next(iter(value.items()))
    if name in _OPPOSITES:
        return {"not": {_OPPOSITES[name]: given}}
    if name in _NEGATED:
        return {"not": _condition(given, ids)}
    known = name if name in OPERATORS else _OPERATORS.get(name, name)
    if known in LISTS and isinstance(given, list):
        return {known: [_condition(each, ids) for each in given]}
    return {known: _condition(given, ids) if known == "not" else given}


def _spelled_out(value: dict[str, Json]) -> dict[str, Json] | None:
    """Returns a comparison that was written with its parts named."""
    found = _renamed(value, {"operator": ("op",)})
    name = found.get("operator")
    if found.keys() != {"operator", "left", "right"} or not isinstance(name, str):
        return None
    opposite = name in _OPPOSITES and _OPPOSITES[name] in PAIRS
    known = name if opposite else _OPERATORS.get(name, name)
    return {known: [found["left"], found["right"]]} if opposite or known in PAIRS else None


def _comparison(text: str, ids: Collection[str]) -> Json:
    """Reads `{{stock.count}} < 10`; a text that is not one comparison stays as it is."""
    sides = _SIDES.fullmatch(text.strip())
    if sides is None:
        return text
    left, right = _operand(sides[1], ids), _operand(sides[3], ids)
    if left is None or right is None:
        return text
    return {_OPERATORS[sides[2]]: [left[0], right[0]]}


def _operand(text: str, ids: Collection[str]) -> tuple[Json] | None:
    """Returns what one side of a comparison is, in a tuple; None if that is not certain."""
    parts = pieces(text)
    if len(parts) == 1 and isinstance(parts[0], Ref):
        return (text,)
    bare = _BARE.fullmatch(text.removeprefix("${").removesuffix("}"))
    if bare is not None and bare[1] in ids:
        return ("{{" + bare[0] + "}}",)
    if len(text) > 1 and text[0] == text[-1] == "'" and "'" not in text[1:-1]:
        text = json.dumps(text[1:-1])
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return None if isinstance(value, (dict, list)) else (value,)
