"""Defines routes as records, and makes the OpenAPI document from them."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import version
from typing import Any, Final, TypeVar, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.json_schema import models_json_schema
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from plansmith.plan.data import Json, flaws, stored_json
from plansmith.plan.events import Actor
from plansmith_server.api_examples import ANSWERS, REQUESTS
from plansmith_server.errors import (
    MEDIA_TYPE,
    HttpProblem,
    ProblemBody,
    in_reader_language,
    of_validation,
    wanted_language,
)
from plansmith_server.middleware import HEALTH, READY
from plansmith_server.state import ServerState
from plansmith_server.team.auth import Grant, grant_of

Given = TypeVar("Given", bound=BaseModel)


class Input(BaseModel):
    """The base of bodies and queries; unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Nothing(Input):
    """A body or query without fields."""


class Wait(Input):
    """How many seconds to wait until the run ends or needs a person; 0 answers at once."""

    wait: float = Field(default=0.0, ge=0, le=60)


@dataclass(frozen=True, slots=True)
class Ask:
    """One request to the API, with the server's state."""

    server_state: ServerState
    request: Request
    # Seconds that the client wants to wait for the run, on routes that offer it.
    wait_s: float = 0.0

    @property
    def grant(self) -> Grant:
        """What the client may do."""
        return grant_of(self.request.scope)

    @property
    def by(self) -> Actor:
        """The person or program that sent the request."""
        return self.grant.actor

    def path(self, name: str) -> str:
        """Returns a parameter of the path."""
        return str(self.request.path_params[name])

    @property
    def run(self) -> str:
        """The run id in the path."""
        return self.path("id")

    def header(self, name: str) -> str:
        """Returns a header, or an empty string."""
        return self.request.headers.get(name, "")

    @property
    def language(self) -> str:
        """The known language that the client prefers."""
        return wanted_language(self.header("accept-language"))


Answer = Mapping[str, Json] | Sequence[Json] | Response
Handler = Callable[[Ask, Any], Awaitable[Answer]]


@dataclass(frozen=True, slots=True)
class Route:
    """A route; `given` is the query of a GET or DELETE, and the body of other methods.

    `scope` is what a token must have to use it. One that `waits` takes the query `wait`.
    """

    method: str
    path: str
    scope: str
    handler: Handler
    summary: str
    given: type[BaseModel] = Nothing
    answer: type[BaseModel] | None = None
    status: int = 200
    media: str = "application/json"
    headers: tuple[str, ...] = ()
    # The body is a file, which the handler reads itself; `given` is the query.
    takes_file: bool = False
    waits: bool = False
    # For the document: what 409 means here, whether the body or the query names something that
    # may not exist, and whether a model, a tool or an agent is called, which may fail.
    conflict: str = ""
    names: bool = False
    calls: bool = False

    @property
    def has_body(self) -> bool:
        """Whether the input is a JSON body, not a query."""
        return self.method not in ("GET", "DELETE") and not self.takes_file

    @property
    def is_open(self) -> bool:
        """Whether anybody may use it, without a token and by any host name."""
        return self.path in (HEALTH, READY)

    @property
    def name(self) -> str:
        """The operation's name in the OpenAPI document."""
        return f"{self.handler.__module__.rpartition('.')[2]}_{self.handler.__name__}"

    @property
    def needs_team(self) -> bool:
        """Whether it needs the agents of the run's team: reading and stopping do not."""
        return self.method not in ("GET", "DELETE") and not self.path.endswith(
            ("/cancel", "/pause")
        )

    async def __call__(self, ask: Ask) -> Response:
        """Parses the request, calls the handler and makes the response."""
        given = await self._read(ask.request)
        if self.waits:
            ask = replace(ask, wait_s=_parse(Wait, _query(ask.request), "the query").wait)
        if self.path.startswith("/v1/runs/{id}"):
            server_state = await ask.server_state.for_run(ask.run, acts=self.needs_team)
            ask = replace(ask, server_state=server_state)
        answer = await self.handler(ask, given)
        if isinstance(answer, Response):
            return answer
        text = stored_json(in_reader_language(answer, ask.language))
        return Response(text, self.status, media_type="application/json")

    async def _read(self, request: Request) -> BaseModel:
        if not self.has_body:
            return _parse(self.given, _query(request), "the query")
        return _parse(self.given, await read_json(request), "the body")


def route(
    method_and_path: str,
    scope: str,
    handler: Callable[[Ask, Given], Awaitable[Answer]],
    summary: str,
    *,
    given: type[Given | Nothing] = Nothing,
    **more: Any,
) -> Route:
    """Makes a route, such as `route("GET /v1/runs", "look", runs.listing, "List runs")`."""
    method, _, path = method_and_path.partition(" ")
    return Route(method, path, scope, handler, summary, given, **more)


def _query(request: Request) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in request.query_params.multi_items():
        if name in found:
            raise HttpProblem(422, "invalid_input", f"{name[:100]!r} is given twice")
        found[name] = value
    return found


def _parse(model: type[Given], value: object, where: str) -> Given:
    flaw = next(flaws(value), None)
    if flaw is not None:
        raise HttpProblem(422, "invalid_input", f"{where}: {flaw.message}")
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise of_validation(error, where) from None


async def read_json(request: Request) -> object:
    """Parses the body as JSON; an empty body is an empty object."""
    try:
        body = await request.body()
    except ClientDisconnect:
        raise HttpProblem(400, "cut_off", "the client closed the connection") from None
    if not body:
        return {}
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        hint = "send Content-Type: application/json"
        raise HttpProblem(415, "not_json", "the body must be JSON", hint=hint)
    try:
        return cast("object", json.loads(body, parse_constant=_no_constant))
    except (ValueError, RecursionError) as error:
        why = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)[:200]
        raise HttpProblem(400, "unreadable_json", f"the body is not JSON: {why}") from None


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


