"""Builds the ASGI application: routes, middleware, start-up, shutdown, following the store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any, NamedTuple

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.routing import Route as WebRoute
from starlette.types import ASGIApp, Scope

from plansmith.errors import JournalDamaged, PlansmithError
from plansmith.plan.sentence import Sentence
from plansmith_server.errors import HttpProblem, of_error, wanted_language
from plansmith_server.middleware import GateRules, RequestGate
from plansmith_server.openapi import Ask, Route
from plansmith_server.ops.idempotency import Idempotency
from plansmith_server.ops.metrics import Spans
from plansmith_server.route_table import PAGES, ROUTES
from plansmith_server.state import ServerState
from plansmith_server.team.auth import Auth, need_scope
from plansmith_server.team.oidc_login import OidcLogin
from plansmith_server.upkeep import begin_upkeep

Resource = Callable[[], Any]


class App(NamedTuple):
    """The application of one tenant, without the gate."""

    app: ASGIApp
    refused: Callable[[Scope, int], None]
    lifespan: Callable[[], AbstractAsyncContextManager[None]]


def gated(
    app: App,
    *,
    auth: Auth,
    rules: GateRules,
    monotonic: Callable[[], float],
    login: OidcLogin | None = None,
) -> RequestGate:
    """Puts the gate before an application, whose responses are compressed."""
    # Event streams are left as they are. No other site can make a browser ask for a response, and
    # none holds a token, so that its size betrays nothing: see docs/server.md.
    small = GZipMiddleware(app.app, minimum_size=1000, compresslevel=5)
    return RequestGate(small, auth, rules, monotonic, app.refused, login)


def make_app(
    server_state: ServerState,
    *,
    auth: Auth,
    more: Sequence[BaseRoute] = (),
    during: Sequence[Resource] = (),
    spans: Spans | None = None,
) -> App:
    """Builds an application; `more` are the routes of MCP and A2A, `during` open resources."""
    monotonic = server_state.smith.runs.journals.clock.monotonic
    dispatcher = _Dispatcher(server_state, Idempotency(monotonic), spans or Spans(None))
    lifespan = partial(_lifespan, server_state, during, dispatcher.spans)
    by_path: dict[str, list[Route]] = {}
    for each in (*ROUTES, *PAGES):
        by_path.setdefault(each.path, []).append(each)
    described = [_web_route(dispatcher, path, routes) for path, routes in by_path.items()]
    pages = [each for each in described if each.path in ("/", "/{path:path}")]
    rest = [each for each in described if each not in pages]
    app = Starlette(
        routes=[*rest, *more, *pages],
        exception_handlers={
            HttpProblem: dispatcher.problem,
            HTTPException: dispatcher.refused,
            PlansmithError: dispatcher.failed,
        },
        lifespan=lambda _: lifespan(),
    )
    app.state.routes = ROUTES
    app.state.auth = auth
    return App(_Observed(app, dispatcher), dispatcher.count_refused, lifespan)


def _web_route(dispatcher: _Dispatcher, path: str, routes: Sequence[Route]) -> WebRoute:
    by_method = {each.method: each for each in routes}

    async def endpoint(request: Request) -> Response:
        method = "GET" if request.method == "HEAD" else request.method
        return await dispatcher.answer(by_method[method], request)

    return WebRoute(path, endpoint, methods=[*by_method])


@asynccontextmanager
async def _lifespan(
    server_state: ServerState, during: Sequence[Resource], spans: Spans
) -> AsyncGenerator[None]:
    """Resumes open runs at the start; at the end stops so that every run can be resumed."""
    tasks = [*begin_upkeep(server_state)]
    follow = spans.follow(server_state.smith.store, server_state.events)
    tasks.append(asyncio.create_task(follow))
    try:
        # MCP and A2A end first: they still read from the store.
        async with AsyncExitStack() as stack:
            for each in during:
                await stack.enter_async_context(each())
            yield
            server_state.closing.set()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server_state.close()
        server_state.log.info("stopped")


class _Dispatcher:
    """Calls the handler of a route; turns errors into problem+json responses."""

    def __init__(self, server_state: ServerState, idempotency: Idempotency, spans: Spans) -> None:
        self.server_state = server_state
        self.spans = spans
        self._idempotency = idempotency

    async def answer(self, route: Route, request: Request) -> Response:
        request.scope["plansmith_route"] = route.path
        grant = need_scope(request.scope, route.scope)
        handle: Callable[[], Awaitable[Response]] = partial(route, Ask(self.server_state, request))
        key = request.headers.get("idempotency-key", "")
        if route.method != "POST" or route.scope == "look" or not key:
            return await handle()
        # By the hash: the name of a token can be given again.
        place = f"{grant.token.hash if grant.token else ''} {request.url.path}"
        return await self._idempotency.once(key, place, await request.body(), handle)

    def count_refused(self, scope: Scope, status: int) -> None:
        """Counts and logs a request that the gate refused."""
        self.server_state.metrics.count(scope["method"], "refused", status, 0.0)
        self.server_state.log.warning(
            "refused", method=scope["method"], path=scope["path"], status=status
        )

    async def problem(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, HttpProblem)  # noqa: S101 - starlette calls it for this type only
        return error.response(wanted_language(request.headers.get("accept-language", "")))

    async def refused(self, _: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)  # noqa: S101 - starlette calls it for this type only
        code = {404: "not_found", 405: "no_such_method"}.get(error.status_code, "refused")
        return HttpProblem(
            error.status_code, code, str(error.detail), headers=error.headers
        ).response()

    async def failed(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, PlansmithError)  # noqa: S101 - starlette calls it for this type only
        if isinstance(error, JournalDamaged):
            self.server_state.log.failure(
                "journal_damaged", path=request.url.path, error=str(error)
            )
        language = wanted_language(request.headers.get("accept-language", ""))
        return of_error(error).response(language)


class _Observed:
    """Counts, times and logs each request; turns an unexpected error into a 500 response."""

    def __init__(self, app: ASGIApp, dispatcher: _Dispatcher) -> None:
        self._app = app
        self._dispatcher = dispatcher

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        server_state, began, status = (
            self._dispatcher.server_state,
            self._dispatcher.server_state.smith.runs.journals.clock.monotonic(),
            0,
        )

        async def send_seen(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            with self._dispatcher.spans.request(scope) as span:
                await self._app(scope, receive, send_seen)
                span(status)
        except Exception as error:
            server_state.log.failure("request_crashed", path=scope["path"], error=repr(error))
            if status:
                raise  # the response has begun: only closing the connection tells the client
            await _broken(scope)(scope, receive, send_seen)
        finally:
            seconds = server_state.smith.runs.journals.clock.monotonic() - began
            route = scope.get("plansmith_route", "other")
            server_state.metrics.count(scope["method"], route, status, seconds)
            server_state.log.info(
                "request",
                method=scope["method"],
                path=scope["path"],
                status=status,
                ms=round(seconds * 1000, 1),
            )


def _broken(scope: Any) -> Response:
    """Makes the response to a request on which the server itself failed."""
    hint = Sentence("the server's log has more")
    language = wanted_language(Headers(scope=scope).get("accept-language", ""))
    return HttpProblem(
        500, "broke", Sentence("the server failed on this request"), hint=hint
    ).response(language)
