"""Built-in tools that list, read and search files inside one folder."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final

from plansmith.errors import ToolFailed
from plansmith.plan.data import Json
from plansmith.plan.sentence import Sentence
from plansmith.tools.toolset import (
    NOTES,
    TEXT,
    Arguments,
    BuiltIn,
    Job,
    ToolSet,
    items,
    noted,
    string,
)
from plansmith_desk.documents.text import file_text, is_paged
from plansmith_desk.folder import Folder
from plansmith_desk.patterns import search_forms
from plansmith_desk.tool_specs import COUNT, record, spec

_FOLDER: Final = string("Where; the working folder if left out.", default=".")
FOUND: Final = record({"path": TEXT, "size": COUNT, "modified": TEXT})
_LINES: Final = items(record({"line": COUNT, "text": TEXT}))
_spec: Final = partial(spec, idempotent=False, timeout_s=None)
# The words are those that people ask with, in both languages: a planner finds a tool by them.
FILE_TOOLS: Final = (
    _spec(
        "files.list",
        "List what is in one folder: its files with size and date, and its folders. Names only, "
        "not what stands in the files (列出文件夹里有哪些文件).",
        record({}, folder=_FOLDER),
        record({"files": items(FOUND), "folders": items(TEXT)}, left_out=COUNT),
    ),
    _spec(
        "files.read",
        "Read or show the text of one file, whole: text, PDF, Word (读取、查看一个文件的内容).",
        record({"path": string("Path of the file.")}),
        record({"path": TEXT, "text": TEXT}, notes=NOTES),
    ),
    _spec(
        "files.search",
        "Search inside all files of a folder: which files mention, contain or talk about a word "
        "or text, with the lines (搜索内容：哪些文件提到、包含某个词).",
        record({"text": string("The word or words to look for.")}, folder=_FOLDER),
        record(
            {
                "text": TEXT,
                "files": items(record({"path": TEXT, "count": COUNT, "lines": _LINES})),
                "searched": COUNT,
            },
            also=TEXT,
            not_text=COUNT,
            left_out=COUNT,
        ),
    ),
)


@dataclass(frozen=True, slots=True)
class FileToolLimits:
    """Limits: files listed or searched, size of one file, lines shown, time of a search."""

    files: int = 200
    bytes_each: int = 1_000_000
    paged_bytes: int = 30_000_000
    searched: int = 5_000
    lines_each: int = 5
    letters_each: int = 200
    seconds: float = 40.0


def listed(path: str, state: os.stat_result) -> Json:
    """Returns what is told of a file in a list."""
    changed = datetime.fromtimestamp(state.st_mtime, UTC).isoformat(timespec="seconds")
    return {"path": path, "size": state.st_size, "modified": changed}


class FileTools(ToolSet):
    """The three tools, confined to a folder; they do not see hidden files."""

    def __init__(self, root: Path, *, limits: FileToolLimits | None = None) -> None:
        self._folder = Folder(root)
        self._limits = limits or FileToolLimits()
        works = (self._list, self._read, self._search)
        super().__init__([BuiltIn(*each) for each in zip(FILE_TOOLS, works, strict=True)])

    def _list(self, given: Arguments, job: Job) -> Json:
        del job
        found, inside = list[Json](), list[Json]()
        for path, state in self._folder.entries(self._plain(given.get("folder", "."))):
            if stat.S_ISDIR(state.st_mode):
                inside.append(path)
            else:
                found.append(listed(path, state))
        most = self._limits.files
        left_out = len(found[most:]) + len(inside[most:])
        result: dict[str, Json] = {"files": found[:most], "folders": inside[:most]}
        return result | {"left_out": left_out} if left_out else result

    def _read(self, given: Arguments, job: Job) -> Json:
        del job
        path, found = self._named(self._plain(given["path"]))
        text, notes = file_text(path, self._data(path))
        return noted({"path": path, "text": text}, [*found, *notes])

    def _data(self, path: str) -> bytes:
        most = self._limits.paged_bytes if is_paged(path) else self._limits.bytes_each
        return self._folder.read(path, most=most)

    def _named(self, name: str) -> tuple[str, list[str]]:
        """Returns the path of a file; a name alone may stand for the one file in a subfolder."""
        parts = self._folder.parts(name)
        if len(parts) == 1 and not os.path.lexists(self._folder.root / name):
            alike = [
                path
                for path, _ in self._folder.walk(".")
                if path.rpartition("/")[2].casefold() == name.casefold()
            ]
            if len(alike) == 1:
                return alike[0], [f"there is no {name} here; {alike[0]} was read"]
        return "/".join(parts), []

    def _plain(self, name: str) -> str:
        """Returns a path relative to the folder, which may be given whole."""
        root = str(self._folder.root)
        return name.removeprefix(root).lstrip("/") if name.startswith(f"{root}/") else name

    def _search(self, given: Arguments, job: Job) -> Json:
        """Returns the files that contain the text, with the first matching lines."""
        text: str = given["text"]
        if not text.strip():
            raise ToolFailed(
                Sentence("there is nothing to search for"), hint=Sentence("give a word")
            )
        needles = search_forms(text)
        found: list[Json] = []
        searched = unreadable = left_out = 0
        end = time.monotonic() + self._limits.seconds
        for path, _ in self._folder.walk(self._plain(given.get("folder", "."))):
            if job.given_up:
                break
            if searched + unreadable >= self._limits.searched or time.monotonic() > end:
                left_out += 1
                continue
            try:
                content = file_text(path, self._data(path))[0]
            except ToolFailed:
                unreadable += 1
                continue
            searched += 1
            found += self._matches(path, content, needles)
        result: dict[str, Json] = {"text": text, "files": found, "searched": searched}
        if len(needles) > 1:
            result["also"] = needles[1]
        if unreadable:
            result["not_text"] = unreadable
        return result | {"left_out": left_out} if left_out else result

    def _matches(self, path: str, content: str, needles: Sequence[str]) -> list[Json]:
        lines: list[Json] = [
            {"line": number, "text": line.strip()[: self._limits.letters_each]}
            for number, line in enumerate(content.splitlines(), start=1)
            if any(needle in line.casefold() for needle in needles)
        ]
        if not lines:
            return []
        return [{"path": path, "count": len(lines), "lines": lines[: self._limits.lines_each]}]
