"""The ASGI application: middleware, routes, start and end; heeds decisions of other processes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any, Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.routing import Route as WebRoute
from starlette.types import ASGIApp, Scope

from plansmith.errors import JournalDamaged, PlansmithError
from plansmith.plan import events as e
from plansmith.plan.next_move import goes_on
from plansmith.ports import News
from plansmith.server.auth import Auth, need_scope
from plansmith.server.errors import HttpProblem, of_error, wanted_language
from plansmith.server.middleware import GateRules, RequestGate
from plansmith.server.openapi import Ask, Route
from plansmith.server.ops.idempotency import Idempotency
from plansmith.server.ops.metrics import Spans
from plansmith.server.route_table import PAGES, ROUTES
from plansmith.server.state import ServerState

_BATCH: Final = 500
_AGAIN_S: Final = 1.0
# Who decides may run it at once, as `plansmith approve --run` does: that one comes first.
GRACE_S: Final = 0.5
_WORDS: Final = (e.PlanApproved, e.QuestionAnswered, e.RunResumed)


async def follow_decisions(server_state: ServerState) -> None:
    """Follow the store, and take runs of this server on after a word from elsewhere."""
    store, after = server_state.smith.store, -1
    waiting: set[asyncio.Task[None]] = set()
    try:
        while True:
            try:
                after = await store.wait_news(-1) if after < 0 else after
                news = await store.news(after, limit=_BATCH)
                for run, number in await _words(server_state, news):
                    task = asyncio.create_task(_take_on(server_state, run, number))
                    waiting.add(task)
                    task.add_done_callback(waiting.discard)
                after = news[-1].position if news else after
                if not news:
                    await store.wait_news(after)
            except PlansmithError as error:
                server_state.log.warning("not_heeded", error=str(error))
                await server_state.smith.runs.journals.clock.sleep(_AGAIN_S)
    finally:
        for task in waiting:
            task.cancel()


async def _words(server_state: ServerState, news: Sequence[News]) -> list[tuple[str, int]]:
    """The runs to which somebody said something, each with the number of the last such event."""
    firsts: dict[str, int] = {}
    for each in news:
        if server_state.background.knows(each.run):
            firsts.setdefault(each.run, each.number)
    found: dict[str, int] = {}
    for run, first in firsts.items():
        for event in await server_state.smith.store.events(run, after=first - 1):
            if event.by.speaks and isinstance(event.body, _WORDS):
                found[run] = event.number
    return [*found.items()]


async def _take_on(server_state: ServerState, run_id: str, number: int) -> None:
    """Take a run on if whoever spoke did not: nothing has happened to it but words since."""
    await server_state.smith.runs.journals.clock.sleep(GRACE_S)
    try:
        journal = await server_state.smith.runs.journals.load(run_id)
    except PlansmithError as error:
        server_state.log.warning("not_heeded", run=run_id, error=str(error))
        return
    # Who answers a question about the request plans by itself: that takes as long as a model.
    spoken = all(event.by.speaks for event in journal.events[number - 1 :])
    if spoken and journal.run.plan is not None and goes_on(journal.run):
        server_state.background.go_on(run_id)


Resource = Callable[[], Any]


def make_app(
    server_state: ServerState,
    *,
    keys: Auth,
    rules: GateRules,
    more: Sequence[BaseRoute] = (),
    during: Sequence[Resource] = (),
    spans: Spans | None = None,
) -> ASGIApp:
    """The whole server; `more` are the routes of MCP and A2A, `during` what they hold open."""
    monotonic = server_state.smith.runs.journals.clock.monotonic
    intake = _Dispatcher(server_state, Idempotency(monotonic), spans or Spans(None))
    by_path: dict[str, list[Route]] = {}
    for each in (*ROUTES, *PAGES):
        by_path.setdefault(each.path, []).append(each)
    described = [_web_route(intake, path, routes) for path, routes in by_path.items()]
    pages = [each for each in described if each.path in ("/", "/{path:path}")]
    rest = [each for each in described if each not in pages]
    app = Starlette(
        routes=[*rest, *more, *pages],
        exception_handlers={
            HttpProblem: intake.problem,
            HTTPException: intake.refused,
            PlansmithError: intake.failed,
        },
        lifespan=partial(_lifespan, server_state, during, intake.spans),
    )
    app.state.routes = ROUTES
    app.state.keys = keys
    return RequestGate(_Watched(app, intake), keys, rules, monotonic, intake.count_refused)


def _web_route(intake: _Dispatcher, path: str, routes: Sequence[Route]) -> WebRoute:
    by_method = {each.method: each for each in routes}

    async def endpoint(request: Request) -> Response:
        method = "GET" if request.method == "HEAD" else request.method
        return await intake.answer(by_method[method], request)

    return WebRoute(path, endpoint, methods=[*by_method])


@asynccontextmanager
async def _lifespan(
    server_state: ServerState, during: Sequence[Resource], spans: Spans, _: Starlette
) -> AsyncGenerator[None]:
    """Take up what was under way; at the end leave every run so that it can be taken up."""
    tasks = [
        asyncio.create_task(_take_up(server_state)),
        asyncio.create_task(_keep(server_state)),
        asyncio.create_task(follow_decisions(server_state)),
        asyncio.create_task(spans.follow(server_state.smith.store)),
    ]
    try:
        # Faces end first: what they tell their clients comes out of the store.
        async with AsyncExitStack() as stack:
            for each in during:
                await stack.enter_async_context(each())
            yield
            server_state.closing.set()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server_state.background.close()
        await server_state.teams.close()
        await server_state.smith.close()
        server_state.alone.close()
        server_state.log.info("stopped")


async def _take_up(server_state: ServerState) -> None:
    """Go on with what was left, once no other server is there that conducts it."""
    if not server_state.alone.take():
        server_state.ready = True
        server_state.log.info("waiting", why="another server keeps the runs of this store")
        await server_state.alone.wait()
    try:
        count = await server_state.smith.runs.journals.patience.until_done(
            server_state.background.take_up
        )
    except PlansmithError as error:
        server_state.log.failure("not_taken_up", error=str(error))
        return
    server_state.ready = True
    server_state.log.info("ready", runs=count)
    await server_state.background.take_over()


async def _keep(server_state: ServerState) -> None:
    """Fire schedules, where the store keeps any."""
    try:
        await server_state.smith.schedules.keep()
    except PlansmithError as error:
        server_state.log.info("no_schedules", why=str(error))


class _Dispatcher:
    """Answers requests by the table, and turns what goes wrong into problems."""

    def __init__(self, server_state: ServerState, repeats: Idempotency, spans: Spans) -> None:
        self.server_state = server_state
        self.spans = spans
        self._repeats = repeats

    async def answer(self, route: Route, request: Request) -> Response:
        request.scope["plansmith_route"] = route.path
        grant = need_scope(request.scope, route.scope)
        do: Callable[[], Awaitable[Response]] = partial(route, Ask(self.server_state, request))
        key = request.headers.get("idempotency-key", "")
        if route.method != "POST" or not key:
            return await do()
        place = f"{grant.name} {request.url.path}"
        return await self._repeats.once(key, place, await request.body(), do)

    def count_refused(self, scope: Scope, status: int) -> None:
        """What the gate turns away is counted and logged too."""
        self.server_state.meters.count(scope["method"], "refused", status, 0.0)
        self.server_state.log.warning(
            "refused", method=scope["method"], path=scope["path"], status=status
        )

    async def problem(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, HttpProblem)  # noqa: S101 - starlette asks by this type
        return error.response(wanted_language(request.headers.get("accept-language", "")))

    async def refused(self, _: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)  # noqa: S101 - starlette asks by this type
        code = {404: "not_found", 405: "no_such_method"}.get(error.status_code, "refused")
        return HttpProblem(
            error.status_code, code, str(error.detail), headers=error.headers
        ).response()

    async def failed(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, PlansmithError)  # noqa: S101 - starlette asks by this type
        if isinstance(error, JournalDamaged):
            self.server_state.log.failure(
                "journal_damaged", path=request.url.path, error=str(error)
            )
        language = wanted_language(request.headers.get("accept-language", ""))
        return of_error(error).response(language)


class _Watched:
    """Counts, times and logs each request; what nobody foresaw becomes a problem too."""

    def __init__(self, app: ASGIApp, intake: _Dispatcher) -> None:
        self._app = app
        self._desk = intake

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        server_state, began, status = (
            self._desk.server_state,
            self._desk.server_state.smith.runs.journals.clock.monotonic(),
            0,
        )

        async def send_seen(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            with self._desk.spans.request(scope) as span:
                await self._app(scope, receive, send_seen)
                span(status)
        except Exception as error:
            server_state.log.failure("broke", path=scope["path"], error=repr(error))
            if status:
                raise  # half of an answer is out: the connection has to be cut
            hint = "the server's log has more"
            problem = HttpProblem(500, "broke", "something went wrong here", hint=hint)
            await problem.response()(scope, receive, send_seen)
        finally:
            seconds = server_state.smith.runs.journals.clock.monotonic() - began
            route = scope.get("plansmith_route", "other")
            server_state.meters.count(scope["method"], route, status, seconds)
            server_state.log.info(
                "request",
                method=scope["method"],
                path=scope["path"],
                status=status,
                ms=round(seconds * 1000, 1),
            )
