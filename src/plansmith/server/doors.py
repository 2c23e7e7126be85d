"""Doors: what a client needs a scope for: each route of the table, and the MCP and A2A servers."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from plansmith.server.keys import Grant, grant_of
from plansmith.server.problems import HttpProblem


def need_scope(scope: MutableMapping[str, Any], wanted: str) -> Grant:
    """What the client of a request is allowed, which includes this scope."""
    grant = grant_of(scope)
    if wanted not in grant.scopes:
        hint = f"plansmith tokens create NAME --scope {wanted} makes a token that has it"
        raise HttpProblem(403, "no_scope", f"this needs a token of the scope {wanted!r}", hint=hint)
    return grant


def behind(route: Route, wanted: str) -> Route:
    """The route, for clients of one scope alone."""
    inside: ASGIApp = route.app

    async def door(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            need_scope(scope, wanted)
        except HttpProblem as problem:
            await problem.response()(scope, receive, send)
            return
        await inside(scope, receive, send)

    route.app = door
    return route
