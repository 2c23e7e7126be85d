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
from plansmith.plan.sentence import Sentence
from plansmith.protected_files import PROJECT_FILE
from plansmith.text import visible
from plansmith_server.api import Answer, Ask, route
from plansmith_server.errors import HttpProblem
from plansmith_server.middleware import GateRules
from plansmith_server.routes.files import WorkFolder, opens_folders, work_folder
from plansmith_server.team.auth import require_scope
from plansmith_server.views import JsonObject

_HEAD: Final = 65_536
_ROWS: Final = 20
_TABLES: Final = {".csv": ",", ".tsv": "\t"}
_KINDS: Final = {
    "table": (".csv", ".tsv", ".xlsx"),
    "json": (".json", ".jsonl"),
    "text": (".md", ".txt", ".rst", ".pdf", ".docx"),
    "database": (".db", ".sqlite"),
    "picture": (".svg", ".png", ".jpg"),
}


@route("GET /v1/folder", "look")
async def show(ask: Ask) -> Answer:
    """Names the folder that plans work in and its files, newest first; of tables the columns."""
    folder, opens = ask.state.settings.folder(), opens_folders()

    def listed() -> tuple[list[JsonObject], int]:
        """Returns the newest files at the top of the folder, and how many there are."""
        inside = work_folder(folder)
        found = [
            (-state.st_mtime, name, state.st_size)
            for name, state in islice(inside.entries("."), 5_000)
            if stat.S_ISREG(state.st_mode) and name != PROJECT_FILE
        ]
        newest = sorted(found)[:200]
        return [_file(inside, name, size) for _, name, size in newest], len(found)

    files, total = await asyncio.to_thread(listed) if opens else ([], 0)
    return {
        "path": ask.runs.journals.recorded_folder or folder.name,
        "name": folder.name or str(folder),
        "files": files,
        "total": total,
        "can_add": opens and "approve" in ask.grant.rights and os.access(folder, os.W_OK),
        "max_bytes": GateRules(hosts=frozenset()).max_file,
    }


def _file(folder: WorkFolder, name: str, size: int) -> JsonObject:
    suffix = Path(name).suffix.lower()
    columns = [*_columns(folder, name, _TABLES[suffix])] if suffix in _TABLES else []
    kind = next((kind for kind, known in _KINDS.items() if suffix in known), "other")
    return {"name": name, "size": size, "kind": kind, "columns": columns}


def _columns(folder: WorkFolder, name: str, delimiter: str) -> Iterator[JsonObject]:
    try:
        with folder.opened(name) as file:
            text = file.read(_HEAD).decode("utf-8-sig", "replace")
        head, *some = islice(csv.reader(io.StringIO(text), delimiter=delimiter), _ROWS)
    except (ToolFailed, ValueError, csv.Error):
        return
    for place, column in enumerate(head[:40]):
        values = [row[place] for row in some if place < len(row) and row[place].strip()]
        yield {
            "name": visible(column.strip())[:80],
            "numeric": bool(values) and all(map(_is_number, values)),
            "repeats": 0 < len(set(values)) < len(values),
        }


def _is_number(text: str) -> bool:
    try:
        float(text.replace(",", "").strip("%$€£ "))
    except ValueError:
        return False
    return True


@route("PUT /v1/folder/files/{file:path}", "approve", status=201, takes_file=True)
async def put(ask: Ask, *, replace: bool = False) -> Answer:
    """Puts a file into the folder; one of the same name is replaced only if that is asked for."""
    if replace:
        require_scope(ask.request.scope, "admin")  # nobody reviews it, and it cannot be undone
    folder, name = work_folder(ask.state.settings.folder()), ask.path("file")
    try:
        is_plain = folder.parts(name) == (name,) and visible(name) == name
    except ToolFailed:
        is_plain = False
    if not is_plain:
        hint = Sentence("use a plain name of at most 200 bytes that does not begin with a dot")
        why = Sentence("this cannot be the name of a file here")
        raise HttpProblem(422, "bad_name", why, hint=hint)
    try:
        with folder.replacing(name, overwrite=replace) as file:
            size = await _write_body(ask, file)
    except ToolFailed as failure:
        message = failure.message
        key = message.key if isinstance(message, Sentence) else ""
        if not key:  # it is what the system says
            why = Sentence("it cannot be written: {error}", error=message)
            raise HttpProblem(507, "not_written", why) from None
        again = Sentence("send replace=true to replace it, or choose another name")
        code = {"file.exists": "exists", "file.no_file": "not_a_file"}.get(key, "protected")
        helps = again if code == "exists" else failure.hint
        raise HttpProblem(409, code, message, hint=helps) from None
    ask.state.log.info("file_added", name=name, size=size, by=ask.by.name)
    return {"name": name, "size": size}


async def _write_body(ask: Ask, file: BinaryIO) -> int:
    size = 0
    try:
        async for piece in ask.request.stream():
            size += len(piece)
            await asyncio.to_thread(file.write, piece)
    except ClientDisconnect:
        raise HttpProblem(400, "cut_off", Sentence("the client closed the connection")) from None
    await asyncio.to_thread(file.flush)
    # Now, and not in the event loop when the file gets its name.
    await asyncio.to_thread(os.fsync, file.fileno())
    return size
