"""Tells a planner what is in the working folder: one line a file, as data, in few tokens."""

from __future__ import annotations

import asyncio
import math
import re
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate, islice
from pathlib import Path
from typing import Any, Final, NamedTuple

from plansmith.errors import PlansmithError
from plansmith.ports import Call, ContextBlock
from plansmith.protected_files import is_held
from plansmith.text import clip, visible
from plansmith_desk.documents.text import paper_head
from plansmith_desk.folder import Folder
from plansmith_desk.sql.rows import RowLimits
from plansmith_desk.tables.read import ENDINGS as DATABASES
from plansmith_desk.tables.read import Data, DatabaseCopy, TableLimits, read_table
from plansmith_desk.toolset import Job
from plansmith_planner.context.gather import FOLDER, FOLDER_NEAR
from plansmith_planner.language.characters import HAN

_MAX_FILES: Final = 2_000
_MAX_SEEN: Final = 20_000
# Plansmith's own files, and what SQLite keeps beside a database.
_OWN: Final = re.compile(
    r"(?:^|/)plansmith\.(?:toml|db)$|\.(?:db|sqlite3?|db3)-(?:wal|shm|journal)$"
)
_BUDGET: Final = 400  # tokens, about
_NAMES: Final = 240  # of them for names
_NEAR_BUDGET: Final = 120
_MAX_NEAR: Final = 4
_CROWD: Final = 12  # files of one place that are told
_RARE: Final = 3  # entries that share a word which still tells them from others
_WORD: Final = re.compile(r"[a-z]{3,}|\d{2,}")
_HAN_RUN: Final = re.compile(r"[\u3400-\u9fff]+")
_TABLE: Final = re.compile(r"\.(?:csv|tsv|jsonl?)$|\.(?:db|sqlite3?|db3)/", re.IGNORECASE)


class FolderBrief:
    """A context source: the files of a folder, and those that the request may mean.

    Looks at the head of files only, and reads none again that has not changed.
    """

    def __init__(self, root: Path) -> None:
        self._folder = Folder(root)
        self._known: dict[str, tuple[tuple[int, ...], tuple[Entry, ...]]] = {}

    async def gather(self, query: str, *, token_limit: int) -> Sequence[ContextBlock]:
        """Returns the lines about the folder; nothing for an empty one."""
        lines = await asyncio.to_thread(self._lines, query, token_limit)
        blocks = (FOLDER, lines.folder), (FOLDER_NEAR, lines.near)
        return [ContextBlock(title, "\n".join(some), "files") for title, some in blocks if some]

    def _lines(self, query: str, token_limit: int) -> BriefLines:
        walked = islice(self._folder.walk("."), _MAX_SEEN)
        own = (each for each in walked if not _OWN.search(each[0]) and not is_held(each[1]))
        files = [*islice(own, _MAX_FILES)]
        known, reading = self._known, Reading(self._folder)
        self._known = {}
        entries: list[Entry] = []
        for path, state in files:
            stamp = (state.st_ino, state.st_mtime_ns, state.st_size)
            stored = known.get(path)
            if stored is None or stored[0] != stamp:
                found = entries_of(path, state.st_size, reading)
                if found is None:
                    entries.append(Entry(path))
                    continue
                stored = stamp, found
            self._known[path] = stored
            entries += stored[1]
        return brief_lines(entries, query, tokens=token_limit)


class BriefLines(NamedTuple):
    """The lines about a folder.

    `folder` depends on the files alone, so that a model need not read it again for each request;
    `near` is what the request may mean of that for which there was no room.
    """

    folder: tuple[str, ...]
    near: tuple[str, ...] = ()


def brief_lines(entries: Sequence[Entry], request: str, *, tokens: int) -> BriefLines:
    """Returns the lines: all files by name as long as they fit, and what the request means."""
    lines = _folder_lines(entries, min(_BUDGET, tokens))
    listed = set(lines)
    left = [each for each in entries if each.line not in listed]
    near = _near(left, entries, request)
    most = tokens - sum(map(cost, lines))
    # What is meant most likely is told even if it is long.
    room = max(_NEAR_BUDGET, cost(near[0].line)) if near else 0
    room, near_lines = min(room, most), list[str]()
    for line in (each.line for each in near):  # one that is too long hides no shorter one
        if cost(line) <= room:
            room -= cost(line)
            near_lines.append(line)
    return BriefLines(lines, tuple(near_lines))


