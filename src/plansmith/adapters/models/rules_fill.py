"""Calls by rules: the tool whose words fit best, its arguments as they stand in the request."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from plansmith.adapters.models.local.deeds import DEEDS, asks_for_change
from plansmith.adapters.models.local.grounding import ASK
from plansmith.adapters.models.local.signatures import Offered
from plansmith.adapters.models.rules_values import Values, read_values
from plansmith.plan.data import Json
from plansmith.planner.shortlist import shortlist

MOST_STEPS: Final = 4
_LEAST_SCORE: Final = 0.2
# One thing after another; "and" only before a deed.
_TURN: Final = re.compile(
    rf"[;；]\s*|,?\s+(?:and\s+)?then\s+|,?\s+and\s+(?=(?:{DEEDS})\b)"
    "|，?(?:然后|接着|随后|并且|再)|，?并(?=[把将写画发存])",
    re.IGNORECASE,
)
_KINDS: Final = (
    ("urls", re.compile(r"ur[il]|link|page|site|address", re.IGNORECASE)),
    ("mails", re.compile(r"mail|recipient|^(?:to|cc|bcc)$", re.IGNORECASE)),
    ("patterns", re.compile(r"pattern|glob", re.IGNORECASE)),
    ("dates", re.compile(r"date|day|time|when|start|end|since|until", re.IGNORECASE)),
    ("sums", re.compile(r"expression|formula|sum", re.IGNORECASE)),
    (
        "paths",
        re.compile(r"path|file|table|document|image|source|target|input|output", re.IGNORECASE),
    ),
)
_FOLDER: Final = re.compile(r"folder|dir", re.IGNORECASE)
_WORDS: Final = re.compile(r"query|text|term|word|search|question|topic|^q$", re.IGNORECASE)
_RESULT: Final = re.compile(r"text|body|content|message|note|rows|data|items", re.IGNORECASE)


def calls_for(request: str, tools: Sequence[Offered]) -> list[dict[str, Any]]:
    """The calls that the words of a request point at; none when no tool fits."""
    calls: list[dict[str, Any]] = []
    for clause in _clauses(request):
        best = _best(clause, tools, len(calls))
        if best is not None and len(calls) < MOST_STEPS:
            calls.append({"tool": best.tool.name, "args": best.args})
    return calls


def _clauses(request: str) -> list[str]:
    parts = [part.strip() for part in _TURN.split(request) if part.strip()]
    return parts or [request]


@dataclass(frozen=True, slots=True)
class _Filled:
    tool: Offered
    args: Mapping[str, Json]
    score: float


def _best(clause: str, tools: Sequence[Offered], place: int) -> _Filled | None:
    """The tool whose words fit and whose arguments can be given."""
    known = {tool.name: tool for tool in tools if not tool.is_agent}
    entries = {
        name: {"description": tool.about, "input_schema": tool.inputs}
        for name, tool in known.items()
    }
    if not entries:
        return None
    picks = [pick for pick in shortlist(clause, entries, k=len(entries)) if pick.score > 0]
    filled = [_fill(known[pick.name], clause, place, pick.score) for pick in picks]
    best = max(filled, key=lambda each: each.score, default=None)
    return best if best is not None and best.score >= _LEAST_SCORE else None


def _fill(tool: Offered, clause: str, place: int, score: float) -> _Filled:
    values = read_values(clause)
    named = _count(values)
    args: dict[str, Json] = {}
    for name, schema in tool.fields.items():
        fields = cast("Mapping[str, Any]", schema if isinstance(schema, Mapping) else {})
        value = _value(name, fields, values, clause, tool.required)
        if value is None and name in tool.required:
            value = _otherwise(name, fields, tool, values, place)
        if value is not None:
            args[name] = value
    left = _count(values)
    asked = sum(value == ASK for value in args.values())
    # A value that finds no place, and a place that finds no value, both speak against a tool;
    # so does a change that nobody asked for.
    fit = score + 0.4 * (named - left) - 0.3 * left - 0.4 * asked
    wanted = asks_for_change(clause)
    return _Filled(tool, args, fit + (0.0 if wanted is not tool.only_reads else -0.6))


def _count(values: Values) -> int:
    return len(values.folders) + sum(len(getattr(values, kind)) for kind, _ in _KINDS)


def _value(
    name: str, schema: Mapping[str, Any], values: Values, clause: str, required: Sequence[str]
) -> Json:
    """What the request gives for an argument by its name and kind; None when nothing does."""
    choices = cast("list[Any]", schema.get("enum") or [])
    if choices:
        return next((each for each in choices if _is_said(each, clause)), None)
    kind = schema.get("type")
    if kind in ("integer", "number"):
        return _number(values, whole=kind == "integer") if name in required else None
    takes_text = kind in (None, "string") or (isinstance(kind, list) and "string" in kind)
    if not takes_text:
        return None
    if _FOLDER.search(name):
        inner = [each for each in values.paths if "." not in each.rpartition("/")[2]]
        return _take(values.paths, inner[0]) if inner else next(iter(_pop(values.folders)), None)
    for known, pattern in _KINDS:
        found: list[str] = getattr(values, known)
        if found and (pattern.search(name) or schema.get("format") == known.rstrip("s")):
            return found.pop(0)
    return None


def _otherwise(
    name: str, schema: Mapping[str, Any], tool: Offered, values: Values, place: int
) -> Json:
    """What stands in for a required value that is not named by its kind."""
    kind = schema.get("type")
    if "default" in schema:
        return cast("Json", schema["default"])
    if schema.get("format") == "sql":
        return ASK  # a query is no value: somebody has to think of it
    if _FOLDER.search(name) and tool.only_reads:
        return "."
    text = _free_text(name, tool, values) if kind in (None, "string") else None
    if text is None and place and _RESULT.search(name):
        return f"${place}"
    if text is None and kind in (None, "string") and tool.only_reads and values.names:
        return values.names.pop(0)
    return text or ASK


def _free_text(name: str, tool: Offered, values: Values) -> str | None:
    """What is quoted; for whoever searches, the word that stands out."""
    if values.quoted:
        return values.quoted.pop(0)
    searches = tool.only_reads and _WORDS.search(name)
    return values.keyword or None if searches else None


def _pop(found: list[str]) -> list[str]:
    return [found.pop(0)] if found else []


def _take(found: list[str], value: str) -> str:
    found.remove(value)
    return value


def _number(values: Values, *, whole: bool) -> Json:
    for number in values.numbers:
        if not whole or number.is_integer():
            values.numbers.remove(number)
            return int(number) if number.is_integer() else number
    return None


def _is_said(choice: object, clause: str) -> bool:
    """Whether a choice stands in the request as a word of its own."""
    if not isinstance(choice, str) or not choice.strip():
        return False
    return bool(re.search(rf"(?<!\w){re.escape(choice)}(?!\w)", clause, re.IGNORECASE))
