"""Which files a path, a folder or a pattern means, and their texts within limits."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

from plansmith.errors import ToolFailed
from plansmith.plan.sentence import Sentence
from plansmith.text import clip
from plansmith_desk.documents.text import is_paged, kind, readable_text
from plansmith_desk.folder import Folder, stamp
from plansmith_desk.patterns import fits, is_pattern
from plansmith_planner.context.files import NEVER_READ, is_text_name

_TABLES: Final = frozenset({".csv", ".tsv", ".xlsx", ".xls", ".db", ".sqlite", ".sqlite3"})

_KEPT: Final = 200


@dataclass(frozen=True, slots=True)
class DocumentLimits:
    """Limits of files and bytes that are read or compared, of time, and of what is shown."""

    files: int = 2_000
    bytes_each: int = 2_000_000
    bytes_all: int = 30_000_000
    paged_bytes: int = 30_000_000
    compared_bytes: int = 10_000_000_000
    seconds: float = 40.0
    shown: int = 100
    letters: int = 24_000


class Selection:
    """The files of a folder; no link, no hidden name, nothing outside."""

    def __init__(self, folder: Folder, limits: DocumentLimits) -> None:
        self.folder = folder
        self.limits = limits
        self._texts: dict[tuple[str | int, ...], tuple[str, list[str]]] = {}

    def named(self, path: str) -> list[str]:
        """Returns the files that a path, a folder or a pattern means; fails if there are none."""
        if self.folder.is_folder(path):
            return [name for name, _ in self.walk(path)]
        if self.folder.is_file(path):
            return ["/".join(self.folder.parts(path))]
        every = [name for name, _ in self.walk(".")]
        inside = f"**/{path.strip('/')}/**"  # a folder further down, or in another letter case
        found = [name for name in every if fits(name, path)]
        found = found or [name for name in every if fits(name, inside)]
        if not found:
            raise self._missing(path, every)
        return found

    def _paged_text(self, name: str) -> tuple[str, list[str]]:
        """Returns the text of a PDF or DOCX; keeps it, since to take it out takes seconds."""
        with self.folder.opened(name) as file:
            key: tuple[str | int, ...] = (name, *stamp(os.fstat(file.fileno())))
        known = self._texts.get(key)
        if known is None:
            data = self.folder.read(name, most=self.limits.paged_bytes)
            known = readable_text(name, data)
            if len(self._texts) >= _KEPT:
                self._texts.clear()
            self._texts[key] = known
        return known

    def _missing(self, path: str, every: list[str]) -> ToolFailed:
        near = _nearest(path, every)
        if is_pattern(path):
            return ToolFailed(Sentence("no file fits {path}", path=path), hint=near)
        try:
            with self.folder.opened(path):
                return ToolFailed(
                    Sentence("{name} changed meanwhile", name=path), hint=Sentence("try it again")
                )
        except ToolFailed as error:
            return ToolFailed(error.message, hint=error.hint or near)

    def walk(self, path: str) -> Iterator[tuple[str, int]]:
        """Yields the files below a folder with their sizes; skips what programs put there."""
        for name, state in self.folder.walk(path):
            if NEVER_READ.isdisjoint(name.split("/")):
                yield name, state.st_size

    def documents(self, path: str | None) -> list[str]:
        """Returns the documents that are meant; a file that is named is always one."""
        names = self.named(path or ".")
        if path and not self.folder.is_folder(path) and len(names) == 1:
            return names
        return [name for name in names if is_document(name)]

    def text(self, name: str) -> tuple[str, list[str]]:
        """Returns the text of a file, and notes on what was cut."""
        if is_paged(name):
            return self._paged_text(name)
        with self.folder.opened(name) as file:
            data = file.read(self.limits.bytes_each + 1)
        if len(data) <= self.limits.bytes_each:
            return readable_text(name, data)
        whole, _, _ = data.rpartition(b"\n")
        text, notes = readable_text(name, whole or data[: self.limits.bytes_each])
        return text, [*notes, f"only the first {len(whole):,} bytes of {name} were read"]


def is_document(name: str) -> bool:
    """Whether a file is text for people, by its name; tables and pictures are not."""
    end = kind(name)
    if end in _TABLES:
        return False
    return not end or is_paged(name) or is_text_name(PurePosixPath(name))


def _nearest(path: str, names: list[str]) -> str:
    wanted = path.rpartition("/")[2].casefold()
    last = {name.rpartition("/")[2].casefold(): name for name in names}
    near = difflib.get_close_matches(wanted, last, n=1)
    if near:
        return f"did you mean {last[near[0]]}?"
    return f"there are {clip(', '.join(names))}" if names else "the folder is empty"
