"""All built-in tools of a folder; loads SQL and web tools only where they are used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from plansmith.plan.data import Json
from plansmith.ports import Clock, ToolSource
from plansmith_desk.calculator import CalculatorTools
from plansmith_desk.calendar import CalendarTools
from plansmith_desk.charts import ChartTools
from plansmith_desk.documents import DocumentTools
from plansmith_desk.files.changes import PreviewedTools
from plansmith_desk.files.moving import MovingTools
from plansmith_desk.files.tools import FileTools, WorkspaceTools
from plansmith_desk.tables import TableTools
from plansmith_desk.tool_specs import record, spec
from plansmith_desk.toolset import TEXT, Arguments, BuiltIn, Job, ToolSet, string

SPEC: Final = spec(
    "note.tell",
    "Show a remark in the middle of a long run: a finding, a warning, progress. Not "
    "for the answer, which every plan ends with.",
    record(
        {"text": string("What is told.", minLength=1, maxLength=20_000)},
        level={"enum": ["info", "warning"], "description": "info if left out."},
    ),
    record({"text": TEXT, "level": TEXT}),
    timeout_s=10,
)


class NoteTools(ToolSet):
    """The tool that shows a text to whoever watches the run, and returns it."""

    def __init__(self) -> None:
        super().__init__([BuiltIn(SPEC, self._show)])

    def _show(self, given: Arguments, job: Job) -> Json:
        text, level = given["text"], given.get("level", "info")
        job.call.progress(text if level == "info" else f"{level}: {text}")
        return {"text": text, "level": level}


NO_DATABASES: Final[Mapping[str, str]] = {}


def builtin_sources(
    folder: Path,
    *,
    write: bool = True,
    zone: str = "UTC",
    clock: Clock | None = None,
    databases: Mapping[str, str] = NO_DATABASES,
    writable: Sequence[str] = (),
    hosts: Sequence[str] = (),
    private: Sequence[str] = (),
) -> list[ToolSource]:
    """Returns all built-in tools that the arguments allow.

    Files, tables and charts stay in `folder`, and change nothing without `write`. `databases`
    (names to URLs; only those in `writable` can be changed) adds SQL, `hosts` adds fetching.
    """
    sources: list[ToolSource] = [
        FileTools(folder),
        DocumentTools(folder),
        PreviewedTools(WorkspaceTools(folder, write=write), folder),
        PreviewedTools(TableTools(folder, write=write), folder),
        CalculatorTools(),
        CalendarTools(zone=zone, clock=clock),
        NoteTools(),
    ]
    if write:
        sources += [
            PreviewedTools(each, folder) for each in (MovingTools(folder), ChartTools(folder))
        ]
    if databases:
        sql: Any = import_module("plansmith_desk.sql")
        sources.append(sql.SqlTools(databases, writable=writable))
    if hosts or private:
        web: Any = import_module("plansmith_desk.web")
        sources.append(web.FetchTools(hosts, private=private))
    return sources
