"""Shows what a call of a built-in tool would do to files, by making it without writing."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, cast

from plansmith.errors import ToolFailed
from plansmith.file_ports import UNSEEN, FileChange, FileContent, Preview
from plansmith.plan.capability import ToolSpec
from plansmith.plan.data import Json
from plansmith.plan.refs import fill, find_refs
from plansmith.plan.sentence import Sentence
from plansmith.plan.steps import ToolStep
from plansmith.ports import Call, ToolSource
from plansmith_desk import charts, tables
from plansmith_desk.files import moving, tools
from plansmith_desk.files.moving import new_path
from plansmith_desk.folder import Folder, Written, check_free, check_size, stamp
from plansmith_desk.toolset import ToolSet

_MAX_BYTES: Final = 10_000_000


class _UnwrittenFolder(Folder):
    """A folder that notes what would be written to it, and writes nothing."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.changes: list[FileChange] = []

    def write(self, name: str, data: bytes, *, overwrite: bool, most: int) -> Written:
        self.check_writable(name)
        check_size(name, data, most)
        before, after = self.content(name), FileContent.of(data)
        if before is not None and before != after:
            check_free(name, overwrite=overwrite)
        self.changes.append(FileChange(self.plain(name), before, after))
        return Written(created=before is None, changed=before != after)

    def update(
        self, name: str, change: Callable[[bytes | None], bytes], *, make: bool = True, most: int
    ) -> bytes:
        del make  # a file that is not there is told to `change`
        self.check_writable(name)
        before = self.read(name, most=most) if self._is_there(name) else None
        data = change(before)
        check_size(name, data, most)
        was = None if before is None else FileContent.of(before)
        self.changes.append(FileChange(self.plain(name), was, FileContent.of(data), is_edit=True))
        return data

    def content(self, name: str) -> FileContent | None:
        if not self._is_there(name):
            return None
        with self.opened(name) as file:
            state = os.fstat(file.fileno())
            if state.st_size > _MAX_BYTES:
                return FileContent(None, state.st_size, repr(stamp(state)).encode())
            return FileContent.of(file.read())

    def check_writable(self, name: str) -> None:
        """Refuses what the call itself would refuse to write."""
        if self.root.joinpath(*self.parts(name)).parent.is_dir():
            with self.parent(name, writes=True):
                pass

    def _is_there(self, name: str) -> bool:
        return os.path.lexists(self.root.joinpath(*self.parts(name)))


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
    except ToolFailed as failure:
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
    old = folder.plain(str(values.get("path", "")))
    is_folder = folder.is_folder(old)
    if spec != moving.COPY:
        folder.check_writable(old)
    if spec == moving.DELETE and is_folder:
        return Preview(moved=(old,))
    target = "" if spec == moving.DELETE else new_path(folder, old, str(values.get("to", "")))
    if target:
        folder.check_writable(target)
    if is_folder:
        return Preview(moved=(old, target))  # its files are not shown one by one
    content = folder.content(old)
    if content is None:
        raise ToolFailed(Sentence("there is no {name}", name=old))
    gone = FileChange(old, content, None)
    if spec == moving.DELETE:
        return Preview((gone,), moved=(old,))
    before = folder.content(target)
    if before is not None and not (spec == moving.COPY and before == content):
        check_free(target, overwrite=values.get("overwrite") is True)
    made = FileChange(target, before, content)
    changes = (gone, made) if spec == moving.MOVE else (made,)
    return Preview(changes, moved=(old, target), reads=True)


class SeenFiles:
    """Tools that refuse a call if its files are not as the person saw them who consented to it.

    A call that is made again may also find_refs them as it would leave them: by its own first try.
    """

    def __init__(self, source: ToolSource, root: Path) -> None:
        self._source = source
        self._root = root

    async def tools(self) -> Sequence[ToolSpec]:
        return await self._source.tools()

    async def rehearse(self, tool: str, inputs: Mapping[str, Json]) -> str | None:
        """Returns what the source finds wrong with a call; None if it cannot tell."""
        rehearse = getattr(self._source, "rehearse", None)
        return str(await rehearse(tool, inputs)) if rehearse is not None else None

    async def call(self, tool: str, arguments: Mapping[str, Json], call: Call) -> Json:
        if call.seen and (spec := FILE_WRITERS.get(tool)) is not None:
            now = await preview(self._root, spec, arguments)
            is_done = now is not None and now.is_done and call.attempt > 1
            if now is not None and now.seen != call.seen and not is_done:
                names = ", ".join(each.path for each in now.changes) or tool
                hint = Sentence("continue the run from here to look at it again")
                raise ToolFailed(
                    Sentence("{names} changed after you allowed this", names=names), hint=hint
                )
        return await self._source.call(tool, arguments, call)
