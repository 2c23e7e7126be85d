"""Route: one line of the route table: how it is asked, with what, what it answers, who does it."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar, cast

from pydantic import BaseModel, ConfigDict, ValidationError
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from plansmith.plan.data import Json, flaws
from plansmith.plan.events import Actor
from plansmith.server.keys import Grant, grant_of
from plansmith.server.office import Office
from plansmith.server.problems import (
    HttpProblem,
    in_reader_language,
    of_validation,
    wanted_language,
)

Given = TypeVar("Given", bound=BaseModel)


class Input(BaseModel):
    """What a client may say; anything else is told, not ignored."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Nothing(Input):
    """No fields."""


@dataclass(frozen=True, slots=True)
class Ask:
    """One request, read and checked."""

    office: Office
    request: Request

    @property
    def grant(self) -> Grant:
        """What the client's token or log-in allows."""
        return grant_of(self.request.scope)

    @property
    def by(self) -> Actor:
        """Who asks: a person, or a program."""
        return self.grant.actor

    def path(self, name: str) -> str:
        """A part of the path."""
        return str(self.request.path_params[name])

    @property
    def run(self) -> str:
        """The run that is meant."""
        return self.path("id")

    def header(self, name: str) -> str:
        """A header, or nothing."""
        return self.request.headers.get(name, "")

    @property
    def language(self) -> str:
        """The language that the client asks for, of those there are texts in."""
        return wanted_language(self.header("accept-language"))


Answer = Mapping[str, Json] | Sequence[Json] | Response
Handler = Callable[[Ask, Any], Awaitable[Answer]]


@dataclass(frozen=True, slots=True)
class Route:
    """A line of the table; `given` is the query of a GET or DELETE and the body of the others.

    `scope` is what a token needs to be allowed to use it.
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

    @property
    def has_body(self) -> bool:
        """Whether what is given comes as a body."""
        return self.method not in ("GET", "DELETE")

    @property
    def name(self) -> str:
        """The operation's name in the OpenAPI document."""
        return f"{self.handler.__module__.rpartition('.')[2]}_{self.handler.__name__}"

    @property
    def needs_team(self) -> bool:
        """Whether it works on a run with the run's own agents, and does not look or stop."""
        return self.method not in ("GET", "DELETE") and not self.path.endswith(
            ("/cancel", "/pause")
        )

    async def __call__(self, ask: Ask) -> Response:
        """Read the request, do it, write the response."""
        given = await self._read(ask.request)
        if self.path.startswith("/v1/runs/{id}"):
            office = await ask.office.for_run(ask.run, acts=self.needs_team)
            ask = replace(ask, office=office)
        answer = await self.handler(ask, given)
        if isinstance(answer, Response):
            return answer
        return JSONResponse(in_reader_language(answer, ask.language), self.status)

    async def _read(self, request: Request) -> BaseModel:
        if not self.has_body:
            return _parse(self.given, _query(request), "the query")
        return _parse(self.given, await read_json(request), "the body")


def route(
    how: str,
    scope: str,
    handler: Callable[[Ask, Given], Awaitable[Answer]],
    summary: str,
    *,
    given: type[Given | Nothing] = Nothing,
    **more: Any,
) -> Route:
    """A line of the table, such as `route("GET /v1/runs", "look", runs.listing, "List runs")`."""
    method, _, path = how.partition(" ")
    return Route(method, path, scope, handler, summary, given, **more)


def _query(request: Request) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in request.query_params.multi_items():
        if name in found:
            raise HttpProblem(422, "invalid_input", f"{name[:100]!r} is given twice")
        found[name] = value
    return found


def _parse(model: type[BaseModel], value: object, where: str) -> BaseModel:
    flaw = next(flaws(value), None)
    if flaw is not None:
        raise HttpProblem(422, "invalid_input", f"{where}: {flaw.message}")
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise of_validation(error, where) from None


async def read_json(request: Request) -> object:
    """The body as JSON; an empty one is an empty object."""
    try:
        body = await request.body()
    except ClientDisconnect:
        raise HttpProblem(400, "cut_off", "the client went away") from None
    if not body:
        return {}
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        hint = "send Content-Type: application/json"
        raise HttpProblem(415, "not_json", "only JSON bodies are read", hint=hint)
    try:
        return cast("object", json.loads(body, parse_constant=_no_constant))
    except (ValueError, RecursionError) as error:
        told = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)[:200]
        raise HttpProblem(400, "unreadable_json", f"the body is not JSON: {told}") from None


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")
