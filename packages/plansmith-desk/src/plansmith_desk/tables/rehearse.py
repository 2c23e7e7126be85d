"""Finds what is wrong with the values that a query compares columns with, before it runs."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from plansmith.text import clip
from plansmith_desk.sql.rows import Data
from plansmith_desk.tables.catalogue import loose
from plansmith_desk.tables.query import bare, in_several_cases
from plansmith_desk.tables.read import is_number

_NAME: Final = r"""(?:(?<!")"(?:[^"]|"")++"|`[^`]+`|\[[^\[\]]+\]|(?<!\w)[^\W\d]\w*+)"""
_TEXT: Final = r"'(?:[^']|'')*'"
_COMPARED: Final = re.compile(
    rf"(?:{_NAME}\s*\.\s*)?(?P<column>{_NAME})\s*(?:"
    rf"(?P<sign>==?|<>|!=|<=?|>=?)\s*(?P<value>{_TEXT})(?!\s*(?:\|\||collate))"
    rf"|(?:\bnot\s+)?\bin\s*\(\s*(?P<values>{_TEXT}(?:\s*,\s*{_TEXT})*)\s*\))",
    re.IGNORECASE,
)
_ADDED: Final = re.compile(
    rf"\b(?P<function>sum|avg|total|median|stdev|exact_sum)\s*\(\s*(?:distinct\s+)?"
    rf"(?:{_NAME}\s*\.\s*)?(?P<column>{_NAME})\s*\)",
    re.IGNORECASE,
)
_CASED: Final = re.compile(r"\b(?:lower|upper|trim|collate)\b", re.IGNORECASE)
_MOST_VALUES: Final = 20_000
_MOST_COMPARED: Final = 40
_NEAR: Final = 0.85
_SHORTEST: Final = 4  # bytes: two Chinese letters say as much as four Latin ones
_MORE: Final = 12  # what a file says goes to a planner: a name, never a sentence


def flaw_of_values(query: str, tables: Mapping[str, Data]) -> str:
    """Returns what is surely wrong with a value that a query names; empty if nothing is."""
    for added in [*_ADDED.finditer(query)][:_MOST_COMPARED]:
        owner = _owner(added["column"], query, tables)
        flaw = _flaw_of_sum(*owner, added["function"].lower()) if owner else ""
        if flaw:
            return flaw
    for column, sign, value in [*_compared(query)][:_MOST_COMPARED]:
        owner = _owner(column, query, tables)
        flaw = _flaw(*owner, sign, value) if owner else ""
        if flaw:
            return flaw
    return ""


def _owner(column: str, query: str, tables: Mapping[str, Data]) -> tuple[Data, int] | None:
    """Returns the one table that has a column, and its place there."""
    name = bare(column).casefold()
    found = [
        (data, place)
        for data in tables.values()
        for place, each in enumerate(data.names)
        if each.casefold() == name
    ]
    # A column of several tables, or of none: an alias, whose values nobody knows yet.
    is_alias = re.search(rf"\bas\s+[\"`\[]?{re.escape(name)}\b", query, re.IGNORECASE)
    return found[0] if len(found) == 1 and not is_alias else None


def _flaw_of_sum(data: Data, place: int, function: str) -> str:
    """Says where SQLite would count texts as numbers by how they begin, without a word."""
    name, kind = data.columns[place]
    if kind not in ("text", "date", "datetime", "json"):
        return ""
    strange = next((each for each in _values(data, place) if not is_number(each.strip())), None)
    if strange is None:
        return ""
    numbers = [each for each, kind in data.columns if kind in ("integer", "number")]
    hint = f": columns of numbers are {', '.join(numbers)}" if numbers else ""
    return f"{name} holds texts, and {function}() needs numbers{clip(hint, 200)}"


def _compared(query: str) -> Iterator[tuple[str, str, str]]:
    """Yields the columns that are compared with texts: column, sign, text."""
    if _CASED.search(query):
        return  # a query that looks after its spelling
    for found in _COMPARED.finditer(query):
        listed = found["value"] or found["values"]
        sign = found["sign"] or "="
        for text in re.findall(_TEXT, listed):
            yield found["column"], sign, text[1:-1].replace("''", "'")


def _flaw(data: Data, place: int, sign: str, value: str) -> str:
    name, kind = data.columns[place]
    if kind in ("date", "datetime"):
        return _flaw_of_date(data, place, value)
    if kind in ("integer", "number"):
        return "" if is_number(value.strip()) else f"{name} holds numbers, and {value!r} is none"
    if kind != "text" or sign not in ("=", "=="):
        return ""
    values = _values(data, place)
    same = [each for each in values if each.casefold() == value.casefold()]
    if len(same) > 1 and in_several_cases(data, place):
        listed = " and ".join(map(repr, same))
        return f"{name} has {listed}: write lower({name}) = {value.lower()!r} for all of them"
    return "" if same or not values else _flaw_of_spelling(data, place, value, values)


def _flaw_of_date(data: Data, place: int, value: str) -> str:
    if re.match(r"\d{4}-\d{2}|\d{4}$", value) or not re.search(r"\d", value):
        return ""
    shown = next((str(row[place]) for row in data.rows if row[place] is not None), "2026-01-31")
    return f"{data.names[place]} holds dates as {shown}: write {value!r} that way"


def _flaw_of_spelling(data: Data, place: int, value: str, values: Sequence[str]) -> str:
    name = data.names[place]
    absent = f"{name} never is {clip(value, 60)!r}"
    for other, (column, kind) in enumerate(data.columns):
        if kind == "text" and other != place:
            there = [each for each in _values(data, other) if each.casefold() == value.casefold()]
            if there:
                return f"{absent}, but {column} is: compare {column} with {clip(there[0], 60)!r}"
    near = _near(value, values)
    return f"{absent}: did you mean {clip(near, 60)!r}?" if near else ""


def _near(value: str, values: Sequence[str]) -> str:
    """Returns the one value that can only be meant."""
    same = [each for each in values if loose(each) == loose(value)]
    if not same and len(value.encode()) >= _SHORTEST:
        low = value.casefold()
        same = [
            each
            for each in values
            if len(each.encode()) >= _SHORTEST
            and len(each) <= len(value) + _MORE
            and (each.casefold().startswith(low) or low.startswith(each.casefold()))
        ]
    if not same:
        folded = {each.casefold(): each for each in values}
        close = difflib.get_close_matches(value.casefold(), folded, n=2, cutoff=_NEAR)
        same = [folded[each] for each in close]
    return same[0] if len(same) == 1 else ""


def _values(data: Data, place: int) -> list[str]:
    """Returns the different texts of a column; none if they are too many to be sure."""
    found = dict.fromkeys(row[place] for row in data.rows if isinstance(row[place], str))
    return list(found) if len(found) <= _MOST_VALUES else []
