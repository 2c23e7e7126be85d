"""Shows what a call of a built-in tool would do to files, by making it without writing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from difflib import unified_diff
from pathlib import Path
from typing import Final, cast

from plansmith.errors import InputNeeded, ToolFailed
from plansmith.file_ports import UNSEEN, FileChange, FileContent, Preview, as_text, file_kind
from plansmith.plan.capability import ToolSpec
from plansmith.plan.data import Json
from plansmith.plan.preview import CallPreview, FilePreview
from plansmith.plan.refs import fill, find_refs
from plansmith.plan.steps import ToolStep
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
# What a preview shows: letters of a text and of a picture, lines of a difference and their letters.
_MAX_TEXT: Final = 100_000
_MAX_PICTURE: Final = 1_000_000
_MAX_LINES: Final = 400
_MAX_LINE: Final = 500
_MAX_COMPARED: Final = 1_000


class _UnwrittenFolder(Folder):
    """A folder that notes what would be written to it, and writes nothing."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.changes: list[FileChange] = []

    def write(self, name: str, data: bytes, *, overwrite: bool, most: int) -> Written:
        check_size(name, data, most)
        before, after = self.content(name, writes=True), FileContent.of(data)
        if before is not None and before != after:
            check_free(name, overwrite=overwrite)
        self.changes.append(FileChange(self.plain(name), before, after))
        return Written(created=before is None, changed=before != after)

    def update(
        self, name: str, change: Callable[[bytes | None], bytes], *, make: bool = True, most: int
    ) -> bytes:
        del make  # a file that is not there is told to `change`
        before = self.content(name, writes=True)
        data = change(None if before is None else self.read(name, most=most))
        check_size(name, data, most)
        after = FileContent.of(data)
        self.changes.append(FileChange(self.plain(name), before, after, is_edit=True))
        return data

    def content(self, name: str, *, writes: bool = False) -> FileContent | None:
        """Returns the content of a file; refuses what a call that `writes` it would refuse."""
        with suppress(NoSuchFile), self.parent(name, writes=writes) as (place, last):
            state = regular(place, last, name)
            if writes:
                check_parts(place, last, name)
            if state is not None and state.st_size > _MAX_BYTES:
                return FileContent(None, state.st_size, repr(stamp(state)).encode())
            return FileContent.of(self.read(name, most=_MAX_BYTES)) if state is not None else None
        return None


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


async def step_preview(root: Path, spec: ToolSpec, step: ToolStep) -> Preview | None:
    """Returns what a step of a plan would do to the files as they are now, where that is known.

    What it takes from another step is unseen.
    """
    inputs = dict(step.inputs)
    if not any(find_refs(inputs)):
        found = await preview(root, spec, cast("dict[str, Json]", fill(inputs, {})))
        # An earlier step may make what is missing now.
        return None if found is None or found.error else found
    path, is_edit = inputs.get("path"), spec in (tools.APPEND, tools.REPLACE)
    if (
        not isinstance(path, str)
        or any(find_refs(path))
        or not (is_edit or inputs.get("overwrite"))
    ):
        return None
    folder = _UnwrittenFolder(root)
    try:
        before = await asyncio.to_thread(folder.content, path)
    except ToolFailed:
        return None
    if before is None:
        return None
    return Preview((FileChange(folder.plain(path), before, UNSEEN, is_edit=is_edit),))


def _tools(folder: Folder, spec: ToolSpec) -> ToolSet:
    if spec in _WORKSPACE:
        return tools.WorkspaceTools(folder)
    return tables.TableTools(folder) if spec in _TABLES else charts.ChartTools(folder)


def _moved(folder: _UnwrittenFolder, spec: ToolSpec, values: Mapping[str, Json]) -> Preview:
    path, to = str(values.get("path", "")), str(values.get("to", ""))
    with moving.there(folder, path, to, writes=spec != moving.COPY) as old:
        content = None if old.is_folder else folder.content(old.name)
        gone = FileChange(old.name, content, None)
        if spec == moving.DELETE:
            moving.check_deleted(old)
            return Preview((gone,) if content else (), moved=(old.name,))
        if spec == moving.COPY:
            moving.check_copied(old)
        target, is_same = new_path(folder, old.name, to), False
        with suppress(NoSuchFile), moving.entry(folder, target, writes=True) as new:
            is_same = moving.is_same(old, new.state)
            if new.state is not None and old.is_folder:
                check_free(target, overwrite=False)
    if content is None:
        return Preview(moved=(old.name, target))  # the files of a folder are not shown one by one
    before = folder.content(target, writes=True)
    if before is not None and not (is_same or (spec == moving.COPY and before == content)):
        check_free(target, overwrite=values.get("overwrite") is True)
    made = FileChange(target, before, content)
    changes = (gone, made) if spec == moving.MOVE else (made,)
    return Preview(changes, moved=(old.name, target), reads=True)


def _shown(found: Preview) -> CallPreview:
    """Returns what a call would do to files as a person sees it: of long texts the beginning."""
    return CallPreview(
        files=tuple(_file_shown(each, is_moved=bool(found.moved)) for each in found.changes),
        moved=found.moved,
        fails=found.error,
        seen=found.seen,
        done=found.is_done,
    )


def _file_shown(change: FileChange, *, is_moved: bool) -> FilePreview:
    before, after = (
        as_text(each.data) if each is not None and each.data is not None else None
        for each in (change.before, change.after)
    )
    difference, text = (), ""
    if after is not None and file_kind(change.path, after.encode()).kind == "picture":
        text = after if len(after) <= _MAX_PICTURE else ""
    elif change.kind == "new" and not is_moved:
        text = (after or "")[:_MAX_TEXT]
    elif change.kind == "changed" and before is not None and after is not None:
        difference = _difference(before.splitlines(), after.splitlines())
    return FilePreview(
        path=change.path,
        change=change.kind,
        size_before=change.before.size if change.before is not None else None,
        size_after=change.after.size if change.after is not None else None,
        difference=difference,
        text=text,
        is_edit=change.is_edit,
    )


def _difference(old: list[str], new: list[str]) -> tuple[str, ...]:
    """Returns the lines that change; of many the first, and of a long text all in between."""
    if max(len(old), len(new)) <= _MAX_COMPARED:
        lines = [*unified_diff(old, new, lineterm="", n=2)][2:]  # without the names of two files
    else:
        start = _alike(old, new)
        end = _alike(old[start:][::-1], new[start:][::-1])
        gone, come = old[start : len(old) - end], new[start : len(new) - end]
        place = f"@@ -{start + 1},{len(gone)} +{start + 1},{len(come)} @@"
        lines = [place, *(f"-{line}" for line in gone), *(f"+{line}" for line in come)]
    cut = [clip(line, _MAX_LINE) for line in lines[:_MAX_LINES]]
    return (*cut, "…") if len(lines) > _MAX_LINES else tuple(cut)


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
        return await asyncio.to_thread(_shown, found) if found is not None else None

    async def call(self, tool: str, arguments: Mapping[str, Json], call: Call) -> Json:
        return await self._source.call(tool, arguments, call)
