"""Builds the ASGI application: routes, middleware, start-up, shutdown, following the store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any, Final, NamedTuple

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.routing import Route as WebRoute
from starlette.types import ASGIApp, Scope

from plansmith.errors import JournalDamaged, PlansmithError
from plansmith.housekeeping import prune, read_age
from plansmith.plan import events as e
from plansmith.plan.next_move import goes_on
from plansmith.ports import News
from plansmith.server.auth import Auth, need_scope
from plansmith.server.errors import HttpProblem, of_error, wanted_language
from plansmith.server.middleware import GateRules, RequestGate
from plansmith.server.oidc_login import OidcLogin
from plansmith.server.openapi import Ask, Route
from plansmith.server.ops.idempotency import Idempotency
from plansmith.server.ops.metrics import Spans
from plansmith.server.route_table import PAGES, ROUTES
from plansmith.server.state import ServerState

_DAY_S: Final = 86_400.0
_BATCH: Final = 500
_AGAIN_S: Final = 1.0
# `plansmith approve --run` decides and then runs the plan itself: give it time to start.
GRACE_S: Final = 0.5
_DECISIONS: Final = (
    *(e.PlanApproved, e.QuestionAnswered, e.RunResumed),
    *(e.ChangesAsked, e.CancelAsked),  # the process that wrote one may have ended right after it
)
# Whoever writes one of these does nothing more about the run.
_INSTRUCTIONS: Final = (e.RunResumed, e.CancelAsked)


async def _carry_runs(server_state: ServerState) -> None:
    """Resumes open runs, and continues them when other processes decide about them."""
    # Taken before the runs are read: of what is decided from here on, nothing is missed.
    after = await _newest_position(server_state)
    await asyncio.gather(_resume_open_runs(server_state), _follow_decisions(server_state, after))


async def _newest_position(server_state: ServerState) -> int:
    """Returns the position of the newest event, as soon as the store tells it."""
    while True:
        try:
            return await server_state.smith.store.wait_news(-1)
        except PlansmithError as error:
            server_state.log.warning("decision_not_followed", error=str(error))
            await server_state.smith.runs.journals.clock.sleep(_AGAIN_S)


async def _follow_decisions(server_state: ServerState, after: int) -> None:
    """Continues runs of this server when another process decides about them after a position."""
    store = server_state.smith.store
    waiting: set[asyncio.Task[None]] = set()
    try:
        while True:
            try:
                news = await store.news(after, limit=_BATCH)
                for run, number in await _decided(server_state, news):
                    task = asyncio.create_task(_continue_run(server_state, run, number))
                    waiting.add(task)
                    task.add_done_callback(waiting.discard)
                after = news[-1].position if news else after
                if not news:
                    await store.wait_news(after)
            except PlansmithError as error:
                server_state.log.warning("decision_not_followed", error=str(error))
                await server_state.smith.runs.journals.clock.sleep(_AGAIN_S)
    finally:
        for task in waiting:
            task.cancel()


async def _decided(server_state: ServerState, news: Sequence[News]) -> list[tuple[str, int]]:
    """Returns the runs that were decided on, each with the number of the last such event."""
    firsts: dict[str, int] = {}
    for each in news:
        if server_state.background.knows(each.run):
            firsts.setdefault(each.run, each.number)
    found: dict[str, int] = {}
    for run, first in firsts.items():
        for event in await server_state.smith.store.events(run, after=first - 1):
            if event.by.speaks and isinstance(event.body, _DECISIONS):
                found[run] = event.number
    return [*found.items()]


async def _continue_run(server_state: ServerState, run_id: str, number: int) -> None:
    """Continues a run unless the process that decided on it has done so already."""
    await server_state.smith.runs.journals.clock.sleep(GRACE_S)
    try:
        journals = server_state.smith.runs.journals
        journal = await journals.patience.until_done(partial(journals.load, run_id))
    except PlansmithError as error:
        server_state.log.warning("decision_not_followed", run=run_id, error=str(error))
        return
    since = journal.events[number - 1 :]
    untouched = all(event.by.speaks for event in since)
    # A process that answers a question about the request makes the plan itself, which takes long.
    plans = journal.run.plan is None and not isinstance(since[0].body, _INSTRUCTIONS)
    if untouched and not plans and goes_on(journal.run):
        server_state.background.go_on(run_id)


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
    """Puts the gate before an application."""
    return RequestGate(app.app, auth, rules, monotonic, app.refused, login)


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
    works = [*background_work(server_state), spans.follow(server_state.smith.store)]
    tasks = [asyncio.create_task(each) for each in works]
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
        await server_state.background.close()
        await server_state.teams.close()
        await server_state.smith.close()
        server_state.leader.close()
        server_state.log.info("stopped")


def background_work(server_state: ServerState) -> list[Coroutine[Any, Any, None]]:
    """Returns what a server does unasked: resumes runs, fires schedules, follows decisions."""
    return [
        _carry_runs(server_state),
        _fire_schedules(server_state),
        prune_daily(server_state),
    ]


async def _resume_open_runs(server_state: ServerState) -> None:
    """Resumes open runs as soon as no other server on this store does so."""
    if not server_state.leader.take():
        server_state.ready = True
        server_state.log.info("waiting", why="another server runs the open runs of this store")
        await server_state.leader.wait()
    try:
        count = await server_state.smith.runs.journals.patience.until_done(
            server_state.background.resume_open
        )
    except PlansmithError as error:
        server_state.log.failure("runs_not_resumed", error=str(error))
        return
    server_state.ready = True
    server_state.log.info("ready", runs=count)
    await asyncio.gather(_sum_up(server_state), server_state.background.adopt_orphans())


async def _sum_up(server_state: ServerState) -> None:
    """Makes the summaries that an earlier release did not make."""
    try:
        smith = server_state.smith
        await smith.runs.journals.patience.until_done(smith.runs.lists.sum_up)
    except PlansmithError as error:
        server_state.log.warning("runs_not_summed_up", error=str(error))


async def _fire_schedules(server_state: ServerState) -> None:
    """Fires schedules, if the store can keep them, as long as no other server here does so."""
    journals = server_state.smith.runs.journals
    try:
        await journals.patience.until_done(journals.owners.serve)
        while True:
            async with journals.owners.role(f"schedules {journals.folder}") as lost:
                server_state.log.info("fires_schedules")
                await _until_lost(server_state.smith.schedules.keep(), lost)
    except PlansmithError as error:
        server_state.log.info("no_schedules", why=str(error))


async def prune_daily(server_state: ServerState) -> None:
    """Removes runs that ended too long ago, at the start and once a day; one server does it."""
    if not server_state.settings.keep_runs:
        return
    owners = server_state.smith.runs.journals.owners
    while True:
        async with owners.role("housekeeping") as lost:
            await _until_lost(_prune_each_day(server_state), lost)


async def _prune_each_day(server_state: ServerState) -> None:
    age, clock = read_age(server_state.settings.keep_runs), server_state.smith.runs.clock
    while True:
        try:
            old = await prune(server_state.smith, clock.now() - age)
            server_state.log.info("pruned", runs=len(old.runs), bytes=old.bytes)
        except PlansmithError as error:
            server_state.log.warning("not_pruned", error=str(error))
        await clock.sleep(_DAY_S)


async def _until_lost(work: Coroutine[Any, Any, None], lost: asyncio.Event) -> None:
    """Does work of a role until it fails, or the role is lost to another server."""
    doing = asyncio.create_task(work)
    tasks: list[asyncio.Task[Any]] = [doing, asyncio.create_task(lost.wait())]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if doing.done():
            doing.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


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
        if route.method != "POST" or not key:
            return await handle()
        place = f"{grant.name} {request.url.path}"
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
            hint = "the server's log has more"
            problem = HttpProblem(500, "broke", "the server failed on this request", hint=hint)
            await problem.response()(scope, receive, send_seen)
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
