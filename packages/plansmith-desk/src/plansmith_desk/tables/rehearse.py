"""Finds what is wrong with the values that a query compares columns with, before it runs."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from typing import Final

from plansmith.text import clip
from plansmith_desk.sql.rows import Data
from plansmith_desk.tables.catalogue import loose
from plansmith_desk.tables.query import NAME, TEXT, bare, in_several_cases
from plansmith_desk.tables.read import is_number

_COMPARED: Final = re.compile(
    rf"(?P<column>{NAME})\s*(?:"
    rf"(?P<sign>==?|<>|!=|<=?|>=?)\s*(?P<value>{TEXT})(?!\s*(?:\|\||collate))"
    rf"|(?:\bnot\s+)?\bin\s*\(\s*(?P<values>{TEXT}(?:\s*,\s*{TEXT})*)\s*\))",
    re.IGNORECASE,
)
_ADDED: Final = re.compile(
    rf"\b(?P<function>sum|avg|total|median|stdev|exact_sum)\s*\(\s*(?:distinct\s+)?"
    rf"(?:{NAME}\s*\.\s*)?(?P<column>{NAME})\s*\)",
    re.IGNORECASE,
)
_CASED: Final = re.compile(r"\b(?:lower|upper|trim|collate)\b", re.IGNORECASE)
_MOST_VALUES: Final = 20_000
_MOST_COMPARED: Final = 40
_NEAR: Final = 0.8


def flaw_of_values(query: str, tables: Mapping[str, Data]) -> str:
    """Returns what is surely wrong with a value that a query names; empty if nothing is."""
    flaws: list[str] = []
    for found in [*_ADDED.finditer(query)][:_MOST_COMPARED]:
        for data, place in _owner(found["column"], query, tables):
            flaws.append(_flaw_of_sum(data, place, found["function"].lower()))
    # A query that changes the case of texts looks after its spelling.
    compared = [] if _CASED.search(query) else [*_COMPARED.finditer(query)][:_MOST_COMPARED]
    for found in compared:
        for data, place in _owner(found["column"], query, tables):
            for text in re.findall(TEXT, found["value"] or found["values"]):
                value = text[1:-1].replace("''", "'")
                flaws.append(_flaw(data, place, found["sign"] or "=", value))
    return next(filter(None, flaws), "")


def _owner(column: str, query: str, tables: Mapping[str, Data]) -> list[tuple[Data, int]]:
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
    return found if len(found) == 1 and not is_alias else []


def _flaw_of_sum(data: Data, place: int, function: str) -> str:
    """Says where SQLite would count texts as numbers by how they begin, without a word."""
    name, kind = data.columns[place]
    is_text = kind in ("text", "date", "datetime", "json")
    if not is_text or all(is_number(each.strip()) for each in _values(data, place)):
        return ""
    numbers = [each for each, kind in data.columns if kind in ("integer", "number")]
    hint = f": columns of numbers are {', '.join(numbers)}" if numbers else ""
    return f"{name} holds texts, and {function}() needs numbers{clip(hint, 200)}"


def _flaw(data: Data, place: int, sign: str, value: str) -> str:
    name, kind = data.columns[place]
    if kind in ("date", "datetime"):
        if re.match(r"\d{4}-\d{2}|\d{4}$", value) or not re.search(r"\d", value):
            return ""
        shown = next((str(row[place]) for row in data.rows if row[place] is not None), "2026-01-31")
        return f"{name} holds dates as {shown}: write {value!r} that way"
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


def _flaw_of_spelling(data: Data, place: int, value: str, values: Sequence[str]) -> str:
    absent = f"{data.names[place]} never is {clip(value, 60)!r}"
    for other, (column, kind) in enumerate(data.columns):
        there = _values(data, other) if kind == "text" and other != place else []
        for each in there:
            if each.casefold() == value.casefold():
                return f"{absent}, but {column} is: compare {column} with {clip(each, 60)!r}"
    near = [each for each in values if loose(each) == loose(value)]
    if not near:
        folded = {each.casefold(): each for each in values}
        close = difflib.get_close_matches(value.casefold(), folded, n=2, cutoff=_NEAR)
        near = [folded[each] for each in close]
    return f"{absent}: did you mean {clip(near[0], 60)!r}?" if len(near) == 1 else ""


def _values(data: Data, place: int) -> list[str]:
    """Returns the different texts of a column; none if they are too many to be sure."""
    found = dict.fromkeys(row[place] for row in data.rows if isinstance(row[place], str))
    return list(found) if len(found) <= _MOST_VALUES else []