_REF: Final = "#/components/schemas/{model}"
_PARAMETER: Final = re.compile(r"\{(\w+)(?::path)?\}")
CARD: Final = "/.well-known/agent-card.json"


@cache
def openapi(routes: tuple[Route, ...]) -> dict[str, Any]:
    """Makes the OpenAPI document of these routes."""
    models: set[type[BaseModel]] = {each.given for each in routes} | {ProblemBody, Wait}
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
            "description": "Turns requests into checked, approved plans and runs them.",
        },
        "paths": paths | _protocols(),
        "components": {
            "schemas": definitions.get("$defs", {}),
            "responses": _shared_failures(known),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}],
    }


def _protocols() -> dict[str, Any]:
    """The routes of MCP and A2A, which are described by their protocols."""
    body = {"application/json": {"schema": {"type": "object"}}}
    answers = {"default": {"description": "As the protocol says"}}
    operation = {"requestBody": {"content": body}, "responses": answers, "tags": ["protocols"]}
    mcp, a2a = ({"security": [{"token": [each]}]} for each in ("mcp", "a2a"))
    card = {"responses": answers, "tags": ["protocols"], **a2a}
    return {
        "/mcp": {"post": {**operation, **mcp, "operationId": "mcp", "summary": "The MCP server"}},
        "/a2a": {"post": {**operation, **a2a, "operationId": "a2a", "summary": "The A2A server"}},
        CARD: {"get": {**card, "operationId": "a2a_card", "summary": "The A2A agent card"}},
    }


def _operation(route: Route, known: dict[str, Any], defined: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {
        "operationId": route.name,
        "summary": route.summary,
        "tags": [route.handler.__module__.rpartition(".")[2]],
        "parameters": [*_path(route), *_documented_query(route, defined), *_headers(route)],
        "responses": _responses(route, known),
        "security": [] if route.is_open else [{"token": [route.scope]}],
    }
    if route.has_body and route.given is not Nothing:
        example = REQUESTS.get(route.name)
        body = {"schema": known[route.given.__name__]}
        content = {"application/json": body | ({"example": example} if example else {})}
        required = any(each.is_required() for each in route.given.model_fields.values())
        found["requestBody"] = {"required": required, "content": content}
    if route.takes_file:
        content = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
        found["requestBody"] = {"required": True, "content": content}
    return found


def _path(route: Route) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in _PARAMETER.findall(route.path)
    ]


def _documented_query(route: Route, defined: dict[str, Any]) -> list[dict[str, Any]]:
    asked = route.given if not route.has_body else Wait if route.waits else Nothing
    if not asked.model_fields:
        return []
    schema = defined["$defs"][asked.__name__]
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
    success: dict[str, Any] = {"description": route.summary}
    if route.status != 204:
        schema: Any = known[route.answer.__name__] if route.answer else {"type": "string"}
        example = ANSWERS.get(route.name)
        success["content"] = {
            route.media: {"schema": schema} | ({"example": example} if example else {})
        }
        if route.media == "application/x-ndjson":
            success["content"]["text/csv"] = {"schema": {}}
        if route.media == "text/markdown":
            success["content"] |= {
                kind: {"schema": {}} for kind in ("text/html", "application/json")
            }
    return {str(route.status): success, **_failures(route, known)}


# What every request meets before its route: the name of the shared response, and its meaning.
_SHARED: Final[Mapping[int, tuple[str, str]]] = {
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
_IF_MATCH: Final[dict[int, str]] = {
    412: "The plan was changed meanwhile; read it again",
    428: "If-Match is missing: it names the plan that the edit changes",
}
_RUN: Final = "/v1/runs/{id}"


def _failures(route: Route, known: dict[str, Any]) -> dict[str, Any]:
    """Describes the errors that this route can answer with; those of the gate are shared."""
    content = {MEDIA_TYPE: {"schema": known[ProblemBody.__name__]}}
    own = _own_failures(route)
    shared = {
        str(each): {"$ref": f"#/components/responses/{name}"}
        for each, (name, _) in _SHARED.items()
        if each not in own and not route.is_open
    }
    return shared | {
        str(status): {"description": own[status], "content": content} for status in sorted(own)
    }


def _own_failures(route: Route) -> dict[int, str]:
    found = dict(_BODY) if route.has_body else {422: "A parameter of the query is unknown or wrong"}
    if "{" in route.path or route.names:
        found[404] = "There is no such thing, or it was removed"
    if conflict := route.conflict or _usual_conflict(route):
        found[409] = conflict
    if route.path.startswith(_RUN):
        found[500] = "The record of the run is damaged; `repair` goes on from its last good event"
    if route.calls:
        found[502] = (
            "A model, a tool or an agent failed, so that the tools or the plan are not known"
        )
    return found | (_IF_MATCH if "If-Match" in route.headers else {})


def _usual_conflict(route: Route) -> str:
    of_run = route.path.startswith(_RUN)
    if route.method != "GET" and not route.path.endswith("/preview"):
        there = "The run is in another state, or another process has it"
        return there if of_run else "It cannot be done in the present state"
    if of_run or route.path.startswith(("/v1/schedules", "/v1/templates")):
        return "The store cannot keep this, or it belongs to another team or folder"
    return ""


def _shared_failures(known: dict[str, Any]) -> dict[str, Any]:
    content = {MEDIA_TYPE: {"schema": known[ProblemBody.__name__]}}
    return {name: {"description": why, "content": content} for name, why in _SHARED.values()}
