"""Shows what a call of a built-in tool would do to files, by making it without writing."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import unified_diff
from functools import partial
from pathlib import Path
from typing import Final, Literal

from plansmith.errors import InputNeeded, ToolFailed
from plansmith.file_ports import as_text, file_kind
from plansmith.plan.capability import ToolSpec
from plansmith.plan.data import Json
from plansmith.plan.preview import CallPreview, FilePreview
from plansmith.ports import Call, ToolSource
from plansmith.text import clip
from plansmith_desk import charts, tables
from plansmith_desk.files import moving, tools
from plansmith_desk.files.moving import new_path
from plansmith_desk.folder import (
    Folder,
    NoSuchFile,
    Written,
    check_free,
    check_parts,
    check_size,
    regular,
    stamp,
)
from plansmith_desk.toolset import ToolSet

_MAX_BYTES: Final = 10_000_000
# A preview shows so many letters of a text, and so many lines and letters of each of a difference;
# it looks at so many bytes, and compares so many lines.
_MAX_TEXT, _MAX_LINES, _MAX_LINE = 100_000, 400, 500
_MAX_SIZE, _MAX_COMPARED = 1_000_000, 1_000


ChangeKind = Literal["new", "changed", "same", "deleted"]


@dataclass(frozen=True, slots=True)
class FileContent:
    """The content of a file; of a very large one no data, only what shows that it changed."""

    data: bytes | None
    size: int
    mark: bytes

    @classmethod
    def of(cls, data: bytes) -> FileContent:
        """Returns data with its hash."""
        return cls(data, len(data), hashlib.sha256(data).digest())


@dataclass(frozen=True, slots=True)
class FileChange:
    """The content of a file before and after a call; None where there is no file.

    `is_edit`: what the call does not change in it stays.
    """

    path: str
    before: FileContent | None
    after: FileContent | None
    is_edit: bool = False

    @property
    def kind(self) -> ChangeKind:
        """Whether the file is new, changed, deleted or stays as it is."""
        if self.before == self.after:
            return "same"
        if self.after is None:
            return "deleted"
        return "new" if self.before is None else "changed"


@dataclass(frozen=True, slots=True)
class Preview:
    """What a call would do to files; or why it would fail."""

    changes: tuple[FileChange, ...] = ()
    error: str = ""
    moved: tuple[str, ...] = ()  # from where to where
    reads: bool = False  # what is written comes from the disk too, and may change there

    @property
    def seen(self) -> str:
        """A hash of what is on the disk now: it differs once a file has changed."""
        found = hashlib.sha256("\0".join([self.error, *self.moved]).encode())
        for change in self.changes:
            mark = b"-" if change.before is None else change.before.mark
            if self.reads and change.after is not None:
                mark += change.after.mark
            found.update(change.path.encode() + b"\0" + mark)
        return found.hexdigest()

    @property
    def is_done(self) -> bool:
        """Whether the files are as the call would leave them."""
        return bool(self.changes) and all(each.kind == "same" for each in self.changes)


class _UnwrittenFolder(Folder):
    """A folder that notes what would be written to it, and writes nothing."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.changes: list[FileChange] = []

    def write(self, name: str, data: bytes, *, overwrite: bool, most: int) -> Written:
        check_size(name, data, most)
        before, after = self.content(name, writes=True), FileContent.of(data)
        if before != after:
            check_free(name, overwrite=overwrite or before is None)
            self.check_parts(name)
        self.changes.append(FileChange(self.plain(name), before, after))
        return Written(created=before is None, changed=before != after)

    def update(
        self, name: str, change: Callable[[bytes | None], bytes], *, make: bool = True, most: int
    ) -> bytes:
        del make  # a file that is not there is told to `change`
        before = self.content(name, writes=True)
        self.check_parts(name)
        data = change(None if before is None else self.read(name, most=most))
        check_size(name, data, most)
        after = FileContent.of(data)
        self.changes.append(FileChange(self.plain(name), before, after, is_edit=True))
        return data

    def content(self, name: str, *, writes: bool = False) -> FileContent | None:
        """Returns the content of a file; refuses what a call that `writes` it would refuse."""
        with suppress(NoSuchFile), self.parent(name, writes=writes) as (place, last):
            state = regular(place, last, name)
            if state is not None and state.st_size > _MAX_BYTES:
                return FileContent(None, state.st_size, repr(stamp(state)).encode())
            return FileContent.of(self.read(name, most=_MAX_BYTES)) if state is not None else None
        return None

    def check_parts(self, name: str) -> None:
        """Refuses to write a part of a database whose other part is there."""
        with suppress(NoSuchFile), self.parent(name) as (place, last):
            check_parts(place, last, name)


_WORKSPACE: Final = (tools.WRITE, tools.APPEND, tools.REPLACE)
_TABLES: Final = (tables.WRITE, tables.EXPORT)
_MOVING: Final = (moving.MOVE, moving.COPY, moving.DELETE)
# The built-in tools that write files, with the folder's own paths in what they return.
FILE_WRITERS: Final = {each.name: each for each in (*_WORKSPACE, *_TABLES, charts.SPEC, *_MOVING)}


def writes_files(spec: ToolSpec | None) -> bool:
    """Tells whether a tool is a built-in one that writes files, not just one of its name."""
    return spec is not None and FILE_WRITERS.get(spec.name) == spec


