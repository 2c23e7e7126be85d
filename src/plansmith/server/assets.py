"""The page's files: built ones from the package's folder, else a note that says how to build."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from starlette.responses import FileResponse, HTMLResponse, Response

FOLDER: Final = Path(__file__).parent / "page"
_HEAD: Final = (
    "<!doctype html><html lang=en><meta charset=utf-8>"
    '<meta name=viewport content="width=device-width"><title>Plansmith</title>'
)
SIGN_IN: Final = (
    f"{_HEAD}<h1>Plansmith</h1><p>This browser is not signed in. Open the link that"
    " <code>plansmith serve</code> printed when it started; it works once."
    " <code>plansmith tokens link</code> makes a new one.</p>"
)
NOT_BUILT: Final = (
    f"{_HEAD}<h1>Plansmith</h1><p>The server works, but its page has not been built here."
    " <code>scripts/page</code> builds it from <code>web/</code> (it needs Node.js);"
    " released packages have it inside.</p>"
    '<p>The API is described in <a href="/openapi.json">/openapi.json</a>.</p>'
)
# No file system has longer names, and no view a longer address.
_LONGEST: Final = 250
_IMMUTABLE: Final = "public, max-age=31536000, immutable"


def page_response(path: str, *, folder: Path = FOLDER) -> Response | None:
    """A file of the page; an address of a view gets the page itself; nothing for no such file."""
    index = folder / "index.html"
    if not index.is_file():
        return HTMLResponse(NOT_BUILT) if path == "" else None
    if len(path.encode(errors="replace")) > _LONGEST:
        return None
    wanted = (folder / path.replace("\0", "")).resolve() if path else index
    inside = wanted.is_relative_to(folder.resolve())
    if inside and wanted.is_file():
        # Vite puts a hash into the names of what is under assets/.
        kept = _IMMUTABLE if path.startswith("assets/") else "no-cache"
        return FileResponse(wanted, headers={"Cache-Control": kept})
    # An address of the API that is not there must not look as if it were.
    is_view = "." not in path.rpartition("/")[2] and path.partition("/")[0] != "v1"
    return FileResponse(index, headers={"Cache-Control": "no-cache"}) if is_view else None
