"""Routes of the documentation: the site that `scripts/docs` builds, under /help."""

from __future__ import annotations

import base64
import hashlib
import re
from functools import lru_cache
from pathlib import Path
from typing import Final

from starlette.responses import FileResponse, HTMLResponse, RedirectResponse, Response

from plansmith_server.errors import not_found
from plansmith_server.openapi import Answer, Ask, Nothing

FOLDER: Final = Path(__file__).parent.parent / "help"
NOT_BUILT: Final = (
    "<!doctype html><meta charset=utf-8><title>Plansmith</title><h1>Plansmith</h1>"
    "<p>The documentation has not been built here. <code>scripts/docs</code> builds it;"
    " released packages have it inside. Until then, read the folder <code>docs/</code>.</p>"
)
_LONGEST: Final = 250
_SCRIPT: Final = re.compile(rb"<script>((?:(?!<script>).)*?)</script>", re.DOTALL)


async def shown(ask: Ask, _: Nothing) -> Answer:
    """A file of the documentation."""
    return help_response(str(ask.request.path_params.get("path", "")))


async def to_start(ask: Ask, _: Nothing) -> Answer:
    """The first page of the documentation; its links need the slash."""
    del ask
    return RedirectResponse("/help/index.html")


def help_response(path: str, *, folder: Path = FOLDER) -> Response:
    """Returns a file of the documentation; raises if there is none."""
    if not (folder / "index.html").is_file():
        return HTMLResponse(NOT_BUILT, 404)
    if len(path.encode(errors="replace")) > _LONGEST:
        raise not_found("page", "/help")
    wanted = (folder / (path.replace("\0", "") or "index.html")).resolve()
    if not (wanted.is_relative_to(folder.resolve()) and wanted.is_file()):
        raise not_found("page", f"/help/{path}")
    headers = {"Cache-Control": "no-cache"}
    if wanted.suffix == ".html":
        headers["Content-Security-Policy"] = _policy(wanted, wanted.stat().st_mtime_ns)
    return FileResponse(wanted, headers=headers)


@lru_cache(maxsize=200)
def _policy(page: Path, changed: int) -> str:
    """Returns a policy that lets exactly the scripts run that were built into a page."""
    del changed
    found = (hashlib.sha256(each).digest() for each in _SCRIPT.findall(page.read_bytes()))
    hashes = "".join(f" 'sha256-{base64.b64encode(each).decode()}'" for each in found)
    return (
        f"default-src 'self'; script-src 'self'{hashes}; style-src 'self' 'unsafe-inline'; "
        "img-src 'self' data:; worker-src 'self' blob:; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'; object-src 'none'"
    )