async def preview(root: Path, spec: ToolSpec, values: Mapping[str, Json]) -> Preview | None:
    """Returns what a call would do to files; None for a tool of which that is not known."""
    if not writes_files(spec):
        return None
    try:
        folder = _UnwrittenFolder(root)
        if spec in _MOVING:
            return await asyncio.to_thread(_moved, folder, spec, values)
        await _tools(folder, spec).call(spec.name, values, Call(key="preview"))
    except (ToolFailed, InputNeeded) as failure:
        return Preview(error=str(failure))
    return Preview(tuple(folder.changes), reads=spec == tables.EXPORT)


def _tools(folder: Folder, spec: ToolSpec) -> ToolSet:
    if spec in _WORKSPACE:
        return tools.WorkspaceTools(folder)
    return tables.TableTools(folder) if spec in _TABLES else charts.ChartTools(folder)


def _moved(folder: _UnwrittenFolder, spec: ToolSpec, values: Mapping[str, Json]) -> Preview:
    own, to = moving.MovingTools(folder), str(values.get("to", ""))
    with own.there(spec, str(values.get("path", "")), to) as old:
        content = None if old.is_folder else folder.content(old.name)
        gone = FileChange(old.name, content, None)
        if spec == moving.DELETE:
            return Preview((gone,) if content else (), moved=(old.name,))
        target, is_same = new_path(folder, old.name, to), False
        with suppress(NoSuchFile), own.entry(target, writes=True) as new:
            is_same = moving.is_same(old, new.state)
            if new.state is not None and old.is_folder:
                check_free(target, overwrite=False)
    if content is None:
        return Preview(moved=(old.name, target))  # the files of a folder are not shown one by one
    before = folder.content(target, writes=True)
    folder.check_parts(target)
    if before is not None and not (is_same or (spec == moving.COPY and before == content)):
        check_free(target, overwrite=values.get("overwrite") is True)
    made = FileChange(target, before, content)
    changes = (gone, made) if spec == moving.MOVE else (made,)
    return Preview(changes, moved=(old.name, target), reads=True)


def _shown(change: FileChange, *, is_moved: bool) -> FilePreview:
    """Returns a change as a person sees it: of long texts the beginning."""
    sides = [each.data if each is not None else None for each in (change.before, change.after)]
    before, after = (None if each is None else as_text(each) for each in sides)
    is_long = any(len(each) > _MAX_SIZE for each in sides if each is not None)
    shown = FilePreview(
        path=change.path,
        change=change.kind,
        size_before=change.before.size if change.before is not None else None,
        size_after=change.after.size if change.after is not None else None,
        is_edit=change.is_edit,
    )
    if after is not None and file_kind(change.path, after.encode()).kind == "picture":
        return shown.replace(text="" if is_long else after)
    if change.kind == "new":
        return shown.replace(text="" if is_moved else (after or "")[:_MAX_TEXT])
    if before is None or after is None or is_long:
        return shown
    return shown.replace(difference=_difference(before.splitlines(), after.splitlines()))


def _difference(old: list[str], new: list[str]) -> tuple[str, ...]:
    """Returns the lines that change and two around them; of many the first."""
    start = max(0, _alike(old, new) - 2)
    end = max(0, _alike(old[start:][::-1], new[start:][::-1]) - 2)
    first, second = (each[start : len(each) - end][:_MAX_COMPARED] for each in (old, new))
    found = [*unified_diff(first, second, lineterm="", n=2)][2:]  # without the names of two files
    # The numbers in the heads of parts would be those of what is compared.
    lines = ["@@" if each.startswith("@@") else clip(each, _MAX_LINE) for each in found]
    return (*lines[:_MAX_LINES], "…") if len(lines) > _MAX_LINES else tuple(lines)


def _alike(old: list[str], new: list[str]) -> int:
    """Returns how many lines are the same at the beginning."""
    pairs = enumerate(zip(old, new, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(old), len(new)))


class PreviewedTools:
    """Tools that say what their calls would do to the files of a folder."""

    def __init__(self, source: ToolSource, root: Path) -> None:
        self._source = source
        self._root = root

    async def tools(self) -> Sequence[ToolSpec]:
        return await self._source.tools()

    async def rehearse(self, tool: str, inputs: Mapping[str, Json]) -> str | None:
        """Returns what the source finds wrong with a call; None if it cannot tell."""
        rehearse = getattr(self._source, "rehearse", None)
        return str(await rehearse(tool, inputs)) if rehearse is not None else None

    async def preview(self, tool: str, inputs: Mapping[str, Json]) -> CallPreview | None:
        spec = FILE_WRITERS.get(tool)
        found = await preview(self._root, spec, inputs) if spec is not None else None
        if found is None:
            return None
        show = partial(_shown, is_moved=bool(found.moved))
        files = await asyncio.to_thread(lambda: tuple(map(show, found.changes)))
        is_copy = tool == moving.COPY.name  # its source stays, and other calls may read it, too
        return CallPreview(
            files=files,
            moved=() if is_copy else found.moved,
            fails=found.error,
            seen=found.seen,
            done=found.is_done,
        )

    async def call(self, tool: str, arguments: Mapping[str, Json], call: Call) -> Json:
        return await self._source.call(tool, arguments, call)
