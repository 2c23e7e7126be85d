"""Routes of health: alive, ready, version, metrics."""

from __future__ import annotations

import asyncio
from importlib.metadata import version
from typing import Final

from starlette.responses import JSONResponse, PlainTextResponse

from plansmith.errors import PlansmithError
from plansmith.plan.data import Json
from plansmith.plan.sentence import Sentence
from plansmith.plan.summary import OPEN_STATUSES
from plansmith_server.errors import HttpProblem, not_found
from plansmith_server.middleware import ALIVE, page_response
from plansmith_server.openapi import Answer, Ask, Nothing
from plansmith_server.openapi import openapi as describe
from plansmith_server.ops.metrics import MEDIA_TYPE
from plansmith_server.plain_pages import plain_page
from plansmith_server.team.auth import PROBE

_STORE_S: Final = 2.0


async def alive(ask: Ask, _: Nothing) -> Answer:
    """Answers as long as the process runs."""
    del ask
    return {**ALIVE}


async def ready(ask: Ask, _: Nothing) -> Answer:
    """Checks that the store can be read and written, and that open runs were resumed."""
    try:
        found = await _readiness(ask)
    except HttpProblem:
        if ask.grant is not PROBE:
            raise
        return JSONResponse({"status": "not ready"}, 503)
    return {**ALIVE} if ask.grant is PROBE else found


async def _readiness(ask: Ask) -> dict[str, Json]:
    smith = ask.server_state.smith
    try:
        async with asyncio.timeout(_STORE_S):
            count = len(await smith.store.open_runs())
            await smith.runs.journals.owners.need_writable()
    except PlansmithError as error:
        raise HttpProblem(
            503, "not_ready", Sentence("the store does not answer: {why}", why=str(error))
        ) from None
    except TimeoutError:
        why = smith.runs.journals.patience.trouble or f"no answer within {_STORE_S:g} s"
        raise HttpProblem(
            503, "not_ready", Sentence("the store does not answer: {why}", why=why)
        ) from None
    if smith.runs.journals.patience.trouble:
        why = f"runs wait for the store: {smith.runs.journals.patience.trouble}"
        raise HttpProblem(503, "not_ready", why)
    if not ask.server_state.ready:
        raise HttpProblem(503, "not_ready", Sentence("open runs are being resumed"))
    return {"status": "ok", "open_runs": count}


async def versions(ask: Ask, _: Nothing) -> Answer:
    """Returns the version."""
    del ask
    return {"name": "plansmith", "version": version("plansmith")}


async def prometheus(ask: Ask, _: Nothing) -> Answer:
    """Returns the server's metrics for Prometheus."""
    server_state = ask.server_state
    counts = await server_state.smith.runs.lists.status_counts()
    opened: dict[str, float] = {name: counts[name] for name in OPEN_STATUSES if name in counts}
    gauges = {
        "plansmith_open_runs": opened,
        "plansmith_busy_runs": {"": float(server_state.background.busy)},
        "plansmith_streams": {"": float(server_state.metrics.streams)},
    }
    return PlainTextResponse(server_state.metrics.text(gauges), media_type=MEDIA_TYPE)


async def openapi(ask: Ask, _: Nothing) -> Answer:
    """This description."""
    return JSONResponse(describe(ask.request.app.state.routes))


async def page(ask: Ask, _: Nothing) -> Answer:
    """The page and its files; people who went to another address are shown the way home."""
    path = str(ask.request.path_params.get("path", ""))
    found = page_response(path)
    if found is not None:
        return found
    if path.partition("/")[0] != "v1" and "text/html" in ask.header("accept"):
        return plain_page("lost", 404, accepts=ask.header("accept-language"))
    raise not_found("page", f"/{path}")
