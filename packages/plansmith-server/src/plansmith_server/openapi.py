"""Makes the OpenAPI document from the routes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib.metadata import version
from typing import Any, Final

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from plansmith_server.api import RUN, Nothing, Route, Wait
from plansmith_server.errors import MEDIA_TYPE, ProblemBody

_PARAMETER: Final = re.compile(r"\{(\w+)(?::path)?\}")
# What every request meets before its route, or may meet in it.
_SHARED: Final[Mapping[int, str]] = {
    401: "The token is missing, wrong, revoked or over",
    403: "The token lacks the scope of this route, or another site sent the request",
    413: "The body is too large",
    421: "The server is not known by this host name",
    429: "Too many requests; Retry-After says when to try again",
    502: "A model, a tool or an agent failed, so that the tools or the plan are not known",
    503: "The store or a model is not available now; try again",
}
_BODY: Final[Mapping[int, str]] = {
    400: "The body is not JSON",
    408: "The body did not arrive in time",
    415: "The body is not sent as application/json",
    422: "A field of the body or the query is unknown, missing or wrong",
}
_IF_MATCH: Final[Mapping[int, str]] = {
    412: "The plan was changed meanwhile; read it again",
    428: "If-Match is missing: it names the plan that the edit changes",
}
# Some answers come in other forms too.
_FORMS: Final = {
    "application/x-ndjson": ("text/csv",),
    "text/markdown": ("text/html", "application/json"),
}


@cache
def openapi(routes: tuple[Route, ...]) -> dict[str, Any]:
    """Makes the OpenAPI document of these routes."""
    models: set[type[BaseModel]] = {ProblemBody, Wait}
    models |= {model for each in routes for model in (each.given, each.answer)}
    wanted = sorted(models, key=lambda each: each.__name__)
    _, definitions = models_json_schema(
        [(each, "validation") for each in wanted], ref_template="#/components/schemas/{model}"
    )
    schemas = definitions["$defs"]
    paths: dict[str, dict[str, Any]] = {}
    for each in routes:
        path = _PARAMETER.sub(r"{\1}", each.path)
        paths.setdefault(path, {})[each.method.lower()] = _operation(each, schemas)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Plansmith",
            "version": version("plansmith"),
            "description": "Turns requests into checked, approved plans and runs them.",
        },
        "paths": paths | _protocols(),
        "components": {
            "schemas": schemas,
            "responses": {f"Error{status}": _problem(why) for status, why in _SHARED.items()},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}],
    }


def _protocols() -> dict[str, Any]:
    """The routes of MCP and A2A, which are described by their protocols."""
    answers = {"default": {"description": "As the protocol says"}}
    body = {"content": {"application/json": {"schema": {"type": "object"}}}}

    def operation(name: str, summary: str, scope: str, **more: Any) -> dict[str, Any]:
        head = {"operationId": name, "summary": summary, "security": [{"token": [scope]}]}
        return {**head, "tags": ["protocols"], "responses": answers, **more}

    card = operation("a2a_card", "The A2A agent card", "a2a")
    return {
        "/mcp": {"post": operation("mcp", "The MCP server", "mcp", requestBody=body)},
        "/a2a": {"post": operation("a2a", "The A2A server", "a2a", requestBody=body)},
        "/.well-known/agent-card.json": {"get": card},
    }


def _operation(route: Route, schemas: Mapping[str, Any]) -> dict[str, Any]:
    query = route.given if not route.has_body else Wait if route.waits else Nothing
    schema = schemas[query.__name__]
    headers = (*route.headers, *(["Idempotency-Key"] if route.method == "POST" else []))
    parameters = [
        *(_parameter(name, "path", required=True) for name in _PARAMETER.findall(route.path)),
        *(
            _parameter(name, "query", form, required=name in schema.get("required", ()))
            for name, form in schema.get("properties", {}).items()
        ),
        *(_parameter(name, "header") for name in headers),
    ]
    success: dict[str, Any] = {"description": route.summary}
    if route.status != 204:
        is_json = route.media == "application/json"
        others: dict[str, Any] = {kind: {"schema": {}} for kind in _FORMS.get(route.media, ())}
        form = _ref(route.answer) if is_json else {"type": "string"}
        success["content"] = {route.media: {"schema": form}, **others}
    found: dict[str, Any] = {
        "operationId": route.name,
        "summary": route.summary,
        "tags": [route.handler.__module__.rpartition(".")[2]],
        "parameters": parameters,
        "responses": {str(route.status): success, **_failures(route)},
        "security": [] if route.is_open else [{"token": [route.scope]}],
    }
    content: dict[str, Any] = {}
    if route.takes_file:
        content = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
    elif route.has_body and route.given is not Nothing:
        [example] = schemas[route.given.__name__]["examples"]
        content = {"application/json": {"schema": _ref(route.given), "example": example}}
    if content:
        fields = route.given.model_fields.values()
        required = route.takes_file or any(each.is_required() for each in fields)
        found["requestBody"] = {"required": required, "content": content}
    return found


def _parameter(name: str, where: str, schema: Any = None, *, required: bool = False) -> Any:
    form = schema or {"type": "string"}
    return {"name": name, "in": where, "required": required, "schema": form}


def _ref(model: type[BaseModel]) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{model.__name__}"}


def _problem(why: str) -> dict[str, Any]:
    return {"description": why, "content": {MEDIA_TYPE: {"schema": _ref(ProblemBody)}}}


def _failures(route: Route) -> dict[str, Any]:
    """Describes the errors that this route can answer with; those of all routes are shared."""
    own = dict(_BODY) if route.has_body else {422: "A parameter of the query is unknown or wrong"}
    if "{" in route.path or route.has_body or {"run", "cursor"} & {*route.given.model_fields}:
        own[404] = "There is no such thing, or it was removed"
    if route.conflict or route.method != "GET":
        usual = "It cannot be done in the present state, or another process is at it"
        own[409] = route.conflict or usual
    elif route.path.startswith((RUN, "/v1/schedules", "/v1/templates")):
        own[409] = "The store cannot keep this, or it belongs to another team or folder"
    if route.path.startswith(RUN):
        own[500] = "The record of the run is damaged; `repair` goes on from its last good event"
    if "If-Match" in route.headers:
        own |= _IF_MATCH
    shared = () if route.is_open else (each for each in _SHARED if each not in own)
    refs = {str(each): {"$ref": f"#/components/responses/Error{each}"} for each in shared}
    return refs | {str(status): _problem(own[status]) for status in sorted(own)}
