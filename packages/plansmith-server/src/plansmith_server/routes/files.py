"""Routes of files: those that a run wrote, and those that a call would write.

An installed package knows the files of runs and of their folder.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from pathlib import Path
from typing import BinaryIO, Final, Protocol
from urllib.parse import quote

from pydantic import BaseModel
from starlette.responses import Response

from plansmith import file_ports as fp
from plansmith import plugins
from plansmith.errors import StaleDecision
from plansmith.plan.data import Json, stored_json
from plansmith.plan.events import QuestionAsked
from plansmith.plan.run import Run
from plansmith.plan.sentence import Sentence
from plansmith.runs.decisions import changed_values
from plansmith.runs.service import RunService
from plansmith_server.api import Answer, Ask, route
from plansmith_server.errors import not_found
from plansmith_server.views import JsonObject, view

# Nothing in a file runs or loads anything, not even where it is opened on its own.
_SANDBOX: Final = "sandbox; default-src 'none'; style-src 'unsafe-inline'"


class WorkFiles(Protocol):
    """Knows which files the calls of runs write."""

    async def consent_preview(
        self, run: Run, asked: QuestionAsked, own: Mapping[str, Json] | None = None
    ) -> fp.Preview | None:
        """Returns what a call that asks for consent would do to files; None if nobody knows."""
        ...

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

    async def consent_preview(self, *_: object, **__: object) -> None:
        return None

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


class FileBeforeAfter(BaseModel):
    """What a call would do to a file; the texts are null where it is none, or very large."""

    path: str
    change: fp.ChangeKind
    size_before: int | None
    size_after: int | None
    kind: fp.FileKind
    before: str | None
    after: str | None


class FilesPreview(BaseModel):
    """What a call would do to files; or why it would fail.

    `files` is null where nobody knows which files the call would write; `seen` is to be sent with
    the answer.
    """

    files: list[FileBeforeAfter] | None
    seen: str
    would_fail: str


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


def previewed_file(found: fp.Preview | None, path: str) -> Response:
    """Returns a file as a call that asks for consent would write it."""
    for each in found.changes if found else ():
        if each.path == path and each.after is not None and each.after.data is not None:
            return file_response(path, each.after.data)
    raise not_found("file", path)


@route(
    "POST /v1/runs/{id}/questions/{question:path}",
    "approve",
    answer=FilesPreview,
    example={"change": {"path": "june.md"}},
)
async def with_values(ask: Ask, *, change: dict[str, Json]) -> Answer:
    """Shows what a call that asks for consent would do to files with values of one's own."""
    run, about = await open_question(ask)
    own = await changed_values(ask.runs.store, about, change)
    return preview_view(await work_files(ask.runs).consent_preview(run, about, own))


async def open_question(ask: Ask) -> tuple[Run, QuestionAsked]:
    """Returns the open question in the path; raises 404 if there is none."""
    run, name = await ask.state.run(ask.run), ask.path("question")
    if name not in run.questions:
        raise not_found("question", name)
    return run, run.questions[name]


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


async def require_as_seen(
    runs: RunService,
    run: Run,
    asked: QuestionAsked,
    seen: str,
    own: Mapping[str, Json] | None = None,
) -> None:
    """Refuses a consent that was given to a look at files which have changed since.

    Somebody with own values may have looked at what these do, or only at what was asked about.
    """
    files = work_files(runs)
    with_own = await files.consent_preview(run, asked, own) if own else None
    if with_own is not None and with_own.seen == seen:
        return
    now = await files.consent_preview(run, asked)
    if now is None or now.seen == seen:
        return
    names = ", ".join(each.path for each in (with_own or now).changes) or asked.callee
    why = Sentence("{files} changed on the disk after you looked", files=names)
    raise StaleDecision(why, hint=Sentence("look at it again, then decide"))


def preview_view(found: fp.Preview | None) -> JsonObject:
    """Returns a preview, with texts to their last letter."""
    if found is None:
        return {"files": None, "seen": "", "would_fail": ""}
    files: list[JsonObject] = []
    for each in found.changes:
        content = each.after or each.before
        data = content.data if content else None
        files.append(
            view(
                FileBeforeAfter,
                each,
                change=each.kind,
                size_before=each.before and each.before.size,
                size_after=each.after and each.after.size,
                kind="other" if data is None else fp.file_kind(each.path, data).kind,
                before=_text(each.before),
                after=_text(each.after),
            )
        )
    return {"files": files, "seen": found.seen, "would_fail": found.error}


def _text(content: fp.FileContent | None) -> str | None:
    if content is None or content.data is None or content.size > 1_000_000:
        return None
    return fp.as_text(content.data)
