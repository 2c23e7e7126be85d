"""Tells what steps of runs wrote to files, and what became of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from plansmith.engine.units import named_unit
from plansmith.errors import JournalDamaged, Misconfigured, PlansmithError, ToolFailed
from plansmith.file_ports import UNKNOWN, FileState, RunFile, Shown, file_kind
from plansmith.plan import events as e
from plansmith.plan.capability import ToolSpec
from plansmith.plan.plan import Plan
from plansmith.plan.run import Run
from plansmith.ports import Store
from plansmith_desk.files import moving, tools
from plansmith_desk.files.changes import writes_files
from plansmith_desk.folder import Folder, regular

if TYPE_CHECKING:
    from plansmith.runs.service import RunService

MAX_BYTES: Final = 50_000_000
_MAX_PICTURE: Final = 5_000_000
# The event that tells of a write is recorded a little after the write.
_LATER: Final = timedelta(seconds=2)


@dataclass(frozen=True, slots=True)
class _Write:
    """A file as a step left it: its size and content where they are known."""

    path: str
    step: str
    at: datetime
    size: int | None = None
    content: bytes | None = None
    is_there: bool = True


class WorkFiles:
    """The files that built-in tools wrote in the folder of some runs."""

    def __init__(self, runs: RunService) -> None:
        self._runs = runs

    async def written(self, run_id: str, *, keep: str = "") -> list[RunFile]:
        """Returns the files that the steps of a run wrote, in order, as they are on the disk now.

        Only what a built-in tool wrote counts, and only inside the folder: links are not followed.
        Contents are kept of pictures, and of the file `keep`.
        """
        journal = await self._runs.journals.load_verified(run_id)
        specs, last = await self._specs(journal.run), dict[str, _Write]()
        async for each in _writes(self._runs.store, journal.events, specs):
            last.pop(each.path, None)  # the last one who wrote it comes last
            last[each.path] = each
        try:
            place = Folder(self._folder)
        except Misconfigured:
            return []  # the folder is not on this machine, or not any more
        return [
            _now(place, each, keep=each.path == keep) for each in last.values() if each.is_there
        ]

    @property
    def _folder(self) -> Path:
        return Path(self._runs.journals.folder)

    async def _specs(self, run: Run) -> Mapping[str, ToolSpec]:
        """Returns the tools of a run of this folder, as far as they can be listed now."""
        journals = self._runs.journals
        if not journals.folder or not journals.is_here(run.folder):
            return {}
        try:
            return (await self._runs.registry.callees()).specs
        except PlansmithError:
            return {}


async def _writes(
    store: Store, events: Sequence[e.Event], specs: Mapping[str, ToolSpec]
) -> AsyncIterator[_Write]:
    """Yields what the finished calls of this run did to files."""
    plan: Plan | None = None
    templates: dict[str, Plan] = {}
    inputs: dict[str, str] = {}
    for event in events:
        match event.body:
            case e.PlanProposed(plan=plan, templates=more):
                templates |= more
            case e.StepStarted(step=name, inputs=digest):
                inputs[name] = digest
            case e.StepDone(step=name, result=digest) if plan is not None and inputs.get(name):
                unit = named_unit(plan, name, templates)
                spec = specs.get(unit.callee) if unit is not None else None
                if spec is not None and writes_files(spec):
                    given, result = await _value(store, inputs[name]), await _value(store, digest)
                    for each in _written(name, event.at, spec, given, result):
                        yield each
            case _:
                pass


async def _value(store: Store, digest: str) -> Any:
    try:
        return await store.get(digest)
    except JournalDamaged:
        return None  # what cannot be read is not shown


def _written(step: str, at: datetime, spec: ToolSpec, given: Any, result: Any) -> Iterator[_Write]:
    if not isinstance(result, dict) or not isinstance(given, dict):
        return
    fields = cast("dict[str, Any]", result)
    if isinstance(fields.get("path"), str):
        if spec == moving.MOVE and isinstance(fields.get("from"), str):
            yield _Write(fields["from"], step, at, is_there=False)
        text = cast("dict[str, Any]", given).get("text") if spec == tools.WRITE else None
        content = text.encode() if isinstance(text, str) else None
        size = fields.get("bytes") if isinstance(fields.get("bytes"), int) else None
        yield _Write(fields["path"], step, at, size, content, is_there=spec != moving.DELETE)


def _now(folder: Folder, written: _Write, *, keep: bool) -> RunFile:
    """Returns the state of a file; one that is a link or cannot be read counts as gone."""
    gone = RunFile(written.path, written.step, written.at, "gone")
    try:
        with folder.parent(written.path) as (place, last):
            status = regular(place, last, written.path)
        if status is None:
            return gone
        is_large = status.st_size > MAX_BYTES
        data = b"" if is_large else folder.read(written.path, most=MAX_BYTES)
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
    keep = keep or (kind == "picture" and size <= _MAX_PICTURE)
    return replace(gone, state=state, size=size, kind=kind, media=media, data=data if keep else b"")
