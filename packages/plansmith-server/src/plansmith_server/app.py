"""Builds the ASGI application: routes, middleware, start-up, shutdown, following the store."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any, Final

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.routing import Route as WebRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from plansmith.errors import JournalDamaged, PlansmithError
from plansmith.plan.sentence import Sentence
from plansmith_server import api
from plansmith_server.api import Ask, Route
from plansmith_server.errors import HttpProblem, of_error, wanted_language
from plansmith_server.ops.idempotency import Idempotency
from plansmith_server.ops.metrics import Spans
from plansmith_server.ops.tasks import beside
from plansmith_server.state import ServerState
from plansmith_server.team.auth import Auth, need_scope
from plansmith_server.team.tenants import App
from plansmith_server.upkeep import upkeep

for _name in (
    *("conversations", "decisions", "documentation", "events", "files", "folder", "models"),
    *("plans", "runs", "schedules", "server", "templates", "tools"),
):
    import_module(f"plansmith_server.routes.{_name}")
# The web page is served, but is not part of the API; what fits no other route is for it.
_NOT_API: Final = ("/help", "/help/{path:path}", "/", "/{path:path}")
_FOUND: Final = [each for each in api.ROUTES if each.path in _NOT_API]
PAGES: Final = tuple(sorted(_FOUND, key=lambda each: _NOT_API.index(each.path)))
ROUTES: Final = tuple(each for each in api.ROUTES if each.path not in _NOT_API)
Resource = Callable[[], Any]


def make_app(
    state: ServerState,
    *,
    auth: Auth,
    more: Sequence[BaseRoute] = (),
    during: Sequence[Resource] = (),
    spans: Spans | None = None,
) -> App:
    """Builds an application; `more` are the routes of MCP and A2A, `during` open resources."""
    handling = _Handling(state, Idempotency(state.clock.monotonic), spans or Spans(None))
    lifespan = partial(_lifespan, state, during, handling.spans)
    app = Starlette(
        routes=[*handling.routes(ROUTES), *more, *handling.routes(PAGES)],
        exception_handlers={
            HttpProblem: handling.failed,
            HTTPException: handling.failed,
            PlansmithError: handling.failed,
        },
        lifespan=lambda _: lifespan(),
    )
    app.state.routes = ROUTES
    app.state.auth = auth
    return App(partial(handling.observed, app), handling.count_refused, lifespan, state.closing)


@asynccontextmanager
async def _lifespan(
    state: ServerState, during: Sequence[Resource], spans: Spans
) -> AsyncGenerator[None]:
    """Resumes open runs at the start; at the end stops so that every run can be resumed."""
    works = [*upkeep(state), spans.follow(state.smith.store, state.events, state.clock)]
    try:
        # MCP and A2A end first: they still read from the store.
        async with beside(*works), AsyncExitStack() as stack:
            for each in during:
                await stack.enter_async_context(each())
            yield
            state.closing.set()
    finally:
        await state.close()
        state.log.info("stopped")


@dataclass(slots=True)
class _Handling:
    """Calls the handlers of routes, turns errors into responses, counts and logs requests."""

    state: ServerState
    idempotency: Idempotency
    spans: Spans

    def routes(self, routes: Sequence[Route]) -> list[WebRoute]:
        by_path: dict[str, dict[str, Route]] = {}
        for each in routes:
            by_path.setdefault(each.path, {})[each.method] = each
        return [
            WebRoute(path, partial(self._answer, methods), methods=[*methods])
            for path, methods in by_path.items()
        ]

    async def _answer(self, methods: dict[str, Route], request: Request) -> Response:
        route = methods["GET" if request.method == "HEAD" else request.method]
        request.scope["plansmith_route"] = route.path
        grant = need_scope(request.scope, route.scope)
        handle: Callable[[], Awaitable[Response]] = partial(route, Ask(self.state, request))
        key = request.headers.get("idempotency-key", "")
        if route.method != "POST" or route.scope == "look" or not key:
            return await handle()
        # By the hash: the name of a token can be given again.
        place = f"{grant.token.hash if grant.token else ''} {request.url.path}"
        return await self.idempotency.once(key, place, await request.body(), handle)

    async def failed(self, request: Request, error: Exception) -> Response:
        """Turns an error into a response in the client's language."""
        if isinstance(error, HTTPException):
            code, why = {
                404: ("not_found", Sentence("there is nothing at this address")),
                405: ("no_such_method", Sentence("this address has no such method")),
            }.get(error.status_code, ("refused", str(error.detail)))
            error = HttpProblem(error.status_code, code, why, headers=error.headers)
        if isinstance(error, JournalDamaged):
            self.state.log.failure("journal_damaged", path=request.url.path, error=str(error))
        if isinstance(error, PlansmithError):
            error = of_error(error)
        assert isinstance(error, HttpProblem)  # noqa: S101 - starlette calls it for these only
        return error.response(wanted_language(request.headers.get("accept-language", "")))

    def count_refused(self, scope: Scope, status: int) -> None:
        method, path = scope["method"], scope["path"]
        self.state.metrics.count(method, "refused", status, 0.0)
        self.state.log.warning("refused", method=method, path=path, status=status)

    async def observed(self, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        """Counts, times and logs a request; turns an unexpected error into a 500 response."""
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        log, began, status = self.state.log, self.state.clock.monotonic(), 0
        method, path = scope["method"], scope["path"]

        async def send_seen(message: Any) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        try:
            with self.spans.request(scope) as span:
                await app(scope, receive, send_seen)
                span(status)
        except Exception as error:
            log.failure("request_crashed", path=path, error=repr(error))
            if status:
                raise  # the response has begun: only closing the connection tells the client
            why, hint = (
                Sentence("the server failed on this request"),
                Sentence("the server's log has more"),
            )
            language = wanted_language(Headers(scope=scope).get("accept-language", ""))
            broken = HttpProblem(500, "broke", why, hint=hint).response(language)
            await broken(scope, receive, send_seen)
        finally:
            seconds = self.state.clock.monotonic() - began
            route = scope.get("plansmith_route", "other")
            self.state.metrics.count(method, route, status, seconds)
            ms = round(seconds * 1000, 1)
            log.info("request", method=method, path=path, status=status, ms=ms)
