"""Tells a planner what is in the working folder: one line a file, as data, in few tokens."""

from __future__ import annotations

import asyncio
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import accumulate, islice
from pathlib import Path
from typing import Final, NamedTuple

from plansmith.ports import ContextBlock
from plansmith.protected_files import is_held
from plansmith_desk.folder import Folder
from plansmith_desk.folder_brief.details import Entry, Reading, entries_of
from plansmith_planner.context.gather import FOLDER, FOLDER_NEAR

_MOST_FILES: Final = 2_000
_MOST_SEEN: Final = 20_000
# Plansmith's own files, and what SQLite keeps beside a database.
_OWN: Final = re.compile(
    r"(?:^|/)plansmith\.(?:toml|db)$|\.(?:db|sqlite3?|db3)-(?:wal|shm|journal)$"
)
_BUDGET: Final = 400  # tokens, about
_NAMES: Final = 240  # of them for names
_NEAR_BUDGET: Final = 120
_MOST_NEAR: Final = 4
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
        told = (FOLDER, lines.folder), (FOLDER_NEAR, lines.near)
        return [ContextBlock(title, "\n".join(some), "files") for title, some in told if some]

    def _lines(self, query: str, token_limit: int) -> BriefLines:
        walked = islice(self._folder.walk("."), _MOST_SEEN)
        own = (each for each in walked if not _OWN.search(each[0]) and not is_held(each[1]))
        files = [*islice(own, _MOST_FILES)]
        known, reading = self._known, Reading(self._folder)
        self._known = {}
        entries: list[Entry] = []
        for path, state in files:
            stamp = (state.st_ino, state.st_mtime_ns, state.st_size)
            told = known.get(path)
            if told is None or told[0] != stamp:
                found = entries_of(path, state.st_size, reading)
                if found is None:
                    entries.append(Entry(path))
                    continue
                told = stamp, found
            self._known[path] = told
            entries += told[1]
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
    told = set(lines)
    left = [each for each in entries if each.line not in told]
    near = _near(left, entries, request)
    most = tokens - sum(map(cost, lines))
    # What is meant most likely is told even if it is long.
    room = max(_NEAR_BUDGET, cost(near[0].line)) if near else 0
    return BriefLines(lines, tuple(each.line for each in _all_fitting(near, min(room, most))))


def _folder_lines(entries: Sequence[Entry], room: float) -> tuple[str, ...]:
    places: dict[str, list[Entry]] = defaultdict(list)
    for each in sorted(entries):
        places[each.path.rpartition("/")[0]].append(each)
    # One of many alike says less than a file that stands alone: their first and last are enough.
    crowds = [some for some in places.values() if len(some) > _CROWD]
    ends = [each for some in crowds for each in (*some[: _CROWD // 2], *some[-_CROWD // 2 :])]
    alone = [each for some in places.values() if len(some) <= _CROWD for each in some]
    alone.sort(key=lambda each: (not each.detail, each.path))
    order = (*alone, *ends)
    used = accumulate(cost(each.path) for each in order)
    shown = order[: sum(each <= min(_NAMES, room * 0.6) for each in used)]
    rest = set(entries).difference(shown)
    left = room - sum(cost(each.path) for each in shown)
    lines = {each.path: each.path for each in shown}
    for each in sorted(shown, key=lambda each: not _TABLE.search(each.path)):
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
    return [each for each in order if weight[each.path]][:_MOST_NEAR]


def _all_fitting(entries: Sequence[Entry], room: float) -> Iterator[Entry]:
    """Yields the entries whose lines have room; one that is too long hides no shorter one."""
    for each in entries:
        if cost(each.line) <= room:
            room -= cost(each.line)
            yield each


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
