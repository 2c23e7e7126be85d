"""Routes of what is to be read: the API as data and as a page, the documentation, the web page."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any, Final

from starlette import responses as web

from plansmith_server.api import Answer, Ask, route
from plansmith_server.errors import not_found
from plansmith_server.openapi import openapi
from plansmith_server.plain_pages import plain_page, policy_hash

_BUILT: Final = Path(__file__).parent.parent
HELP: Final = _BUILT / "help"
PAGE: Final = _BUILT / "page"
# No file system has longer names, and no view a longer address.
_MAX_LENGTH: Final = 250
_IMMUTABLE: Final = "public, max-age=31536000, immutable"
_SCRIPT: Final = re.compile(r"<script>((?:(?!<script>).)*?)</script>", re.DOTALL)
_STYLE: Final = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 1.5rem auto; padding: 0 1rem;
  overflow-wrap: anywhere; }
summary { cursor: pointer; font-family: ui-monospace, monospace; }
pre { background: color-mix(in srgb, CanvasText 7%, Canvas); white-space: pre-wrap; }
"""
_POLICY: Final = (
    f"default-src 'self'; style-src {policy_hash(_STYLE)}; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; object-src 'none'"
)
_INTRO: Final = (
    "<p>Every route wants a token with the scope that its <code>security</code> names, as"
    " <code>Authorization: Bearer …</code>; <code>plansmith tokens create</code> makes one. Errors"
    " are problem+json with <code>code</code>, <code>detail</code> and <code>hint</code>."
    ' The same as data: <a href="/openapi.json">/openapi.json</a>.</p>'
)


@route("GET /openapi.json", "look")
async def document(ask: Ask) -> Answer:
    """This OpenAPI document."""
    return web.JSONResponse(openapi(ask.request.app.state.routes))


@route("GET /docs", "look", media="text/html")
async def api_page(ask: Ask) -> Answer:
    """This API as a page to read, without scripts, from here alone."""
    document = openapi(ask.request.app.state.routes)
    parts: dict[str, str] = {}
    for path, item in document["paths"].items():
        for method, each in item.items():
            title = f"{method.upper()} {path}: {each['summary']}"
            details = _details(each["operationId"], title, each)
            parts[each["tags"][0]] = parts.get(each["tags"][0], "") + details
    for title, kind in (("bodies and answers", "schemas"), ("errors", "responses")):
        components = document["components"][kind].items()
        parts[title] = "".join(_details(name, name, form) for name, form in components)
    title = f"Plansmith API {escape(document['info']['version'])}"
    body = "".join(f"<h2>{name.capitalize()}</h2>{text}" for name, text in parts.items())
    text = (
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport "
        f'content="width=device-width"><title>{title}</title><style>{_STYLE}</style>'
        f"<h1>{title}</h1><p>{escape(document['info']['description'])}</p>{_INTRO}{body}</html>"
    )
    return web.HTMLResponse(text, headers={"Content-Security-Policy": _POLICY})


def _details(name: str, title: str, value: Mapping[str, Any]) -> str:
    text = escape(json.dumps(value, indent=1, ensure_ascii=False))
    return f'<details id="{name}"><summary>{escape(title)}</summary><pre>{text}</pre></details>'


@route("GET /help", "look", media="text/html")
async def to_help(ask: Ask) -> Answer:
    """The documentation; its links need the slash."""
    del ask
    return web.RedirectResponse("/help/index.html")


@route("GET /help/{path:path}", "look", media="text/html")
async def help_file(ask: Ask) -> Answer:
    """The documentation's files."""
    return help_response(ask.path("path"))


def help_response(path: str, *, folder: Path = HELP) -> web.Response:
    """Returns a file of the documentation that `scripts/docs` builds; raises if there is none."""
    if not (folder / "index.html").is_file():
        return _not_built("docs", "The documentation", "Until then, read the folder docs/.", 404)
    found = _file(folder, path)
    if found is None:
        raise not_found("page", f"/help/{path[:_MAX_LENGTH]}")
    headers = {"Cache-Control": "no-cache"}
    if found.suffix == ".html":
        headers["Content-Security-Policy"] = _policy(found.read_bytes().decode())
    return web.FileResponse(found, headers=headers)


def _policy(page: str) -> str:
    """Returns a policy that lets exactly the scripts run that were built into a page."""
    hashes = "".join(f" {policy_hash(each)}" for each in _SCRIPT.findall(page))
    return (
        f"default-src 'self'; script-src 'self'{hashes}; style-src 'self' 'unsafe-inline'; "
        "img-src 'self' data:; worker-src 'self' blob:; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'; object-src 'none'"
    )


@route("GET /", "look", media="text/html")
@route("GET /{path:path}", "look", media="text/html")
async def page(ask: Ask) -> Answer:
    """The page and its files; people who went to another address are shown the way home."""
    path = str(ask.request.path_params.get("path", ""))
    if found := page_response(path):
        return found
    if path.partition("/")[0] != "v1" and "text/html" in ask.header("accept"):
        return plain_page("lost", 404, accepts=ask.header("accept-language"))
    raise not_found("page", f"/{path}")


def page_response(path: str, *, folder: Path = PAGE) -> web.Response | None:
    """Returns a file of the page, or None; views have their address behind the `#`."""
    if not (folder / "index.html").is_file():
        about = "The API is described in /openapi.json."
        return None if path else _not_built("page", "The page", about, 200)
    # Vite puts a hash into the names of what is under assets/.
    kept = _IMMUTABLE if path.startswith("assets/") else "no-cache"
    found = _file(folder, path)
    return web.FileResponse(found, headers={"Cache-Control": kept}) if found else None


def _file(folder: Path, path: str) -> Path | None:
    if len(path.encode(errors="replace")) > _MAX_LENGTH:
        return None
    wanted = (folder / (path.replace("\0", "") or "index.html")).resolve()
    return wanted if wanted.is_relative_to(folder.resolve()) and wanted.is_file() else None


def _not_built(script: str, what: str, instead: str, status: int) -> web.Response:
    return web.HTMLResponse(
        "<!doctype html><html lang=en><meta charset=utf-8><title>Plansmith</title>"
        f"<h1>Plansmith</h1><p>{what} has not been built here. <code>scripts/{script}</code>"
        f" builds it; released packages have it inside. {instead}</p>",
        status,
    )
