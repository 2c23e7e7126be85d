"""Queries: what is wrong with SQL that a small model wrote, before anything runs it."""

from __future__ import annotations

import re
from typing import Final

_TEXT: Final = re.compile(r"'((?:[^']|'')*)'")
_NAME: Final = re.compile(r"(?<![\w.'])(?:\"([^\"]+)\"|([A-Za-z_]\w*))(?=(\s*\()?)")
_NEW: Final = re.compile(
    r"\bas\s+\"?(\w+)|\b(?:from|join)\s+[\w.\"'`]+\s+(?:as\s+)?(\w+)|\bwith\s+(\w+)", re.IGNORECASE
)
_WORDS: Final = frozenset(
    re.findall(
        r"\w+",
        "select from where group by having order asc desc limit offset and or not in is null like "
        "between case when then else end as on join left right inner outer cross using distinct "
        "union all exists with recursive cast integer real text date count sum avg min max over "
        "partition true false nulls first last filter escape glob csv tsv json",
    )
)
_CONDITION: Final = r"[\w.\"]+\s*(?:=|<=|>=|<>|!=|<|>|\bLIKE\b)\s*"


def without_condition(query: str, value: str) -> str:
    """The query without the one plain condition that compares with a value; else as it is."""
    if re.search(r"\bOR\b", query, re.IGNORECASE):
        return query
    wrong = rf"{_CONDITION}{re.escape(value)}(?![\w.])"
    for pattern, kept in (
        (rf"\s+AND\s+{wrong}", ""),
        (rf"(\bWHERE\s+){wrong}\s+AND\s+", r"\1"),
        (rf"\s+WHERE\s+{wrong}", ""),
    ):
        shorter, count = re.subn(pattern, kept, query, flags=re.IGNORECASE)
        if count == 1:
            return shorter
    return query


def unknown_names(query: str, tables: str) -> list[str]:
    """The names in a query that no known table has, where tables are known at all."""
    if not tables:
        return []
    there = set(re.findall(r"\w+", tables.casefold()))
    bare = _TEXT.sub("''", query)
    new = {name.casefold() for found in _NEW.findall(bare) for name in found if name}
    names = [
        quoted or plain for quoted, plain, called in _NAME.findall(bare) if quoted or not called
    ]
    return [
        name
        for name in dict.fromkeys(names)
        if not {*re.findall(r"\w+", name.casefold())} <= there | new | _WORDS
    ]
