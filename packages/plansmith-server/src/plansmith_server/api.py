"""Routes: what a request may bring, which scope it needs, and how it is answered."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from inspect import signature
from typing import Any, Final, TypeVar, cast, get_type_hints

from pydantic import BaseModel, Field, ValidationError, create_model
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from plansmith.app import Plansmith
from plansmith.plan.data import flaws, stored_json
from plansmith.plan.events import Actor
from plansmith.plan.sentence import Sentence
from plansmith.runs.service import RunService
from plansmith_server.bodies import Input
from plansmith_server.errors import HttpProblem, in_reader_language, of_validation, wanted_language
from plansmith_server.middleware import HEALTH, READY
from plansmith_server.state import ServerState
from plansmith_server.team.auth import grant_of
from plansmith_server.team.tokens import Token
from plansmith_server.views import Plain

RUN: Final = "/v1/runs/{id}"
Given = TypeVar("Given", bound=BaseModel)
# None is an answer without a body.
Answer = Mapping[str, Any] | Sequence[Any] | Response | None
Handler = TypeVar("Handler", bound=Callable[..., Awaitable[Answer]])


class Nothing(Input):
    """A body or query without fields."""


class Wait(Input):
    """How many seconds to wait until the run ends or needs a person; 0 answers at once."""

    wait: float = Field(default=0.0, ge=0, le=60)


@dataclass(frozen=True, slots=True)
class Ask:
    """One request to the API, with the server's state."""

    state: ServerState
    request: Request
    # Seconds that the client wants to wait for the run, on routes that offer it.
    wait_s: float = 0.0

    @property
    def smith(self) -> Plansmith:
        return self.state.smith

    @property
    def runs(self) -> RunService:
        return self.state.smith.runs

    @property
    def grant(self) -> Token:
        return grant_of(self.request.scope)

    @property
    def by(self) -> Actor:
        return self.grant.actor

    @property
    def run(self) -> str:
        return self.path("id")

    def path(self, name: str) -> str:
        return str(self.request.path_params[name])

    def header(self, name: str) -> str:
        return self.request.headers.get(name, "")

    @property
    def language(self) -> str:
        """The known language that the client prefers."""
        return wanted_language(self.header("accept-language"))

    async def run_view(self, run_id: str = "") -> Answer:
        """Returns everything about a run, that of the path or another one, as soon as wanted."""
        return await self.state.run_view(run_id or self.run, wait_s=self.wait_s)


@dataclass(frozen=True, slots=True)
class Route:
    """A route; `given` is the query of a GET or DELETE, and the body of other methods.

    `scope` is what a token must have to use it. One that `waits` takes the query `wait`; the body
    of one that `takes_file` is read by its handler. `conflict` says what 409 means here.
    """

    method: str
    path: str
    scope: str
    handler: Callable[..., Awaitable[Answer]]
    given: type[BaseModel]
    answer: type[BaseModel] = Plain
    status: int = 200
    media: str = "application/json"
    headers: tuple[str, ...] = ()
    takes_file: bool = False
    waits: bool = False
    conflict: str = ""

    @property
    def has_body(self) -> bool:
        return self.method not in ("GET", "DELETE") and not self.takes_file

    @property
    def is_open(self) -> bool:
        """Whether anybody may use it, without a token and by any host name."""
        return self.path in (HEALTH, READY)

    @property
    def name(self) -> str:
        return f"{self.handler.__module__.rpartition('.')[2]}_{self.handler.__name__}"

    @property
    def summary(self) -> str:
        return str(self.handler.__doc__).partition("\n")[0].removesuffix(".")

    @property
    def needs_team(self) -> bool:
        """Whether it needs the agents of the run's team: reading and stopping do not."""
        stops = self.path.endswith(("/cancel", "/pause"))
        return self.method not in ("GET", "DELETE") and not stops

    async def __call__(self, ask: Ask) -> Response:
        """Parses the request, calls the handler and makes the response."""
        if self.has_body:
            given = _parse(self.given, await read_json(ask.request), Sentence("the body"))
        else:
            given = _parse(self.given, _query(ask.request), Sentence("the query"))
        if self.waits:
            ask = replace(ask, wait_s=_parse(Wait, _query(ask.request), Sentence("the query")).wait)
        if self.path.startswith(RUN):
            ask = replace(ask, state=await ask.state.for_run(ask.run, acts=self.needs_team))
        named = {"given": given} if "given" in self.handler.__annotations__ else dict(given)
        answer = await self.handler(ask, **named)
        if isinstance(answer, Response):
            return answer
        if answer is None:
            return Response(status_code=self.status)
        text = stored_json(in_reader_language(answer, ask.language))
        return Response(text, self.status, media_type="application/json")


ROUTES: Final[list[Route]] = []


def route(
    where: str, scope: str, *, example: Mapping[str, Any] | None = None, **more: Any
) -> Callable[[Handler], Handler]:
    """Makes a function the handler of a route, such as `@route("GET /v1/runs", "look")`.

    What a request may bring are the fields of the model `given`, or the handler's own arguments.
    """
    method, _, path = where.partition(" ")

    def with_handler(handler: Handler) -> Handler:
        hints = get_type_hints(handler, include_extras=True)
        made = Route(method, path, scope, handler, hints.get("given", Nothing), **more)
        fields: dict[str, Any] = {
            name: (hints[name], ... if each.default is each.empty else each.default)
            for name, each in signature(handler).parameters.items()
            if each.kind is each.KEYWORD_ONLY
        }
        if fields:
            extra = {"json_schema_extra": {"examples": [example]}} if example else {}
            name = "".join(map(str.capitalize, made.name.split("_")))
            given: Any = create_model(name, __base__=Input, __cls_kwargs__=extra, **fields)
            made = replace(made, given=given)
        ROUTES.append(made)
        return handler

    return with_handler


def _query(request: Request) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in request.query_params.multi_items():
        if name in found:
            why = Sentence("'{name}' is given twice", name=name[:100])
            raise HttpProblem(422, "invalid_input", why)
        found[name] = value
    return found


def _parse(model: type[Given], value: object, where: str) -> Given:
    flaw = next(flaws(value), None)
    if flaw is not None:
        why = Sentence("{where}: {rule}", where=where, rule=flaw.message)
        raise HttpProblem(422, "invalid_input", why)
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise of_validation(error, where) from None


async def read_json(request: Request) -> object:
    """Parses the body as JSON; an empty body is an empty object."""

    def refuse(name: str) -> object:
        raise ValueError(f"{name} is not JSON")

    try:
        body = await request.body()
    except ClientDisconnect:
        why = Sentence("the client closed the connection")
        raise HttpProblem(400, "cut_off", why) from None
    if not body:
        return {}
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        hint = Sentence("send Content-Type: application/json")
        raise HttpProblem(415, "not_json", Sentence("the body must be JSON"), hint=hint)
    try:
        return cast("object", json.loads(body, parse_constant=refuse))
    except (ValueError, RecursionError) as error:
        too_deep = isinstance(error, RecursionError)
        reason = Sentence("it is nested too deeply") if too_deep else str(error)[:200]
        why = Sentence("the body is not JSON: {reason}", reason=reason)
        raise HttpProblem(400, "unreadable_json", why) from None
