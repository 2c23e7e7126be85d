"""Faces: the routes of MCP and A2A, loaded where their libraries are installed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from plansmith.server.doors import behind
from plansmith.server.office import Office
from plansmith.server.problems import HttpProblem
from plansmith.wiring import load

_FACES: Final = {
    "mcp": ("plansmith.server.mcp:mcp_routes", ("/mcp",)),
    "a2a": ("plansmith.server.a2a:a2a_routes", ("/a2a", "/.well-known/agent-card.json")),
}


def face_routes(office: Office, base: str) -> tuple[list[BaseRoute], list[Any]]:
    """The routes of all faces, and what they hold open; a missing one says what to install."""
    routes: list[BaseRoute] = []
    during: list[Any] = []
    for extra, (dotted, paths) in _FACES.items():
        try:
            make = load(dotted)
        except ModuleNotFoundError:
            routes += _missing(extra, paths)
            continue
        found, held = make(office, base)
        routes += [behind(each, extra) for each in found]
        during += held
    return routes, during


def _missing(extra: str, paths: Sequence[str]) -> list[BaseRoute]:
    async def tell(_: Request) -> Response:
        hint = f"pip install 'plansmith[{extra}]'"
        return HttpProblem(501, "not_installed", f"{extra} is not installed", hint=hint).response()

    return [Route(path, tell, methods=["GET", "POST"]) for path in paths]
