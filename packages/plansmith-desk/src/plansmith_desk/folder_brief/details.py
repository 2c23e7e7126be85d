"""Says in a few words what a file holds: the columns of a table, the first line of a text."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from plansmith.errors import PlansmithError
from plansmith.ports import Call
from plansmith.text import clip, visible
from plansmith.tools.toolset import Job
from plansmith_desk.documents.text import paper_head
from plansmith_desk.folder import Folder
from plansmith_desk.sql.rows import RowLimits
from plansmith_desk.tables.database import ENDINGS as DATABASES
from plansmith_desk.tables.database import DatabaseCopy
from plansmith_desk.tables.read import Data, TableLimits, read_table

_WHOLE: Final = 600_000  # bytes of a table that is read whole
_HEAD: Final = 100_000  # bytes read of a larger one
_TITLE: Final = 4_096
_LARGEST_DATABASE: Final = 50_000_000
_LARGEST_PAPER: Final = 5_000_000
_MOST_ROWS: Final = 2_000
_SURE_FROM: Final = 1_000  # rows of which all values are as good as known
_MOST_COLUMNS: Final = 16
_MOST_VALUES: Final = 6
_LONGEST: Final = 40
_LONGEST_TITLE: Final = 60
_LOOKED_AT: Final = 20  # values among which the shortest example is sought
_HAN: Final = re.compile(r"[\u3400-\u9fff]")
_DIGITS: Final = re.compile(r"[\d.,:/+ T年月日-]+")
# What one request may read: a folder full of large files is told by names.
_MOST_BYTES: Final = 6_000_000
_MOST_READ: Final = 120
_MOST_PAPERS: Final = 6
_SECONDS: Final = 1.0
_SECONDS_ALL: Final = 3.0
# What is in such a file is nobody's business before a person asks for it.
_PRIVATE: Final = re.compile(
    r"(?<![a-z])(?:passw(?:or)?ds?|passwd|passphrases?|pwd|secrets?|credentials?|creds"
    r"|(?:api|access|auth)[ _-]?(?:keys?|tokens?)|private[ _-]?keys?|recovery[ _-]?codes?"
    r"|id_(?:rsa|dsa|ecdsa|ed25519))(?![a-z])|密码|口令|密钥|私钥|\.(?:pem|key|env)(?![a-z])",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, order=True)
class Entry:
    """A file, or a table of a database: its path, and what is told about it."""

    path: str
    detail: str = ""

    @property
    def line(self) -> str:
        """Returns all that is told about it."""
        return f"{self.path}: {self.detail}" if self.detail else self.path


class Reading:
    """Reads the heads of files for one request, as long as there is something left to spend."""

    def __init__(self, folder: Folder, *, seconds: float = _SECONDS_ALL) -> None:
        self.folder = folder
        self._end = time.monotonic() + seconds
        self._bytes, self._files, self._papers = _MOST_BYTES, _MOST_READ, _MOST_PAPERS

    @property
    def seconds(self) -> float:
        """Returns the time that is left."""
        return max(self._end - time.monotonic(), 0.0)

    def spend(self, size: int, *, paper: bool) -> bool:
        """Counts a file that is to be read; False if it would be too much."""
        if size > self._bytes or not self._files or not self.seconds:
            return False
        if paper and not self._papers:
            return False
        self._bytes -= size
        self._files -= 1
        self._papers -= paper
        return True


def entries_of(path: str, size: int, reading: Reading) -> tuple[Entry, ...] | None:
    """Returns what is told of a file: its name if it cannot be read, None if nothing is left."""
    for endings, cost, tell in () if _PRIVATE.search(path) else _KINDS:
        if path.lower().endswith(endings):
            if not reading.spend(min(size, cost), paper=endings == _PAPERS):
                return None
            try:
                return tuple(tell(path, size, reading)) or (Entry(path),)
            except TimeoutError:
                return None
            except (PlansmithError, OSError, ValueError):
                break
    return (Entry(path),)


def _json(path: str, size: int, reading: Reading) -> Iterator[Entry]:
    if size <= _WHOLE:
        yield Entry(path, _columns(_read(reading.folder.read(path, most=_WHOLE), path), whole=True))


def _text(path: str, _: int, reading: Reading) -> Iterator[Entry]:
    with reading.folder.opened(path) as file:
        yield Entry(path, _title(file.read(_TITLE).decode("utf-8", "replace")))


def _paper(path: str, size: int, reading: Reading) -> Iterator[Entry]:
    if size > _LARGEST_PAPER:
        return
    data = reading.folder.read(path, most=_LARGEST_PAPER)
    pages, text = paper_head(path, data, seconds=min(_SECONDS, reading.seconds))
    counted = f"{pages} pages" if pages else ""
    yield Entry(path, ": ".join(filter(None, (counted, _title(text)))))


def _title(text: str) -> str:
    """Returns the first line that says anything."""
    lines = (line.strip(" \t#*=-_<>!") for line in visible(text).splitlines())
    first = next((line for line in lines if any(map(str.isalnum, line))), "")
    return clip(" ".join(first.split()), _LONGEST_TITLE // (2 if _HAN.search(first) else 1))


def _table(path: str, size: int, reading: Reading) -> Iterator[Entry]:
    with reading.folder.opened(path) as file:
        if size <= _WHOLE:
            yield Entry(path, _columns(_read(file.read(_WHOLE), path), whole=True))
            return
        head = file.read(_HEAD)
    data = _read(head[: head.rfind(b"\n") + 1], path)
    yield Entry(path, _columns(data, whole=len(data.rows) >= _SURE_FROM))


def _read(data: bytes, path: str) -> Data:
    return read_table(data, path, limits=TableLimits(), encoding=None, header=True)


def _database(path: str, size: int, reading: Reading) -> Iterator[Entry]:
    if size > _LARGEST_DATABASE:
        return
    limits = RowLimits(seconds=min(_SECONDS, reading.seconds))
    with DatabaseCopy(reading.folder, path, limits=limits, job=Job(Call(key=""))) as copy:
        for table in copy.tables():
            yield Entry(f"{path}/{table}", _head(copy, table) if reading.seconds else "")


def _head(copy: DatabaseCopy, table: str) -> str:
    try:
        data, count = copy.head(table, rows=_MOST_ROWS)
    except PlansmithError:
        return ""  # such as a view that never ends: the other tables are told
    whole = len(data.rows) == count or len(data.rows) >= _SURE_FROM
    return _columns(data, whole=whole)


def _columns(data: Data, *, whole: bool) -> str:
    """Returns each column with all its values or some; no counts: they change all the time."""
    told = [
        _column(name, kind, [row[place] for row in data.rows], whole=whole)
        for place, (name, kind) in enumerate(data.columns[:_MOST_COLUMNS])
    ]
    more = len(data.columns) - len(told)
    told += [f"and {more} more columns"] if more > 0 else []
    return ", ".join(told)


def _column(name: str, kind: str, values: Sequence[Any], *, whole: bool) -> str:
    seen = dict.fromkeys(each for each in values if each is not None and each != "")
    shown = [_short(each) for each in list(seen)[: _MOST_VALUES + 1]]
    if whole and kind in ("text", "boolean") and 0 < len(shown) <= _MOST_VALUES:
        listed = "/".join(shown)
        if len(listed) <= 2 * _LONGEST and len(values) > len(shown):
            return f"{_plain(name)} ({listed})"
    return f"{_plain(name)} ({examples(list(seen))})" if shown else _plain(name)


def examples(values: Sequence[Any]) -> str:
    """Returns two of a column's values; of numbers and dates the shortest: digits are dear."""
    shown = [_short(each) for each in values[:_LOOKED_AT]]
    if shown and _DIGITS.fullmatch(shown[0]):
        return min(shown, key=len)
    return ", ".join(shown[:2])


def _short(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:.12g}"
    return clip(_plain(str(value)), _LONGEST)


def _plain(text: str) -> str:
    return " ".join(visible(text[:200]).split())


_Tell = Callable[[str, int, Reading], Iterator[Entry]]
_PAPERS: Final = (".pdf", ".docx")
# Endings, the most bytes that are read of such a file, and what tells of it.
_KINDS: Final[tuple[tuple[tuple[str, ...], int, _Tell], ...]] = (
    ((".csv", ".tsv"), _WHOLE, _table),
    ((".json", ".jsonl"), _WHOLE, _json),
    (DATABASES, 0, _database),
    ((".txt", ".md", ".markdown", ".rst", ".text", ".html", ".htm", ".eml"), _TITLE, _text),
    (_PAPERS, _LARGEST_PAPER, _paper),
)
