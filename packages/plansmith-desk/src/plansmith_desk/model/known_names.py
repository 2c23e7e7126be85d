"""Puts right the names of tables, columns and files that a small model copied badly."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import PurePosixPath
from typing import Any, Final

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
_KEYWORD: Final = re.compile(
    r"\b(SELECT|FROM|JOIN|WHERE|AND|OR|BY|ON|HAVING|DISTINCT)(?=[\u3400-\u9fff])", re.IGNORECASE
)
_SOURCE: Final = re.compile(
    r"\b(?:FROM|JOIN)\s+(?:\"([^\"]+)\"|'([^']+)'|([^\s(),;'\"]+))", re.IGNORECASE
)
_NEW: Final = re.compile(r"\bWITH\s+(?:RECURSIVE\s+)?(\w+)|,\s*(\w+)\s+AS\s*\(", re.IGNORECASE)
_INTO_FILE: Final = re.compile(r"(?<!\s)\s++INTO\s+(?:OUT)?FILE\b.*$", re.IGNORECASE | re.DOTALL)
_KEYWORD_COLUMN: Final = re.compile(
    r"(?<=\w\.)(group|order|when|case|from|to|index|table|values|where|select|left|check|default)\b",
    re.IGNORECASE,
)
_TEXTS: Final = re.compile(r"'(?:[^']|'')*'")
_WORD: Final = re.compile(r"\w+")
_DIGITS: Final = re.compile(r"\d+")
_ENDING: Final = re.compile(r"\.[A-Za-z]\w*$")
_ALIKE: Final = 0.5


@dataclass(frozen=True, slots=True)
class _Table:
    path: str
    columns: tuple[str, ...]
    is_whole: bool = True
    """Whether these are all of its columns."""

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

    def has(self, columns: Sequence[str]) -> int:
        """Returns how many of these columns it has."""
        own = {each.casefold() for each in self.columns}
        return sum(each.casefold() in own for each in columns)


class KnownNames:
    """The names in the lines about a folder."""

    def __init__(self, folder: str) -> None:
        lines = folder.splitlines()
        found = [match for line in lines if (match := _TABLE.fullmatch(line))]
        self._tables = [
            _Table(match["path"], tuple(_columns(match["columns"])), not _MORE.search(match[0]))
            for match in found
        ]
        self._files = {match[1] for line in lines if (match := _FILE.fullmatch(line))}
        self._all_files = not any(map(_MORE_FILES.fullmatch, lines))

    def mended(self, call: Mapping[str, Any], tool: Offered) -> dict[str, Any]:
        """Returns a call with the names that its folder has."""
        args: dict[str, Any] = dict(call["args"])
        for name, value in call["args"].items():
            if not isinstance(value, str):
                continue
            schema: Mapping[str, Any] = tool.fields.get(name) or {}
            if schema.get("format") == "sql":
                args[name] = self.query(value)
            elif name == "table":
                said = [args[each] for each in ("column", "by", "value") if each in args]
                args[name] = self._table(value, [each for each in said if isinstance(each, str)])
            elif self._is_wrong_place(name, value, tool):
                del args[name]
        return {**call, "args": args}

    def _is_wrong_place(self, name: str, value: str, tool: Offered) -> bool:
        """Whether a tool that reads would look in a file that is not there, and need not."""
        optional = name == "path" and name not in tool.required
        return optional and tool.only_reads and self._is_missing(value)

    def query(self, query: str) -> str:
        """Returns a query whose tables are known ones, if it is clear which are meant."""
        # A query gives rows; a file is written by another call.
        query = self._quoted(_KEYWORD.sub(r"\1 ", _INTO_FILE.sub("", query)))
        query = _KEYWORD_COLUMN.sub(r'"\1"', query)
        new = {name.casefold() for found in _NEW.findall(query) for name in found if name}
        for found in _SOURCE.finditer(query):
            name = found[found.lastindex or 0]
            if name.casefold() in new or self._known(name) is not None:
                continue
            table = self._meant(name, self._columns_in(query))
            if table is not None:
                wrong = (
                    rf"\"{re.escape(name)}\"|'{re.escape(name)}'|(?<![\w.]){re.escape(name)}(?!\w)"
                )
                query = re.sub(wrong, _literal(table.sql_name), query)
        return mended_columns(query, self._columns_of)

    def _columns_of(self, name: str) -> Columns | None:
        """Returns all columns of a table, in small letters; None if they are not all known."""
        table = self._known(name)
        if table is None or not table.is_whole:
            return None
        return frozenset(each.casefold() for each in table.columns)

    def _quoted(self, query: str) -> str:
        """Quotes columns whose names are no plain words."""
        for column in {each for table in self._tables for each in table.columns}:
            if not re.fullmatch(r"[^\W\d]\w*", column):
                bare = rf"(?<![\w\"'.]){re.escape(column)}(?![\w\"'])"
                query = re.sub(bare, _literal(f'"{column}"'), query)
        return query

    def _columns_in(self, query: str) -> list[str]:
        bare = _TEXTS.sub("", query).casefold()
        words = {*_WORD.findall(bare), *re.findall(r'"([^"]+)"', bare)}
        return [
            column
            for column in {each.casefold() for table in self._tables for each in table.columns}
            if column in words
        ]

    def _table(self, name: str, columns: Sequence[str]) -> str:
        if self._known(name) is not None or name.startswith("$"):
            return name
        table = self._meant(name, columns)
        return table.path if table is not None else name

    def _known(self, name: str) -> _Table | None:
        low = name.casefold()
        return next((each for each in self._tables if low in each.names), None)

    def _meant(self, name: str, columns: Sequence[str]) -> _Table | None:
        """Returns the table that a wrong name means: by its columns, then by likeness.

        Never one with another number: data_2023 is not data_2024.
        """
        ranked = sorted(
            (each for each in self._tables if _has_numbers(each.path, name)),
            key=lambda each: (each.has(columns), _likeness(name, each)),
            reverse=True,
        )
        if not ranked or self._is_one_of_a_row(ranked[0], name, ranked[1:]):
            return None
        best = ranked[0]
        sure = best.has(columns) > max((each.has(columns) for each in ranked[1:]), default=0)
        return best if sure or _likeness(name, best) >= _ALIKE else None

    def _is_one_of_a_row(self, table: _Table, name: str, others: Sequence[_Table]) -> bool:
        """Whether tables differ from it in their number alone, of which the name says nothing."""
        bare = _DIGITS.sub("", table.path)
        return not _DIGITS.search(name) and any(
            _DIGITS.sub("", each.path) == bare for each in others
        )

    def _is_missing(self, path: str) -> bool:
        """Whether a path is certainly none of the files here."""
        if not self._all_files or re.search(r"[*?{,]", path):
            return False
        wanted = path.casefold().strip("./")
        return not any(
            wanted == each.casefold() or each.casefold().startswith(f"{wanted}/")
            or each.casefold().endswith(f"/{wanted}")
            for each in self._files
        )  # fmt: skip


def is_beside(value: Any, request: str) -> bool:
    """Whether a path is that of a file which the request names, but for its ending."""
    if not isinstance(value, str) or "/" in value or "\\" in value:
        return False
    stem, _, ending = value.casefold().rpartition(".")
    named = rf"(?<![a-z0-9_./-]){re.escape(stem)}\.\w"
    return bool(stem and ending.isalnum() and re.search(named, request.casefold()))


def _columns(told: str) -> Iterator[str]:
    """Yields the names of the columns in the line of a table."""
    for each in _BETWEEN_COLUMNS.split(told):
        if not _MORE.fullmatch(each):
            yield _VALUES.sub("", each)


def _literal(text: str) -> str:
    """Returns a replacement in which a backslash is a backslash."""
    return text.replace("\\", r"\\")


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


def _likeness(name: str, table: _Table) -> float:
    """Returns how alike two names are; that both end in `.csv` says nothing."""
    one, other = (PurePosixPath(each.casefold()).stem for each in (name, table.path))
    return SequenceMatcher(None, one, other).ratio()


Columns = frozenset[str]
_QUOTED_TEXTS: Final = re.compile(r"('(?:[^']|'')*')")
_JOINED: Final = re.compile(
    r"\b(?:FROM|JOIN)\s+(?:\"([^\"]+)\"|([^\s(),;'\"]+))(?:\s+AS\b)?"
    r"(?:\s+(?!(?:ON|WHERE|JOIN|LEFT|RIGHT|INNER|OUTER|CROSS|GROUP|ORDER|LIMIT|USING|HAVING"
    r"|UNION)\b)(\w+))?",
    re.IGNORECASE,
)
_COLUMN_OF: Final = r"(?<![\w.])(\w+)\.(\"[^\"]+\"|\w+)"
_ONE: Final = re.compile(_COLUMN_OF)
_EQUAL: Final = re.compile(rf"{_COLUMN_OF}\s*=\s*{_COLUMN_OF}")
_NEAR_KEY: Final = 0.5  # a key is taken for another one only if their names are near


def mended_columns(query: str, columns_of: Callable[[str], Columns | None]) -> str:
    """Returns a query whose joined columns are there, if it is clear which are meant.

    `columns_of` gives all columns of a table in small letters; None if they are not all known.
    """
    tables: dict[str, Columns] = {}
    for quoted, bare, alias in _JOINED.findall(query):
        known = columns_of(quoted or bare)
        if known is None:
            return query
        tables[(alias or quoted or bare).casefold()] = known
    parts = _QUOTED_TEXTS.split(query)
    for place in range(0, len(parts), 2):
        keyed = _EQUAL.sub(lambda found: _keys(found, tables), parts[place])
        parts[place] = _ONE.sub(lambda found: _owned(found, tables), keyed)
    return "".join(parts)


def _keys(found: re.Match[str], tables: Mapping[str, Columns]) -> str:
    """Returns a comparison of two columns with a key that both tables have."""
    first, one, second, other = found.groups()
    mine, theirs = (tables.get(each.casefold()) for each in (first, second))
    if mine is None or theirs is None:
        return found[0]
    wrong = [name for name, there in ((one, mine), (other, theirs)) if not _has(there, name)]
    # A column that is there stays: only the other side can have been taken from another table.
    right = {_plain(each) for each in (one, other) if each not in wrong}
    shared = (right or mine) & mine & theirs
    keys = [name for name in shared if all(_near(name, each) >= _NEAR_KEY for each in wrong)]
    if not wrong or len(keys) != 1:
        return found[0]
    return f"{first}.{_written(keys[0])} = {second}.{_written(keys[0])}"


def _owned(found: re.Match[str], tables: Mapping[str, Columns]) -> str:
    """Returns a column with the one table of the query that has it."""
    alias, column = found.groups()
    mine = tables.get(alias.casefold())
    if mine is None or _has(mine, column):
        return found[0]
    owners = [name for name, columns in tables.items() if _has(columns, column)]
    clear = len(owners) == 1 and re.fullmatch(r"\w+", owners[0])
    return f"{owners[0]}.{column}" if clear else found[0]


def _plain(column: str) -> str:
    return column.strip('"').casefold()


def _has(columns: Columns, column: str) -> bool:
    return _plain(column) in columns


def _written(column: str) -> str:
    return column if re.fullmatch(r"[^\W\d]\w*", column) else f'"{column}"'


def _near(name: str, column: str) -> float:
    return SequenceMatcher(None, name, _plain(column)).ratio()
