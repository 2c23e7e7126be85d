"""Builds the ASGI application: routes, middleware, start-up, shutdown, following the store."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, Final

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.routing import Route as WebRoute
from starlette.types import Receive, Scope, Send

from plansmith.errors import JournalDamaged, PlansmithError
from plansmith.plan.sentence import Sentence
from plansmith_server import api, routes
from plansmith_server.api import Ask, Route
from plansmith_server.errors import HttpProblem, of_error, wanted_language
from plansmith_server.ops.metrics import Spans
from plansmith_server.ops.tasks import background_tasks
from plansmith_server.state import ServerState
from plansmith_server.team.auth import Auth, require_scope
from plansmith_server.upkeep import upkeep

for _module in iter_modules(routes.__path__, f"{routes.__name__}."):
    import_module(_module.name)
# The web page is served, but is not part of the API; what fits no other route is for it.
_NOT_API: Final = ("/help", "/help/{path:path}", "/", "/{path:path}")
_FOUND: Final = [each for each in api.ROUTES if each.path in _NOT_API]
PAGES: Final = tuple(sorted(_FOUND, key=lambda each: _NOT_API.index(each.path)))
ROUTES: Final = tuple(each for each in api.ROUTES if each.path not in _NOT_API)
Resource = Callable[[], Any]
# What is kept for all clients of a tenant; of whoever has the most, the oldest goes.
MAX_BYTES: Final = 16_000_000
_LARGEST_ANSWER: Final = 1_000_000
_ENTRY_BYTES: Final = 2_000
_MAX_KEY: Final = 200
_KEPT_S: Final = 24 * 3600.0


class Application:
    """Serves one store: calls the handlers of routes, turns errors into responses, counts and logs.

    `more` are the routes of MCP and A2A, `during` the resources that are open meanwhile.
    """

    def __init__(
        self,
        state: ServerState,
        *,
        auth: Auth,
        more: Sequence[BaseRoute] = (),
        during: Sequence[Resource] = (),
        spans: Spans | None = None,
    ) -> None:
        self.state, self._during, self._spans = state, during, spans or Spans(None)
        self._idempotency = Idempotency(state.clock.monotonic)
        self._app = Starlette(
            routes=[*self._routes(ROUTES), *more, *self._routes(PAGES)],
            exception_handlers={
                HttpProblem: self._failed,
                HTTPException: self._failed,
                PlansmithError: self._failed,
            },
            lifespan=lambda _: self.lifespan(),
        )
        self._app.state.routes = ROUTES
        self._app.state.auth = auth

    @asynccontextmanager
    async def lifespan(self) -> AsyncGenerator[None]:
        """Resumes open runs at the start; at the end stops so that every run can be resumed."""
        state = self.state
        works = [*upkeep(state), self._spans.follow(state.smith.store, state.events, state.clock)]
        try:
            # MCP and A2A end first: they still read from the store.
            async with background_tasks(*works), AsyncExitStack() as stack:
                for each in self._during:
                    await stack.enter_async_context(each())
                yield
                state.closing.set()
        finally:
            await state.close()
            state.log.info("stopped")

    def _routes(self, routes: Sequence[Route]) -> list[WebRoute]:
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
        grant = require_scope(request.scope, route.scope)
        handle: Callable[[], Awaitable[Response]] = partial(route, Ask(self.state, request))
        key = request.headers.get("idempotency-key", "")
        if route.method != "POST" or route.scope == "look" or not key:
            return await handle()
        # By the hash: the name of a token can be given again.
        place = f"{grant.hash} {request.url.path}"
        return await self._idempotency.once(key, place, await request.body(), handle)

    async def _failed(self, request: Request, error: Exception) -> Response:
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

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Counts, times and logs a request; turns an unexpected error into a 500 response."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        log, began, status = self.state.log, self.state.clock.monotonic(), 0
        method, path = scope["method"], scope["path"]

        async def send_seen(message: Any) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        try:
            with self._spans.request(scope) as span:
                await self._app(scope, receive, send_seen)
                span(status)
        except Exception as error:
            log.failure("request_crashed", path=path, error=repr(error))
            if status:
                raise  # the response has begun: only closing the connection tells the client
            why = Sentence("the server failed on this request")
            hint = Sentence("the server's log has more")
            language = wanted_language(Headers(scope=scope).get("accept-language", ""))
            broken = HttpProblem(500, "broke", why, hint=hint).response(language)
            await broken(scope, receive, send_seen)
        finally:
            seconds = self.state.clock.monotonic() - began
            route = scope.get("plansmith_route", "other")
            self.state.metrics.count(method, route, status, seconds)
            ms = round(seconds * 1000, 1)
            log.info("request", method=method, path=path, status=status, ms=ms)


@dataclass(slots=True)
class _StoredAnswer:
    digest: str
    at: float
    # Without a response if that was too large.
    future: asyncio.Future[tuple[int, bytes, dict[str, str]] | None]
    size: int = _ENTRY_BYTES


class Idempotency:
    """Keeps responses by key, for a day at most and no longer than the server runs."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._answers: dict[tuple[str, str], _StoredAnswer] = {}
        self._sizes: Counter[str] = Counter()  # by the client, with which a place begins

    @property
    def size(self) -> int:
        return self._sizes.total()

    async def once(
        self, key: str, place: str, body: bytes, handle: Callable[[], Awaitable[Response]]
    ) -> Response:
        """Returns the response of the first request with this key, or handles it now."""
        if len(key) > _MAX_KEY:
            why = Sentence("an Idempotency-Key has at most {count} characters", count=_MAX_KEY)
            raise HttpProblem(422, "invalid_input", why)
        digest = sha256(body).hexdigest()
        known = self._answers.get((place, key))
        if known is None or self._now() - known.at > _KEPT_S:
            return await self._first((place, key), digest, handle)
        if known.digest != digest:
            why = Sentence("this Idempotency-Key was used with another body")
            hint = Sentence("use another Idempotency-Key for another request")
            raise HttpProblem(422, "key_reused", why, hint=hint)
        answer = await asyncio.shield(known.future)
        if answer is None:
            hint = Sentence("it was handled once; read what it changed")
            why = Sentence("the response was too large to be kept")
            raise HttpProblem(409, "handled", why, hint=hint)
        status, content, headers = answer
        return Response(content, status, {**headers, "Idempotency-Replayed": "true"})

    async def _first(
        self, name: tuple[str, str], digest: str, handle: Callable[[], Awaitable[Response]]
    ) -> Response:
        self._keep(name, _StoredAnswer(digest, self._now(), asyncio.Future()))
        future = self._answers[name].future
        try:
            response = await handle()
        except BaseException as error:
            # A failed request may be repeated with the same key.
            self._keep(name, None)
            future.set_exception(error)
            future.exception()
            raise
        kind, content = response.headers.get("content-type", ""), bytes(response.body)
        whole = response.status_code, content, {"content-type": kind}
        fits = len(content) <= _LARGEST_ANSWER
        future.set_result(whole if fits else None)
        size = _ENTRY_BYTES + (len(content) if fits else 0)
        self._keep(name, _StoredAnswer(digest, self._now(), future, size))
        return response

    def _keep(self, name: tuple[str, str], kept: _StoredAnswer | None) -> None:
        """Keeps an answer, or forgets it; of whoever has the most, the oldest goes."""
        before = self._answers.pop(name, None)
        client = name[0].partition(" ")[0]
        self._sizes[client] += (kept.size if kept else 0) - (before.size if before else 0)
        if kept is not None:
            self._answers[name] = kept
        if self.size > MAX_BYTES:
            [(most, _)] = self._sizes.most_common(1)
            done = (each for each, answer in self._answers.items() if answer.future.done())
            oldest = next((each for each in done if each[0].partition(" ")[0] == most), None)
            if oldest is not None:  # else all are under way
                self._keep(oldest, None)
