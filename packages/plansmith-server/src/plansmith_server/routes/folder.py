"""Routes of the folder that plans work in: its files, and putting files into it."""

from __future__ import annotations

import asyncio
import csv
import io
import os
import stat
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import BinaryIO, Final

from starlette.requests import ClientDisconnect

from plansmith.errors import ToolFailed
from plansmith.plan.data import Json
from plansmith.plan.sentence import Sentence
from plansmith.protected_files import PROJECT_FILE
from plansmith.text import visible
from plansmith_server.errors import HttpProblem
from plansmith_server.middleware import GateRules
from plansmith_server.openapi import Answer, Ask, Nothing
from plansmith_server.schemas import requests as b
from plansmith_server.team.auth import need_scope
from plansmith_server.work_files import WorkFolder, opens_folders, work_folder

_MOST_FILES: Final = 200
_MOST_SEEN: Final = 5_000
_HEAD: Final = 65_536
_ROWS: Final = 20
_MOST_COLUMNS: Final = 40
_REFUSALS: Final = {"file.exists": "exists", "file.no_file": "not_a_file"}
_TABLES: Final = {".csv": ",", ".tsv": "\t"}
_KINDS: Final = {
    ".csv": "table",
    ".tsv": "table",
    ".xlsx": "table",
    ".json": "json",
    ".jsonl": "json",
    ".md": "text",
    ".txt": "text",
    ".rst": "text",
    ".pdf": "text",
    ".docx": "text",
    ".db": "database",
    ".sqlite": "database",
    ".svg": "picture",
    ".png": "picture",
    ".jpg": "picture",
}


async def show(ask: Ask, _: Nothing) -> Answer:
    """Names the folder and its files, newest first; of tables also the columns."""
    folder = ask.server_state.settings.folder()
    opens = opens_folders()
    files, total = await asyncio.to_thread(_listed, folder) if opens else (list[Json](), 0)
    return {
        "path": ask.server_state.smith.runs.journals.recorded_folder or folder.name,
        "name": folder.name or str(folder),
        "files": files,
        "total": total,
        "can_add": opens and "approve" in ask.grant.scopes and os.access(folder, os.W_OK),
        "max_bytes": GateRules(hosts=frozenset()).max_file,
    }


def _listed(path: Path) -> tuple[list[Json], int]:
    """Returns the newest files at the top of the folder, and how many there are."""
    folder = work_folder(path)
    found = [
        (-state.st_mtime, name, state.st_size)
        for name, state in islice(folder.entries("."), _MOST_SEEN)
        if stat.S_ISREG(state.st_mode) and name != PROJECT_FILE
    ]
    return [_file(folder, name, size) for _, name, size in sorted(found)[:_MOST_FILES]], len(found)


def _file(folder: WorkFolder, name: str, size: int) -> Json:
    suffix = Path(name).suffix.lower()
    columns: list[Json] = [*_columns(folder, name)] if suffix in _TABLES else []
    kind = _KINDS.get(suffix, "other")
    return {"name": name, "size": size, "kind": kind, "columns": columns}


def _columns(folder: WorkFolder, name: str) -> Iterator[Json]:
    """Yields the columns of a table by its first lines, and whether they hold numbers."""
    try:
        with folder.opened(name) as file:
            text = file.read(_HEAD).decode("utf-8-sig", "replace")
    except ToolFailed:
        return
    rows = csv.reader(io.StringIO(text), delimiter=_TABLES[Path(name).suffix.lower()])
    try:
        head, *some = [row for row, _ in zip(rows, range(_ROWS), strict=False)]
    except (ValueError, csv.Error):
        return
    for place, column in enumerate(head[:_MOST_COLUMNS]):
        values = [row[place] for row in some if place < len(row) and row[place].strip()]
        different = len(set(values)) if values else 0
        yield {
            "name": visible(column.strip())[:80],
            "numeric": bool(values) and all(map(_is_number, values)),
            "repeats": 0 < different < len(values),
        }


def _is_number(text: str) -> bool:
    try:
        float(text.replace(",", "").strip("%$€£ "))
    except ValueError:
        return False
    return True


async def put(ask: Ask, given: b.PutQuery) -> Answer:
    """Puts a file into the folder; one of the same name is replaced only if that is asked for."""
    if given.replace:
        need_scope(ask.request.scope, "admin")  # nobody reviews it, and it cannot be undone
    folder = work_folder(ask.server_state.settings.folder())
    name = ask.path("file")
    _check_name(folder, name)
    try:
        with folder.replacing(name, overwrite=given.replace) as file:
            size = await _received(ask, file)
    except ToolFailed as failure:
        raise _refused(failure) from None
    ask.server_state.log.info("file_added", name=name, size=size, by=ask.by.name)
    return {"name": name, "size": size}


def _check_name(folder: WorkFolder, name: str) -> None:
    """Refuses what cannot be the name of a file at the top of the folder."""
    try:
        if folder.parts(name) == (name,) and visible(name) == name:
            return
    except ToolFailed:
        pass
    hint = Sentence("use a plain name of at most 200 bytes that does not begin with a dot")
    raise HttpProblem(
        422, "bad_name", Sentence("this cannot be the name of a file here"), hint=hint
    )


def _refused(failure: ToolFailed) -> HttpProblem:
    if not isinstance(failure.message, Sentence):  # it is what the system says
        return HttpProblem(
            507, "not_written", Sentence("it cannot be written: {error}", error=failure.message)
        )
    code = _REFUSALS.get(failure.message.key, "protected")
    hint = (
        Sentence("send replace=true to replace it, or choose another name")
        if code == "exists"
        else failure.hint
    )
    return HttpProblem(409, code, failure.message, hint=hint)


async def _received(ask: Ask, file: BinaryIO) -> int:
    """Writes the body to a file piece by piece; returns its size."""
    size = 0
    try:
        async for piece in ask.request.stream():
            size += len(piece)
            await asyncio.to_thread(file.write, piece)
    except ClientDisconnect:
        raise HttpProblem(400, "cut_off", Sentence("the client closed the connection")) from None
    await asyncio.to_thread(_flushed, file)
    return size


def _flushed(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())  # here, and not in the event loop when the file gets its name
