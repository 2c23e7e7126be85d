"""Says which errors a route of the API can answer with, and what each means there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

# What every request meets before its route: the name of the shared response, and its meaning.
SHARED_FAILURES: Final[Mapping[int, tuple[str, str]]] = {
    401: ("NoToken", "The token is missing, wrong, revoked or over"),
    403: ("Forbidden", "The token lacks the scope of this route, or another site sent the request"),
    413: ("TooLarge", "The body is too large"),
    421: ("WrongHost", "The server is not known by this host name"),
    429: ("TooOften", "Too many requests; Retry-After says when to try again"),
    503: ("Away", "The store or a model is not available now; try again"),
}
_BODY: Final[Mapping[int, str]] = {
    400: "The body is not JSON",
    408: "The body did not arrive in time",
    415: "The body is not sent as application/json",
    422: "A field of the body or the query is unknown, missing or wrong",
}
_QUERY: Final = "A parameter of the query is unknown or wrong"
_RUN: Final = "/v1/runs/{id}"
_DAMAGED: Final = "The record of the run is damaged; `repair` goes on from its last good event"
_CALLS: Final = "A model, a tool or an agent failed, so that the tools or the plan are not known"
_HASH: Final = "The plan has another hash now, or the run no longer waits for a decision"
_OVER: Final = "The run is over, or another process has it"
_RUNS: Final = "The run is in another state, or another process has it"
_CONFLICTS: Final[Mapping[str, str]] = {
    "POST /v1/runs": "The conversation belongs to another program, or the plan cannot be used here",
    f"DELETE {_RUN}": "The store cannot remove runs, or another process has this one",
    f"GET {_RUN}/plan": "The run belongs to another team or folder",
    f"PUT {_RUN}/plan": "The run is over, or its plan runs",
    f"POST {_RUN}/plan/check": "The team of the run cannot be made here",
    "POST /v1/plans/check": "The team that is named cannot be made here",
    f"POST {_RUN}/undo": "There is no earlier plan, or the plan runs",
    f"GET {_RUN}/diff": "The run does not have these two plans",
    f"POST {_RUN}/decision": _HASH,
    f"POST {_RUN}/answers": "The question is not open any more, or only a person may answer it",
    f"POST {_RUN}/cancel": _OVER,
    f"POST {_RUN}/pause": _OVER,
    f"POST {_RUN}/skip": "The step has begun, or the run is over",
    f"POST {_RUN}/take-back": "The run is not over, or did nothing that a call takes back",
    f"POST {_RUN}/repair": "The run is not damaged",
    f"POST {_RUN}/template": "The run has no plan to save",
    "POST /v1/schedules": "The plan needs an approval by its hash, or cannot run unattended",
    "PATCH /v1/schedules/{id}": "The changed plan needs an approval by its hash",
    "POST /v1/tools/approve": "What was approved is not what is offered now; look at it again",
    "POST /v1/agents/approve": "The card has changed since it was shown, or there are no agents",
    "POST /v1/logout": "The client has a token, not the log-in of a browser",
}
# These name a run, a template, a tool or an agent in their body.
_NAMING: Final = frozenset(
    {
        *("POST /v1/runs", "POST /v1/schedules", "POST /v1/tools/approve"),
        *("POST /v1/agents/approve", "GET /v1/events", "POST /v1/templates"),
    }
)
# These need the list of tools, a model or an agent, which may fail.
_CALLING: Final = frozenset(
    {
        *("POST /v1/runs", f"PUT {_RUN}/plan", f"POST {_RUN}/plan/check", "POST /v1/plans/check"),
        *(f"POST {_RUN}/{verb}" for verb in ("decision", "undo", "retry", "rerun", "take-back")),
        *(f"POST {_RUN}/{verb}" for verb in ("answers", "resume", "template")),
        *("POST /v1/templates", "POST /v1/templates/{name}/runs"),
        "POST /v1/conversations/{id:path}/messages",
        "POST /v1/conversations/{id:path}/messages/{number}/undo",
        *("POST /v1/schedules", "PATCH /v1/schedules/{id}", "POST /v1/schedules/{id}/run-now"),
        *("GET /v1/inbox", "GET /v1/tools", "POST /v1/tools/approve"),
        "POST /v1/notices/{name}/test",
        *("POST /v1/model", "POST /v1/models/pull", "GET /v1/models"),
        *("GET /v1/agents", "POST /v1/agents/approve", "GET /v1/model"),
    }
)


def route_failures(method: str, path: str, *, has_body: bool, if_match: bool) -> dict[int, str]:
    """Returns the errors of a route by status, without those that every route shares."""
    name = f"{method} {path}"
    found: dict[int, str] = dict(_BODY) if has_body else {422: _QUERY}
    if "{" in path or name in _NAMING:
        found[404] = "There is no such thing, or it was removed"
    if name in _CONFLICTS:
        found[409] = _CONFLICTS[name]
    elif method != "GET" and not path.endswith("/preview"):
        found[409] = _RUNS if path.startswith(_RUN) else "It cannot be done in the present state"
    elif path.startswith((_RUN, "/v1/schedules", "/v1/templates")):
        found[409] = "The store cannot keep this, or it belongs to another team or folder"
    if path.startswith(_RUN):
        found[500] = _DAMAGED
    if name in _CALLING:
        found[502] = _CALLS
    if if_match:
        found[412] = "The plan was changed meanwhile; read it again"
        found[428] = "If-Match is missing: it names the plan that the edit changes"
    return dict(sorted(found.items()))
