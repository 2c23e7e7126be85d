"""OpenAPI: the description of the route table, made of the same models that check requests."""

from __future__ import annotations

import re
from functools import cache
from importlib.metadata import version
from typing import Any, Final

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from plansmith.server.problems import MEDIA_TYPE, ProblemBody
from plansmith.server.route import Nothing, Route

_REF: Final = "#/components/schemas/{model}"
_PARAMETER: Final = re.compile(r"\{(\w+)(?::path)?\}")
CARD: Final = "/.well-known/agent-card.json"
_ALWAYS: Final = (400, 401, 403, 404, 409, 413, 415, 421, 422, 429, 502, 503)


@cache
def openapi(routes: tuple[Route, ...]) -> dict[str, Any]:
    """The document of these routes."""
    models: set[type[BaseModel]] = {each.given for each in routes} | {ProblemBody}
    models |= {each.answer for each in routes if each.answer}
    wanted = sorted(models, key=lambda each: each.__name__)
    schemas, definitions = models_json_schema(
        [(each, "validation") for each in wanted], ref_template=_REF
    )
    known = {model.__name__: schema for (model, _), schema in schemas.items()}
    paths: dict[str, dict[str, Any]] = {}
    for each in routes:
        path = _PARAMETER.sub(r"{\1}", each.path)
        paths.setdefault(path, {})[each.method.lower()] = _operation(each, known, definitions)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Plansmith",
            "version": version("plansmith"),
            "description": "Requests become checked, approved plans, and plans become results.",
        },
        "paths": paths | _protocols(),
        "components": {
            "schemas": definitions.get("$defs", {}),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}],
    }


def _protocols() -> dict[str, Any]:
    """The routes of other protocols, which describe themselves."""
    body = {"application/json": {"schema": {"type": "object"}}}
    answers = {"default": {"description": "As the protocol says"}}
    told = {"requestBody": {"content": body}, "responses": answers, "tags": ["protocols"]}
    mcp, a2a = ({"security": [{"token": [each]}]} for each in ("mcp", "a2a"))
    card = {"responses": answers, "tags": ["protocols"], **a2a}
    return {
        "/mcp": {"post": {**told, **mcp, "operationId": "mcp", "summary": "The MCP server"}},
        "/a2a": {"post": {**told, **a2a, "operationId": "a2a", "summary": "The A2A server"}},
        CARD: {"get": {**card, "operationId": "a2a_card", "summary": "The A2A agent card"}},
    }


def _operation(route: Route, known: dict[str, Any], defined: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {
        "operationId": route.name,
        "summary": route.summary,
        "tags": [route.handler.__module__.rpartition(".")[2]],
        "parameters": [*_path(route), *_query(route, defined), *_headers(route)],
        "responses": _responses(route, known),
        "security": [{"token": [route.scope]}],
    }
    if route.has_body and route.given is not Nothing:
        content = {"application/json": {"schema": known[route.given.__name__]}}
        required = any(each.is_required() for each in route.given.model_fields.values())
        found["requestBody"] = {"required": required, "content": content}
    return found


def _path(route: Route) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in _PARAMETER.findall(route.path)
    ]


def _query(route: Route, defined: dict[str, Any]) -> list[dict[str, Any]]:
    if route.has_body or not route.given.model_fields:
        return []
    schema = defined["$defs"][route.given.__name__]
    required = schema.get("required", ())
    return [
        {"name": name, "in": "query", "required": name in required, "schema": form}
        for name, form in schema["properties"].items()
    ]


def _headers(route: Route) -> list[dict[str, Any]]:
    names = [*route.headers, *(["Idempotency-Key"] if route.method == "POST" else [])]
    return [
        {"name": name, "in": "header", "required": False, "schema": {"type": "string"}}
        for name in names
    ]


def _responses(route: Route, known: dict[str, Any]) -> dict[str, Any]:
    told: dict[str, Any] = {"description": route.summary}
    if route.status != 204:
        schema: Any = known[route.answer.__name__] if route.answer else {"type": "string"}
        told["content"] = {route.media: {"schema": schema}}
        if route.media == "text/markdown":
            told["content"] |= {kind: {"schema": {}} for kind in ("text/html", "application/json")}
    problem = {MEDIA_TYPE: {"schema": known[ProblemBody.__name__]}}
    more = (412, 428) if "If-Match" in route.headers else ()
    failures = {
        str(status): {"description": "A problem", "content": problem}
        for status in (*_ALWAYS, *more)
    }
    return {str(route.status): told, **failures}
