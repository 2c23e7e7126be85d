"""Routes about the server: health, version, metrics, settings, notices, who the client is."""

from __future__ import annotations

import asyncio
from importlib.metadata import version
from typing import Any, Final, cast

from starlette.responses import PlainTextResponse, Response

from plansmith.errors import PlansmithError, Refused
from plansmith.plan.sentence import Sentence
from plansmith.plan.summary import OPEN_STATUSES
from plansmith_server.api import Answer, Ask, route
from plansmith_server.errors import HttpProblem, not_found
from plansmith_server.middleware import ALIVE
from plansmith_server.ops.metrics import MEDIA_TYPE
from plansmith_server.settings import SECRET
from plansmith_server.shown_settings import HIDDEN, address, rows
from plansmith_server.team.auth import PROBE
from plansmith_server.team.notices import Channel
from plansmith_server.team.tenant_book import Tenant
from plansmith_server.team.tokens import SCOPES
from plansmith_server.views import JsonObject, Listed

_STORE_S: Final = 2.0
_NOTICED: Final = ("name", "sent", "failed", "error", "at")


@route("GET /healthz", "look")
async def alive(ask: Ask) -> Answer:
    """Answers as long as the process runs."""
    del ask
    return ALIVE


@route("GET /readyz", "look")
async def ready(ask: Ask) -> Answer:
    """Checks that the store can be read and written, and that open runs were resumed."""
    runs = ask.runs
    retry, why, count = runs.journals.store_retry, "", 0
    try:
        async with asyncio.timeout(_STORE_S):
            count = len(await ask.smith.store.open_runs())
            await runs.journals.ownership.require_writable()
    except PlansmithError as error:
        why = Sentence("the store does not answer: {why}", why=str(error))
    except TimeoutError:
        trouble = retry.trouble or f"no answer within {_STORE_S:g} s"
        why = Sentence("the store does not answer: {why}", why=trouble)
    if not why and retry.trouble:
        why = Sentence("runs wait for the store: {why}", why=retry.trouble)
    if not why and not ask.state.ready:
        why = Sentence("open runs are being resumed")
    if ask.grant is PROBE:  # it learns no details
        return (
            Response('{"status":"not ready"}', 503, media_type="application/json") if why else ALIVE
        )
    if why:
        raise HttpProblem(503, "not_ready", why)
    return {"status": "ok", "open_runs": count}


@route("GET /version", "look")
async def versions(ask: Ask) -> Answer:
    """Returns the version."""
    del ask
    return {"name": "plansmith", "version": version("plansmith")}


@route("GET /metrics", "look", media=MEDIA_TYPE.partition(";")[0])
async def prometheus(ask: Ask) -> Answer:
    """Returns the server's metrics for Prometheus."""
    state, counts = ask.state, await ask.runs.lists.status_counts()
    gauges: dict[str, dict[str, float]] = {
        "plansmith_open_runs": {each: counts[each] for each in OPEN_STATUSES if each in counts},
        "plansmith_busy_runs": {"": state.background.busy},
        "plansmith_streams": {"": state.metrics.streams},
    }
    return PlainTextResponse(state.metrics.text(gauges), media_type=MEDIA_TYPE)


@route("GET /v1/settings", "look", answer=Listed)
async def settings(ask: Ask) -> Answer:
    """Lists the settings, each with where it was set; shows no secret."""
    wiring = ask.state.wiring
    items = [
        {"name": name, "value": _for_tenant(wiring.tenant, name, value), "source": source}
        for name, value, source in rows(wiring.settings.stages())
    ]
    return {"items": items}


def _for_tenant(tenant: Tenant | None, name: str, value: Any) -> Any:
    """Returns a value as a tenant may see it: where its store and its folder are, it may not."""
    if tenant is None:
        return value
    if name == "store":
        return HIDDEN
    if isinstance(value, list):
        return [_for_tenant(tenant, "", each) for each in cast("list[object]", value)]
    return value.removeprefix(f"{tenant.home}/") if isinstance(value, str) else value


@route("GET /v1/notices", "look", answer=Listed)
async def notices(ask: Ask) -> Answer:
    """Lists where notices go and what became of the last ones; shows no secret."""
    return {"items": [_channel(each) for each in ask.state.notices.channels.values()]}


@route("POST /v1/notices/{name}/test", "admin")
async def test_notice(ask: Ask) -> Answer:
    """Sends a test to one channel, and says why if that fails."""
    name, sender = ask.path("name"), ask.state.notices
    if name not in sender.channels:
        raise not_found("channel of notices", name)
    await sender.test(name)
    return _channel(sender.channels[name])


def _channel(channel: Channel) -> JsonObject:
    given = channel.settings
    # Where it leads, without user, password, path and query.
    place = HIDDEN if SECRET.fullmatch(given.url) else address(given.url)
    return {
        **{name: getattr(channel, name) for name in _NOTICED},
        "kind": given.kind,
        "to": ", ".join(given.to) if given.kind == "mail" else place,
        "about": given.about,
        "after_s": given.after_s,
    }


@route("GET /v1/me", "look")
async def me(ask: Ask) -> Answer:
    """Tells a client who it is here and what it may do."""
    grant, actor = ask.grant, ask.by
    return {
        "user": actor.identity,
        "kind": actor.kind,
        "role": grant.role,
        "tenant": grant.tenant.rpartition("_")[0],
        "scopes": [each for each in SCOPES if each in grant.rights],
    }


@route(
    "POST /v1/logout",
    "look",
    status=204,
    conflict="The client has a token, not the log-in of a browser",
)
async def log_out(ask: Ask) -> Answer:
    """Ends the log-in of this browser; its cookie stops working."""
    grant, auth = ask.grant, ask.request.app.state.auth
    if grant.kind != "login":
        hint = Sentence("plansmith tokens revoke {name} revokes a token", name=grant.name or "NAME")
        raise Refused(Sentence("this is a token, not the log-in of a browser"), hint=hint)
    auth.log_out(grant)
    response = Response(status_code=204)
    response.delete_cookie(auth.cookie_name, httponly=True, samesite="strict")
    return response
