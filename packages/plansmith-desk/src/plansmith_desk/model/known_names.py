"""Puts right the names of tables and files that a small model copied badly."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping
from difflib import SequenceMatcher
from pathlib import PurePosixPath
from typing import Any, Final, NamedTuple

from plansmith_desk.model.signatures import Offered

_TABLE: Final = re.compile(
    r"(?P<path>.{1,300}?(?:\.(?:csv|tsv|jsonl?)|\.(?:db|sqlite3?|db3)/.{1,300}?)): (?P<columns>.+)",
    re.IGNORECASE,
)
_BETWEEN_COLUMNS: Final = re.compile(r", (?![^()]{0,200}\))")
_VALUES: Final = re.compile(r" \((?:[^()]|\([^()]*\))*\)$")
_MORE_FILES: Final = re.compile(r".*/: \d+ files")
_SOURCE: Final = re.compile(
    r"\b(?:FROM|JOIN)\s+(?:\"([^\"]+)\"|'([^']+)'|([^\s(),;'\"]+))", re.IGNORECASE
)
_NEW: Final = re.compile(r"\bWITH\s+(?:RECURSIVE\s+)?(\w+)|,\s*(\w+)\s+AS\s*\(", re.IGNORECASE)
_TEXTS: Final = re.compile(r"'(?:[^']|'')*'")
_DIGITS: Final = re.compile(r"\d+")
_ENDING: Final = re.compile(r"\.[A-Za-z]\w*$")
_ALIKE: Final = 0.5


class _Table(NamedTuple):
    path: str
    columns: frozenset[str]  # in small letters

    @property
    def stem(self) -> str:
        """The name without folders and ending."""
        name = self.path.rpartition("/")[2]
        return name.rpartition(".")[0] or name

    @property
    def names(self) -> set[str]:
        """What the table may be called, in small letters."""
        path = self.path.casefold()
        names = (path, path.rpartition("/")[2])
        return {*names, *(each.rpartition(".")[0] or each for each in names)}


class KnownNames:
    """The names in the lines about a folder."""

    def __init__(self, folder: str) -> None:
        lines = folder.splitlines()
        self._tables: list[_Table] = []
        for found in filter(None, map(_TABLE.fullmatch, lines)):
            columns = _BETWEEN_COLUMNS.split(found["columns"])
            names = frozenset(_VALUES.sub("", each).casefold() for each in columns)
            self._tables.append(_Table(found["path"], names))
        self._files = {line.partition(": ")[0].casefold() for line in lines}
        self._all_files = not any(map(_MORE_FILES.fullmatch, lines))

    def mended(self, call: Mapping[str, Any], tool: Offered) -> dict[str, Any]:
        """Returns a call with the names that its folder has."""
        args: dict[str, Any] = dict(call["args"])
        for name, value in call["args"].items():
            if not isinstance(value, str):
                continue
            if tool.fields.get(name, {}).get("format") == "sql":
                args[name] = self.query(value)
            elif name == "table" and not value.startswith("$") and not self._is_known(value):
                columns = {str(args.get(each)).casefold() for each in ("column", "by", "value")}
                table = self._meant(value, columns)
                args[name] = table.path if table is not None else value
            elif name == "path" and self._is_missing(value) and tool.may_look_without(name):
                del args[name]
        return {**call, "args": args}

    def query(self, query: str) -> str:
        """Returns a query whose tables are known ones, if it is clear which are meant."""
        new = {name.casefold() for found in _NEW.findall(query) for name in found if name}
        for found in _SOURCE.finditer(query):
            name = found[found.lastindex or 0]
            if name.casefold() in new or self._is_known(name):
                continue
            bare = _TEXTS.sub("", query).casefold()
            table = self._meant(name, {*re.findall(r"\w+", bare), *re.findall(r'"([^"]+)"', bare)})
            if table is not None:
                own, stem = re.escape(name), table.stem
                right = stem if re.fullmatch(r"[^\W\d]\w*", stem) else f'"{table.path}"'
                wrong = rf"\"{own}\"|'{own}'|(?<![\w.]){own}(?!\w)"
                query = re.sub(wrong, right.replace("\\", r"\\"), query)
        return query

    def _is_known(self, name: str) -> bool:
        return any(name.casefold() in each.names for each in self._tables)

    def _meant(self, name: str, words: Collection[str]) -> _Table | None:
        """Returns the table that a wrong name means: by columns among the words, then by likeness.

        Never one with another number: data_2023 is not data_2024.
        """
        fitting = {
            each: (len(each.columns.intersection(words)), _likeness(name, each.path))
            for each in self._tables
            if _has_numbers(each.path, name)
        }
        if not fitting:
            return None
        best, *others = sorted(fitting, key=lambda each: fitting[each], reverse=True)
        # Tables that differ in their number alone, of which the name says nothing.
        bare = _DIGITS.sub("", best.path)
        if not _DIGITS.search(name) and any(_DIGITS.sub("", each.path) == bare for each in others):
            return None
        columns, likeness = fitting[best]
        most = max((fitting[each][0] for each in others), default=0)
        return best if likeness >= _ALIKE or columns > most else None

    def _is_missing(self, path: str) -> bool:
        """Whether a path is certainly none of the files here."""
        if not self._all_files or re.search(r"[*?{,]", path):
            return False
        wanted = path.casefold().strip("./")
        return not any(
            wanted == each or each.startswith(f"{wanted}/") or each.endswith(f"/{wanted}")
            for each in self._files
        )


def _has_numbers(path: str, name: str) -> bool:
    """Whether the numbers in a name are those of a path; its folders may have more."""
    wanted = _numbers(_ENDING.sub("", name))
    if not wanted:
        return True
    stem = _numbers(PurePosixPath(path).stem)
    return stem <= wanted <= stem + _numbers(str(PurePosixPath(path).parent))


def _numbers(text: str) -> Counter[int]:
    return Counter(map(int, _DIGITS.findall(text)))


def _likeness(name: str, path: str) -> float:
    """Returns how alike two names are; that both end in `.csv` says nothing."""
    one, other = (PurePosixPath(each.casefold()).stem for each in (name, path))
    return SequenceMatcher(None, one, other).ratio()
