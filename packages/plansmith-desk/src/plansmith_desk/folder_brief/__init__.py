"""Tells a planner what is in the working folder: one line a file, as data."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Final

from plansmith.ports import ContextBlock
from plansmith.protected_files import is_held
from plansmith_desk.folder import Folder
from plansmith_desk.folder_brief.details import Entry, Reading, entries_of
from plansmith_desk.folder_brief.layout import BriefLines, brief_lines
from plansmith_planner.context.gather import FOLDER, FOLDER_NEAR

_MOST_FILES: Final = 2_000
_MOST_SEEN: Final = 20_000
# Plansmith's own files, and what SQLite keeps beside a database.
_OWN: Final = re.compile(
    r"(?:^|/)plansmith\.(?:toml|db)$|\.(?:db|sqlite3?|db3)-(?:wal|shm|journal)$"
)


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
        files = [*islice(self._files(), _MOST_FILES)]
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

    def _files(self) -> Iterator[tuple[str, os.stat_result]]:
        for path, state in islice(self._folder.walk("."), _MOST_SEEN):
            if not _OWN.search(path) and not is_held(state):
                yield path, state