def _folder_lines(entries: Sequence[Entry], room: float) -> tuple[str, ...]:
    places: dict[str, list[Entry]] = defaultdict(list)
    for each in sorted(entries):
        places[each.path.rpartition("/")[0]].append(each)
    # One of many alike says less than a file that stands alone: their first and last are enough.
    crowds = [some for some in places.values() if len(some) > _CROWD]
    edges = [each for some in crowds for each in (*some[: _CROWD // 2], *some[-_CROWD // 2 :])]
    alone = [each for some in places.values() if len(some) <= _CROWD for each in some]
    alone.sort(key=lambda each: (not each.detail, each.path))
    order = (*alone, *edges)
    used = accumulate(cost(each.path) for each in order)
    named = order[: sum(each <= min(_NAMES, room * 0.6) for each in used)]
    rest = set(entries).difference(named)
    left = room - sum(cost(each.path) for each in named)
    lines = {each.path: each.path for each in named}
    for each in sorted(named, key=lambda each: not _TABLE.search(each.path)):
        extra = cost(each.line) - cost(each.path)
        if left >= extra:
            lines[each.path] = each.line
            left -= extra
    tops = Counter(f"{each.path.partition('/')[0]}/" if "/" in each.path else "./" for each in rest)
    counts = (f"{folder}: {count} files" for folder, count in sorted(tops.items())[:8])
    return (*(lines[path] for path in sorted(lines)), *counts)


def _near(left: Sequence[Entry], entries: Sequence[Entry], request: str) -> list[Entry]:
    """Returns what the request names, or shares a word with that few files have."""
    if not left:
        return []
    asked, folded = words(request), request.casefold()
    shared = {each.path: words(each.line) & asked for each in entries}
    common = Counter(word for found in shared.values() for word in found)
    weight = {
        each.path: sum(1 / common[word] for word in shared[each.path] if common[word] <= _RARE)
        + 10 * is_named(each.path, folded)
        for each in left
    }
    order = sorted(left, key=lambda each: (-weight[each.path], each.path))
    return [each for each in order if weight[each.path]][:_MAX_NEAR]


def is_named(path: str, request: str) -> bool:
    """Whether a request, in small letters, names a file by its path, its name or its stem."""
    name = path.casefold().rpartition("/")[2]
    stem = name.partition(".")[0]
    return name in request or (
        len(stem) > 2 and bool(re.search(rf"(?<!\w){re.escape(stem)}(?!\w)", request))
    )


def words(text: str) -> set[str]:
    """Returns what texts are compared by: words, and pairs of Chinese letters."""
    low = text.casefold()
    found = set(_WORD.findall(low))
    for run in _HAN_RUN.findall(low):
        found |= {run[place : place + 2] for place in range(len(run) - 1)}
    return found


def cost(text: str) -> float:
    """Returns about how many tokens a line takes: each digit is one."""
    digits = sum(map(str.isdigit, text))
    wide = sum(letter > "\u2fff" for letter in text)
    return 1 + digits + 0.7 * wide + (len(text) - wide - digits) / 3.6


_WHOLE: Final = 600_000  # bytes of a table that is read whole
_HEAD: Final = 100_000  # bytes read of a larger one
_TITLE: Final = 4_096
_LARGEST_DATABASE: Final = 50_000_000
_LARGEST_PAPER: Final = 5_000_000
_MAX_ROWS: Final = 2_000
_SURE_FROM: Final = 1_000  # rows of which all values are as good as known
_MAX_COLUMNS: Final = 16
_MAX_VALUES: Final = 6
_MAX_LENGTH: Final = 40
_MAX_TITLE: Final = 60
_LOOKED_AT: Final = 20  # values among which the shortest example is sought
_DIGITS: Final = re.compile(r"[\d.,:/+ T年月日-]+")
# What one request may read: a folder full of large files is told by names.
_MAX_BYTES: Final = 6_000_000
_MAX_READ: Final = 120
_MAX_PAPERS: Final = 6
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
        return f"{self.path}: {self.detail}" if self.detail else self.path


class Reading:
    """Reads the heads of files for one request, as long as there is something left to spend."""

    def __init__(self, folder: Folder, *, seconds: float = _SECONDS_ALL) -> None:
        self.folder = folder
        self._end = time.monotonic() + seconds
        self._bytes, self._files, self._papers = _MAX_BYTES, _MAX_READ, _MAX_PAPERS

    @property
    def seconds(self) -> float:
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
    kind = next((each for each in _KINDS if path.lower().endswith(each[0])), None)
    if kind is None or _PRIVATE.search(path):
        return (Entry(path),)
    endings, most, largest = kind
    if not reading.spend(min(size, most), paper=endings == _PAPERS):
        return None
    try:
        if size <= largest:
            read = _table_entries if endings == DATABASES else _file_entries
            return tuple(read(path, size, reading)) or (Entry(path),)
    except TimeoutError:
        return None
    except (PlansmithError, OSError, ValueError):
        pass
    return (Entry(path),)


def _file_entries(path: str, size: int, reading: Reading) -> Iterator[Entry]:
    """Tells the pages and title of a paper, the title of a text, the columns of a table."""
    if path.lower().endswith(_PAPERS):
        data = reading.folder.read(path, most=_LARGEST_PAPER)
        pages, text = paper_head(path, data, seconds=min(_SECONDS, reading.seconds))
        counted = f"{pages} pages" if pages else ""
        yield Entry(path, ": ".join(filter(None, (counted, _title(text)))))
        return
    is_text, is_large = path.lower().endswith(_TEXTS), size > _WHOLE
    with reading.folder.opened(path) as file:
        data = file.read(_TITLE if is_text else _HEAD if is_large else _WHOLE)
    if is_text:
        yield Entry(path, _title(data.decode("utf-8", "replace")))
        return
    data = data[: data.rfind(b"\n") + 1] if is_large else data
    table = read_table(data, path, limits=TableLimits(), encoding=None, header=True)
    yield Entry(path, _columns(table, whole=not is_large or len(table.rows) >= _SURE_FROM))


def _title(text: str) -> str:
    lines = (line.strip(" \t#*=-_<>!") for line in visible(text).splitlines())
    first = next((line for line in lines if any(map(str.isalnum, line))), "")
    return clip(" ".join(first.split()), _MAX_TITLE // (2 if HAN.search(first) else 1))


def _table_entries(path: str, _: int, reading: Reading) -> Iterator[Entry]:
    limits = RowLimits(seconds=min(_SECONDS, reading.seconds))
    with DatabaseCopy(reading.folder, path, limits=limits, job=Job(Call(key=""))) as copy:
        for table in copy.tables():
            detail = ""
            if reading.seconds:
                with suppress(PlansmithError):  # such as a view that never ends: others are told
                    data, count = copy.head(table, rows=_MAX_ROWS)
                    whole = len(data.rows) == count or len(data.rows) >= _SURE_FROM
                    detail = _columns(data, whole=whole)
            yield Entry(f"{path}/{table}", detail)


def _columns(data: Data, *, whole: bool) -> str:
    """Returns each column with all its values or some; no counts: they change all the time."""
    texts = [
        _column(name, kind, [row[place] for row in data.rows], whole=whole)
        for place, (name, kind) in enumerate(data.columns[:_MAX_COLUMNS])
    ]
    more = len(data.columns) - len(texts)
    texts += [f"and {more} more columns"] if more > 0 else []
    return ", ".join(texts)


def _column(name: str, kind: str, values: Sequence[Any], *, whole: bool) -> str:
    distinct = dict.fromkeys(each for each in values if each is not None and each != "")
    texts = [_short(each) for each in list(distinct)[: _MAX_VALUES + 1]]
    if whole and kind in ("text", "boolean") and 0 < len(texts) <= _MAX_VALUES:
        listed = "/".join(texts)
        if len(listed) <= 2 * _MAX_LENGTH and len(values) > len(texts):
            return f"{_plain(name)} ({listed})"
    return f"{_plain(name)} ({examples(list(distinct))})" if texts else _plain(name)


def examples(values: Sequence[Any]) -> str:
    """Returns two of a column's values; of numbers and dates the shortest: digits are dear."""
    texts = [_short(each) for each in values[:_LOOKED_AT]]
    if texts and _DIGITS.fullmatch(texts[0]):
        return min(texts, key=len)
    return ", ".join(texts[:2])


def _short(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:.12g}"
    return clip(_plain(str(value)), _MAX_LENGTH)


def _plain(text: str) -> str:
    return " ".join(visible(text[:200]).split())


_PAPERS: Final = (".pdf", ".docx")
# Endings, the most bytes that are read of such a file, and the size from which it is told by name.
_TEXTS: Final = (".txt", ".md", ".markdown", ".rst", ".text", ".html", ".htm", ".eml")
_KINDS: Final[tuple[tuple[tuple[str, ...], int, float], ...]] = (
    ((".csv", ".tsv"), _WHOLE, math.inf),
    ((".json", ".jsonl"), _WHOLE, _WHOLE),
    (DATABASES, 0, _LARGEST_DATABASE),
    (_TEXTS, _TITLE, math.inf),
    (_PAPERS, _LARGEST_PAPER, _LARGEST_PAPER),
)
