"""Built-in tools that list, read and search files inside one folder."""

from __future__ import annotations

import asyncio
import os
import stat
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from plansmith.adapters.stores.open_files import is_held
from plansmith.adapters.tools.documents.text import file_text, is_paged
from plansmith.adapters.tools.patterns import search_forms
from plansmith.adapters.tools.toolset import NOTES, noted
from plansmith.errors import ToolFailed
from plansmith.plan.capability import Effect, ToolSpec
from plansmith.plan.data import Json
from plansmith.plan.sentence import Sentence
from plansmith.ports import Call


def _object(required: Sequence[str] = (), **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


def _list_of(each: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": dict(each)}


_TEXT: Final[Mapping[str, Any]] = {"type": "string"}
_COUNT: Final[Mapping[str, Any]] = {"type": "integer", "minimum": 0}
_FOLDER: Final[Mapping[str, Any]] = {
    "type": "string",
    "default": ".",
    "description": "Where; the working folder if left out.",
}
# The words are those that people ask with, in both languages: a planner finds a tool by them.
FILE_TOOLS: Final = (
    ToolSpec(
        name="files.list",
        description="List what is in one folder: its files with size and date, and its folders. "
        "Names only, not what stands in the files (列出文件夹里有哪些文件).",
        input_schema=_object(folder=_FOLDER),
        output_schema=_object(
            ("files", "folders"),
            files=_list_of(
                _object(("path", "size", "modified"), path=_TEXT, size=_COUNT, modified=_TEXT)
            ),
            folders=_list_of(_TEXT),
            left_out=_COUNT,
        ),
        effect=Effect.READ,
        open_world=False,
    ),
    ToolSpec(
        name="files.read",
        description="Read or show the text of one file, whole: text, PDF, Word "
        "(读取、查看一个文件的内容).",
        input_schema=_object(
            ("path",), path={"type": "string", "description": "Path of the file."}
        ),
        output_schema=_object(("path", "text"), path=_TEXT, text=_TEXT, notes=NOTES),
        effect=Effect.READ,
        open_world=False,
    ),
    ToolSpec(
        name="files.search",
        description="Search inside all files of a folder: which files mention, contain or talk "
        "about a word or text, with the lines (搜索内容：哪些文件提到、包含某个词).",
        input_schema=_object(
            ("text",),
            text={"type": "string", "description": "The word or words to look for."},
            folder=_FOLDER,
        ),
        output_schema=_object(
            ("text", "files", "searched"),
            text=_TEXT,
            files=_list_of(
                _object(
                    ("path", "count", "lines"),
                    path=_TEXT,
                    count=_COUNT,
                    lines=_list_of(_object(("line", "text"), line=_COUNT, text=_TEXT)),
                )
            ),
            searched=_COUNT,
            also=_TEXT,
            not_text=_COUNT,
            left_out=_COUNT,
        ),
        effect=Effect.READ,
        open_world=False,
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


class FileTools:
    """The three tools, confined to a folder; they do not see hidden files."""

    def __init__(self, root: Path, *, limits: FileToolLimits | None = None) -> None:
        self._root = root.resolve()
        self._limits = limits or FileToolLimits()

    async def tools(self) -> Sequence[ToolSpec]:
        """Returns the three tools."""
        return FILE_TOOLS

    async def call(self, tool: str, arguments: Mapping[str, Json], call: Call) -> Json:
        """Lists a folder, reads a file or searches a folder."""
        del call
        match tool:
            case "files.list":
                return await asyncio.to_thread(self._list, _text(arguments, "folder", "."))
            case "files.read":
                return await asyncio.to_thread(self._read, _text(arguments, "path"))
            case "files.search":
                text, folder = _text(arguments, "text"), _text(arguments, "folder", ".")
                return await asyncio.to_thread(self._search, text, folder)
            case _:
                raise ToolFailed(Sentence("unknown.tool", name=tool))

    def _list(self, name: str) -> Json:
        folder = self._inside(name)
        try:
            paths = sorted(folder.iterdir())
        except NotADirectoryError:
            raise ToolFailed(Sentence("file.no_folder", name=name)) from None
        except OSError as error:
            raise _failed(name, error) from None
        found = [path for path in paths if self._is_listed(path)]
        files: list[Json] = [self._entry(path) for path in found[: self._limits.files]]
        inside = [path for path in paths if self._is_folder(path)]
        folders: list[Json] = [
            path.relative_to(self._root).as_posix() for path in inside[: self._limits.files]
        ]
        left_out = len(found) + len(inside) - len(files) - len(folders)
        listed: dict[str, Json] = {"files": files, "folders": folders}
        return listed | {"left_out": left_out} if left_out else listed

    def _entry(self, path: Path) -> Json:
        status = path.stat()
        changed = datetime.fromtimestamp(status.st_mtime, UTC).isoformat(timespec="seconds")
        name = path.relative_to(self._root).as_posix()
        return {"path": name, "size": status.st_size, "modified": changed}

    def _is_folder(self, path: Path) -> bool:
        """Whether an entry is a folder that may be opened; links are not."""
        if path.name.startswith(".") or path.is_symlink():
            return False
        try:
            path.name.encode()
            return path.is_dir()
        except (OSError, UnicodeEncodeError):
            return False

    def _is_listed(self, path: Path) -> bool:
        """Whether an entry is a file that may be read, after its links are resolved."""
        if path.name.startswith("."):
            return False
        try:
            path.name.encode()
            target = path.resolve(strict=True)
        except (OSError, RuntimeError, UnicodeEncodeError):
            return False
        return target.is_file() and self._is_open(target)

    def _read(self, name: str) -> dict[str, Json]:
        path, found = self._named(name)
        most = self._limits.paged_bytes if is_paged(path.name) else self._limits.bytes_each
        try:
            data = _bytes(path, most + 1)
        except OSError as error:
            raise _failed(name, error) from None
        if data is None:
            raise ToolFailed(Sentence("file.no_file", name=name))
        if len(data) > most:
            message = f"{name} is larger than {most:,} bytes"
            raise ToolFailed(message, hint=Sentence("file.read_smaller"))
        shown = path.relative_to(self._root).as_posix()
        text, notes = file_text(shown, data)
        return noted({"path": shown, "text": text}, [*found, *notes])

    def _named(self, name: str) -> tuple[Path, list[str]]:
        """Resolves the path of a file; a name alone may stand for the one file in a subfolder."""
        try:
            return self._inside(name), []
        except ToolFailed:
            alike = {
                path
                for path in (self._below(self._root) if name.strip() and "/" not in name else ())
                if path.name.casefold() == name.casefold()
            }
            if len(alike) != 1 or (self._root / name).is_symlink():
                raise
        path = self._inside(alike.pop().relative_to(self._root).as_posix())
        return path, [f"there is no {name} here; {path.relative_to(self._root)} was read"]

    def _search(self, text: str, name: str) -> Json:
        """Returns the files that contain the text, with the first matching lines."""
        if not text.strip():
            raise ToolFailed(Sentence("file.no_query"), hint=Sentence("file.give_word"))
        folder = self._inside(name)
        if not folder.is_dir():
            raise ToolFailed(Sentence("file.no_folder", name=name))
        needles = search_forms(text)
        found: list[Json] = []
        searched = unreadable = left_out = 0
        end = time.monotonic() + self._limits.seconds
        for path in self._below(folder):
            if searched + unreadable >= self._limits.searched or time.monotonic() > end:
                left_out += 1
                continue
            content = self._content(path)
            if content is None:
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

    def _below(self, folder: Path) -> Iterator[Path]:
        """Yields the files in a folder and its subfolders in order; skips links to folders."""
        for place, folders, files in os.walk(folder):
            folders[:] = sorted(each for each in folders if not each.startswith("."))
            yield from (
                path for each in sorted(files) if self._is_listed(path := Path(place) / each)
            )

    def _content(self, path: Path) -> str | None:
        try:
            read = self._read(path.relative_to(self._root).as_posix())
        except ToolFailed:
            return None
        return str(read["text"])

    def _matches(self, path: Path, content: str, needles: Sequence[str]) -> list[Json]:
        lines: list[Json] = [
            {"line": number, "text": line.strip()[: self._limits.letters_each]}
            for number, line in enumerate(content.splitlines(), start=1)
            if any(needle in line.casefold() for needle in needles)
        ]
        if not lines:
            return []
        name = path.relative_to(self._root).as_posix()
        return [{"path": name, "count": len(lines), "lines": lines[: self._limits.lines_each]}]

    def _inside(self, name: str) -> Path:
        """Resolves a name; refuses it if it leads out of the folder."""
        if "\0" in name or not name.strip():
            raise ToolFailed(Sentence("file.no_path", name=name))
        try:
            path = (self._root / name).resolve(strict=True)
        except FileNotFoundError:
            raise ToolFailed(Sentence("file.absent", name=name)) from None
        except (OSError, RuntimeError) as error:
            raise ToolFailed(Sentence("file.not_followed", name=name, error=error)) from None
        if not path.is_relative_to(self._root):
            hint = Sentence("file.inside_only")
            raise ToolFailed(Sentence("file.outside", name=name), hint=hint)
        if not self._is_open(path):
            raise ToolFailed(Sentence("file.hidden", name=name), hint=Sentence("file.hidden_hint"))
        return path

    def _is_open(self, path: Path) -> bool:
        """Whether a resolved path is inside the folder and no part of it is hidden."""
        if not path.is_relative_to(self._root):
            return False
        return not any(part.startswith(".") for part in path.relative_to(self._root).parts)


def _text(arguments: Mapping[str, Json], name: str, otherwise: str | None = None) -> str:
    value = arguments.get(name, otherwise)
    if not isinstance(value, str):
        raise ToolFailed(Sentence("file.wants_text", name=name))
    return value


def _bytes(path: Path, most: int) -> bytes | None:
    """Returns the first bytes of a regular file; None for anything else."""
    if is_held(path.lstat()):
        return None
    # Not blocking: a pipe in the place of a file must not hold the run.
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return None
        with os.fdopen(handle, "rb", closefd=False) as file:
            return file.read(most)
    finally:
        os.close(handle)


def _failed(name: str, error: OSError) -> ToolFailed:
    return ToolFailed(Sentence("error.cannot_read_file", name=name, error=error.strerror or error))
