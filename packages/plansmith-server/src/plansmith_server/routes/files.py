"""Routes of the files that a run wrote.

An installed package knows the files of runs and of their folder.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from pathlib import Path
from typing import BinaryIO, Final, Protocol
from urllib.parse import quote

from pydantic import BaseModel
from starlette.responses import Response

from plansmith import file_ports as fp
from plansmith import plugins
from plansmith.plan.data import stored_json
from plansmith.runs.service import RunService
from plansmith_server.api import Answer, Ask, route
from plansmith_server.errors import not_found
from plansmith_server.views import view

# Nothing in a file runs or loads anything, not even where it is opened on its own.
_SANDBOX: Final = "sandbox; default-src 'none'; style-src 'unsafe-inline'"


class WorkFiles(Protocol):
    """Knows which files the calls of runs write."""

    async def written(self, run_id: str, *, keep: str = "") -> Sequence[fp.RunFile]:
        """Returns the files that a run wrote, with the content of pictures and of `keep`."""
        ...


class WorkFolder(Protocol):
    """A folder that nobody leaves by a path; it raises `ToolFailed` for what it refuses."""

    def parts(self, name: str) -> tuple[str, ...]: ...

    def entries(self, name: str) -> Iterator[tuple[str, os.stat_result]]:
        """Yields the files and folders in a folder."""
        ...

    def opened(self, name: str) -> AbstractContextManager[BinaryIO]: ...

    def replacing(self, name: str, *, overwrite: bool) -> AbstractContextManager[BinaryIO]:
        """Opens a file to write it; it gets its name when it is complete."""
        ...


class _NoFiles:
    """Stands in where no installed package knows files."""

    async def written(self, *_: object, **__: object) -> Sequence[fp.RunFile]:
        return ()


def work_files(runs: RunService) -> WorkFiles:
    """Returns what knows the files of runs."""
    if "runs" not in plugins.names("files"):
        return _NoFiles()
    found: WorkFiles = plugins.load("files", "runs")(runs)
    return found


def opens_folders() -> bool:
    """Whether an installed package opens folders."""
    return "folder" in plugins.names("files")


def work_folder(path: Path) -> WorkFolder:
    """Returns a folder; raises `Misconfigured` if no installed package opens one."""
    folder: WorkFolder = plugins.load("files", "folder")(path)
    return folder


class RunFileView(BaseModel):
    """A file that a step of the run wrote, and whether it is still as it was written."""

    path: str
    step: str
    at: datetime
    state: fp.FileState
    size: int
    kind: fp.FileKind


class RunFiles(BaseModel):
    """The files of a run."""

    items: list[RunFileView]


@route("GET /v1/runs/{id}/files", "look", answer=RunFiles)
async def listing(ask: Ask) -> Answer:
    """Lists the files that the steps of a run wrote, and what became of them since."""
    files = await work_files(ask.runs).written(ask.run)
    return {"items": [view(RunFileView, each) for each in files]}


@route("GET /v1/runs/{id}/files/{path:path}", "look", media="text/plain")
async def content(ask: Ask, *, download: bool = False) -> Answer:
    """Returns the content of a file that a step of the run wrote; with `download`, to be saved."""
    path = ask.path("path")
    for each in await work_files(ask.runs).written(ask.run, keep=path):
        if each.path == path and each.state != "gone":
            return file_response(path, each.data, download=download)
    raise not_found("file of this run", path)


async def step_result(ask: Ask, name: str) -> Response:
    """Returns the whole result of a step, to be saved."""
    state = (await ask.state.run(ask.run)).steps.get(name)
    if state is None or not state.result_hash:
        raise not_found("result of the step", name)
    value = await ask.smith.store.get(state.result_hash)
    if isinstance(value, str):
        return file_response(f"{name}.txt", value.encode(errors="replace"), download=True)
    return file_response(f"{name}.json", stored_json(value), download=True)


def file_response(path: str, data: bytes, *, download: bool = False) -> Response:
    """Returns a file as what it is known to be; anything else is only saved, never shown."""
    media = fp.file_kind(path, data).media
    place = "attachment" if download or media == fp.UNKNOWN else "inline"
    name = quote(path.rpartition("/")[2], safe="")
    headers = {
        "Content-Security-Policy": _SANDBOX,
        "X-Content-Type-Options": "nosniff",
        "Content-Disposition": f"{place}; filename*=UTF-8''{name}",
    }
    return Response(data, media_type=media, headers=headers)
