"""Puts right the names of tables and files that a small model copied badly."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
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
_MORE: Final = re.compile(r"and \d+ more columns$")
_FILE: Final = re.compile(r"([^:]+?)(?:: .*)?")
_MORE_FILES: Final = re.compile(r".*/: \d+ files")
_SOURCE: Final = re.compile(
    r"\b(?:FROM|JOIN)\s+(?:\"([^\"]+)\"|'([^']+)'|([^\s(),;'\"]+))", re.IGNORECASE
)
_NEW: Final = re.compile(r"\bWITH\s+(?:RECURSIVE\s+)?(\w+)|,\s*(\w+)\s+AS\s*\(", re.IGNORECASE)
_TEXTS: Final = re.compile(r"'(?:[^']|'')*'")
_WORD: Final = re.compile(r"\w+")
_DIGITS: Final = re.compile(r"\d+")
_ENDING: Final = re.compile(r"\.[A-Za-z]\w*$")
_ALIKE: Final = 0.5


class _Table(NamedTuple):
    path: str
    columns: frozenset[str]  # in small letters

    @property
    def names(self) -> set[str]:
        """Returns what the table may be called, in small letters."""
        path = self.path.casefold()
        inner = path.rpartition("/")[2]
        return {name for each in (path, inner) for name in (each, each.rpartition(".")[0] or each)}

    @property
    def sql_name(self) -> str:
        """Returns the name to use in a query."""
        stem = self.path.rpartition("/")[2]
        stem = stem.rpartition(".")[0] or stem
        return stem if re.fullmatch(r"[^\W\d]\w*", stem) else f'"{self.path}"'


class KnownNames:
    """The names in the lines about a folder."""

    def __init__(self, folder: str) -> None:
        lines = folder.splitlines()
        found = [match for line in lines if (match := _TABLE.fullmatch(line))]
        self._tables = [_Table(match["path"], _columns(match["columns"])) for match in found]
        self._files = {match[1].casefold() for line in lines if (match := _FILE.fullmatch(line))}
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
                said = [args.get(each) for each in ("column", "by", "value")]
                table = self._meant(value, [each for each in said if isinstance(each, str)])
                args[name] = table.path if table is not None else value
            elif self._is_wrong_place(name, value, tool):
                del args[name]
        return {**call, "args": args}

    def _is_wrong_place(self, name: str, value: str, tool: Offered) -> bool:
        """Whether a tool that reads would look in a file that is not there, and need not."""
        optional = name == "path" and name not in tool.required
        return optional and tool.only_reads and self._is_missing(value)

    def query(self, query: str) -> str:
        """Returns a query whose tables are known ones, if it is clear which are meant."""
        new = {name.casefold() for found in _NEW.findall(query) for name in found if name}
        for found in _SOURCE.finditer(query):
            name = found[found.lastindex or 0]
            if name.casefold() in new or self._is_known(name):
                continue
            table = self._meant(name, self._columns_in(query))
            if table is not None:
                own = re.escape(name)
                wrong = rf"\"{own}\"|'{own}'|(?<![\w.]){own}(?!\w)"
                query = re.sub(wrong, table.sql_name.replace("\\", r"\\"), query)
        return query

    def _columns_in(self, query: str) -> list[str]:
        bare = _TEXTS.sub("", query).casefold()
        words = {*_WORD.findall(bare), *re.findall(r'"([^"]+)"', bare)}
        return list(words.intersection(each for table in self._tables for each in table.columns))

    def _is_known(self, name: str) -> bool:
        return any(name.casefold() in each.names for each in self._tables)

    def _meant(self, name: str, columns: Sequence[str]) -> _Table | None:
        """Returns the table that a wrong name means: by its columns, then by likeness.

        Never one with another number: data_2023 is not data_2024.
        """
        wanted = {each.casefold() for each in columns}
        ranked = sorted(
            (
                (len(wanted.intersection(each.columns)), _likeness(name, each.path), each)
                for each in self._tables
                if _has_numbers(each.path, name)
            ),
            key=lambda each: each[:2],
            reverse=True,
        )
        if not ranked:
            return None
        (count, likeness, best), *others = ranked
        # Tables that differ in their number alone, of which the name says nothing.
        bare = _DIGITS.sub("", best.path)
        alike = any(_DIGITS.sub("", each.path) == bare for _, _, each in others)
        if alike and not _DIGITS.search(name):
            return None
        most = max((each[0] for each in others), default=0)
        return best if likeness >= _ALIKE or count > most else None

    def _is_missing(self, path: str) -> bool:
        """Whether a path is certainly none of the files here."""
        if not self._all_files or re.search(r"[*?{,]", path):
            return False
        wanted = path.casefold().strip("./")
        return not any(
            wanted == each or each.startswith(f"{wanted}/") or each.endswith(f"/{wanted}")
            for each in self._files
        )


def is_beside(value: Any, request: str) -> bool:
    """Whether a path is that of a file which the request names, but for its ending."""
    if not isinstance(value, str) or "/" in value or "\\" in value:
        return False
    stem, _, ending = value.casefold().rpartition(".")
    named = rf"(?<![a-z0-9_./-]){re.escape(stem)}\.\w"
    return bool(stem and ending.isalnum() and re.search(named, request.casefold()))


def _columns(told: str) -> frozenset[str]:
    """Returns the names of the columns in the line of a table, in small letters."""
    parts = [each for each in _BETWEEN_COLUMNS.split(told) if not _MORE.fullmatch(each)]
    return frozenset(_VALUES.sub("", each).casefold() for each in parts)


def _has_numbers(path: str, name: str) -> bool:
    """Whether the numbers in a name are those of a path; its folders may have more."""
    wanted = _numbers(_ENDING.sub("", name))
    if not wanted:
        return True
    stem = _numbers(PurePosixPath(path).stem)
    whole = stem + _numbers(str(PurePosixPath(path).parent))
    return stem <= wanted <= whole


def _numbers(text: str) -> Counter[int]:
    return Counter(map(int, _DIGITS.findall(text)))


def _likeness(name: str, path: str) -> float:
    """Returns how alike two names are; that both end in `.csv` says nothing."""
    one, other = (PurePosixPath(each.casefold()).stem for each in (name, path))
    return SequenceMatcher(None, one, other).ratio()
