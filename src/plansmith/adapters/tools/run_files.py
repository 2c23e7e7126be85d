"""Finds the files that a run's own steps wrote, and tells what became of them since."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from plansmith.adapters.tools import moving, workspace
from plansmith.adapters.tools.file_changes import writes_files
from plansmith.adapters.tools.file_kinds import UNKNOWN, FileKind, Shown, file_kind
from plansmith.adapters.tools.folder import Folder, regular
from plansmith.engine.units import named_unit
from plansmith.errors import JournalDamaged, Misconfigured, PlansmithError, ToolFailed
from plansmith.plan import events as e
from plansmith.plan.capability import ToolSpec
from plansmith.plan.data import Json
from plansmith.plan.plan import Plan
from plansmith.ports import PlanStore
from plansmith.report.data import Picture

if TYPE_CHECKING:
    from plansmith.runs.service import RunService

MOST_BYTES: Final = 50_000_000
_MOST_PICTURE: Final = 5_000_000
# The event that tells of a write is recorded a little after the write.
_LATER: Final = timedelta(seconds=2)
FileState = Literal["as_written", "changed", "gone"]


@dataclass(frozen=True, slots=True)
class _Write:
    """A file as a step left it: its size and content where they are known."""

    path: str
    step: str
    at: datetime
    size: int | None = None
    content: bytes | None = None
    is_there: bool = True


@dataclass(frozen=True, slots=True)
class RunFile:
    """A file that a step of a run wrote, and its state on the disk now."""

    path: str
    step: str
    at: datetime
    state: FileState
    size: int = 0
    kind: FileKind = "other"
    media: str = ""
    data: bytes = b""


async def run_files(
    store: PlanStore,
    events: Sequence[e.Event],
    *,
    specs: Mapping[str, ToolSpec],
    folder: Path,
    keep: str = "",
) -> list[RunFile]:
    """Returns the files that the steps of a run wrote, in order, as they are on the disk now.

    Only what a built-in tool wrote counts, and only inside `folder`: links are not followed.
    Contents are kept of pictures, and of the file `keep`.
    """
    written: dict[str, _Write] = {}
    for step, at, spec, inputs, result in await _calls(store, events, specs):
        for each in _writes(step, at, spec, inputs, result):
            written.pop(each.path, None)  # the last one who wrote it comes last
            written[each.path] = each
    try:
        place = Folder(folder)
    except Misconfigured:
        return []  # the folder is not on this machine, or not any more
    return [_now(place, each, keep=each.path == keep) for each in written.values() if each.is_there]


async def files_of_run(runs: RunService, run_id: str, *, keep: str = "") -> list[RunFile]:
    """Returns the files that a run wrote; none of a run that belongs to another folder."""
    journal = await runs.journals.load(run_id)
    if not runs.journals.folder or not runs.journals.is_here(journal.run.folder):
        return []
    try:
        specs = (await runs.intake.callees()).specs
    except PlansmithError:
        return []  # the tools cannot be listed now
    folder = Path(runs.journals.folder)
    return await run_files(runs.store, journal.events, specs=specs, folder=folder, keep=keep)


_Called = tuple[str, datetime, ToolSpec, Mapping[str, Json], Mapping[str, Json]]


async def _calls(
    store: PlanStore, events: Sequence[e.Event], specs: Mapping[str, ToolSpec]
) -> list[_Called]:
    """Returns the finished calls of this run that wrote files, with what they were given."""
    plan: Plan | None = None
    templates: dict[str, Plan] = {}
    inputs: dict[str, str] = {}
    found: list[_Called] = []
    for event in events:
        match event.body:
            case e.PlanProposed(plan=plan, templates=more):
                templates |= more
            case e.StepStarted(step=name, inputs=digest):
                inputs[name] = digest
            case e.StepDone(step=name, result=digest) if plan is not None and inputs.get(name):
                unit = named_unit(plan, name, templates)
                spec = specs.get(unit.callee) if unit is not None else None
                if spec is None or not writes_files(spec):
                    continue
                given, result = await _value(store, inputs[name]), await _value(store, digest)
                if isinstance(given, dict) and isinstance(result, dict):
                    found.append((name, event.at, spec, given, result))
            case _:
                pass
    return found


async def _value(store: PlanStore, digest: str) -> Json:
    try:
        return await store.get(digest)
    except JournalDamaged:
        return None  # what cannot be read is not shown


def _writes(
    step: str, at: datetime, spec: ToolSpec, inputs: Mapping[str, Any], result: Mapping[str, Any]
) -> list[_Write]:
    path, origin, size = result.get("path"), result.get("from"), result.get("bytes")
    if not isinstance(path, str):
        return []
    if spec == moving.DELETE:
        return [_Write(path, step, at, is_there=False)]
    content = None
    if spec == workspace.WRITE and isinstance(text := inputs.get("text"), str):
        content = text.encode()
    made = _Write(path, step, at, size if isinstance(size, int) else None, content)
    if spec == moving.MOVE and isinstance(origin, str):
        return [_Write(origin, step, at, is_there=False), made]
    return [made]


def _now(folder: Folder, written: _Write, *, keep: bool) -> RunFile:
    """Returns the state of a file; one that is a link or cannot be read counts as gone."""
    gone = RunFile(written.path, written.step, written.at, "gone")
    try:
        with folder.parent(written.path) as (place, last):
            status = regular(place, last, written.path)
        if status is None:
            return gone
        is_large = status.st_size > MOST_BYTES
        data = b"" if is_large else folder.read(written.path, most=MOST_BYTES)
    except ToolFailed:
        return gone
    size = status.st_size if is_large else len(data)
    if written.content is not None:
        is_same = data == written.content
    else:
        saved = datetime.fromtimestamp(status.st_mtime, UTC)
        is_same = written.size in (None, size) and saved <= written.at + _LATER
    state: FileState = "as_written" if is_same else "changed"
    kind, media = Shown("other", UNKNOWN) if is_large else file_kind(written.path, data)
    keep = keep or (kind == "picture" and size <= _MOST_PICTURE)
    return replace(gone, state=state, size=size, kind=kind, media=media, data=data if keep else b"")


async def pictures_of_run(runs: RunService, run_id: str) -> tuple[Picture, ...]:
    """Returns the pictures that are still as the run wrote them, for its report."""
    return tuple(
        Picture(each.path, each.step, each.media, each.data)
        for each in await files_of_run(runs, run_id)
        if each.kind == "picture" and each.state == "as_written" and each.data
    )
