"""The ASGI application: the gate, the route table, what is counted and logged, start and end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.routing import Route as WebRoute
from starlette.types import ASGIApp, Scope

from plansmith.errors import JournalDamaged, PlansmithError
from plansmith.server.doors import need_scope
from plansmith.server.gate import Gate, GateRules
from plansmith.server.heeding import heed
from plansmith.server.keys import Keys
from plansmith.server.office import Office
from plansmith.server.problems import HttpProblem, of_error, wanted_language
from plansmith.server.repeats import Repeats
from plansmith.server.route import Ask, Route
from plansmith.server.table import PAGES, ROUTES
from plansmith.server.telemetry import Spans

Resource = Callable[[], Any]


def make_app(
    office: Office,
    *,
    keys: Keys,
    rules: GateRules,
    more: Sequence[BaseRoute] = (),
    during: Sequence[Resource] = (),
    spans: Spans | None = None,
) -> ASGIApp:
    """The whole server; `more` are the routes of MCP and A2A, `during` what they hold open."""
    monotonic = office.smith.runs.journals.clock.monotonic
    desk = _Desk(office, Repeats(monotonic), spans or Spans(None))
    by_path: dict[str, list[Route]] = {}
    for each in (*ROUTES, *PAGES):
        by_path.setdefault(each.path, []).append(each)
    described = [_web_route(desk, path, routes) for path, routes in by_path.items()]
    pages = [each for each in described if each.path in ("/", "/{path:path}")]
    rest = [each for each in described if each not in pages]
    app = Starlette(
        routes=[*rest, *more, *pages],
        exception_handlers={
            HttpProblem: desk.problem,
            HTTPException: desk.refused,
            PlansmithError: desk.failed,
        },
        lifespan=partial(_lifespan, office, during, desk.spans),
    )
    app.state.routes = ROUTES
    app.state.keys = keys
    return Gate(_Watched(app, desk), keys, rules, monotonic, desk.count_refused)


def _web_route(desk: _Desk, path: str, routes: Sequence[Route]) -> WebRoute:
    by_method = {each.method: each for each in routes}

    async def endpoint(request: Request) -> Response:
        method = "GET" if request.method == "HEAD" else request.method
        return await desk.answer(by_method[method], request)

    return WebRoute(path, endpoint, methods=[*by_method])


@asynccontextmanager
async def _lifespan(
    office: Office, during: Sequence[Resource], spans: Spans, _: Starlette
) -> AsyncGenerator[None]:
    """Take up what was under way; at the end leave every run so that it can be taken up."""
    tasks = [
        asyncio.create_task(_take_up(office)),
        asyncio.create_task(_keep(office)),
        asyncio.create_task(heed(office)),
        asyncio.create_task(spans.follow(office.smith.store)),
    ]
    try:
        # Faces end first: what they tell their clients comes out of the store.
        async with AsyncExitStack() as stack:
            for each in during:
                await stack.enter_async_context(each())
            yield
            office.closing.set()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await office.conducting.close()
        await office.teams.close()
        await office.smith.close()
        office.alone.close()
        office.log.info("stopped")


async def _take_up(office: Office) -> None:
    """Go on with what was left, once no other server is there that conducts it."""
    if not office.alone.take():
        office.ready = True
        office.log.info("waiting", why="another server keeps the runs of this store")
        await office.alone.wait()
    try:
        count = await office.smith.runs.journals.patience.until_done(office.conducting.take_up)
    except PlansmithError as error:
        office.log.failure("not_taken_up", error=str(error))
        return
    office.ready = True
    office.log.info("ready", runs=count)
    await office.conducting.take_over()


async def _keep(office: Office) -> None:
    """Fire schedules, where the store keeps any."""
    try:
        await office.smith.schedules.keep()
    except PlansmithError as error:
        office.log.info("no_schedules", why=str(error))


class _Desk:
    """Answers requests by the table, and turns what goes wrong into problems."""

    def __init__(self, office: Office, repeats: Repeats, spans: Spans) -> None:
        self.office = office
        self.spans = spans
        self._repeats = repeats

    async def answer(self, route: Route, request: Request) -> Response:
        request.scope["plansmith_route"] = route.path
        grant = need_scope(request.scope, route.scope)
        do: Callable[[], Awaitable[Response]] = partial(route, Ask(self.office, request))
        key = request.headers.get("idempotency-key", "")
        if route.method != "POST" or not key:
            return await do()
        place = f"{grant.name} {request.url.path}"
        return await self._repeats.once(key, place, await request.body(), do)

    def count_refused(self, scope: Scope, status: int) -> None:
        """What the gate turns away is counted and logged too."""
        self.office.meters.count(scope["method"], "refused", status, 0.0)
        self.office.log.warning(
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
            self.office.log.failure("journal_damaged", path=request.url.path, error=str(error))
        language = wanted_language(request.headers.get("accept-language", ""))
        return of_error(error).response(language)


class _Watched:
    """Counts, times and logs each request; what nobody foresaw becomes a problem too."""

    def __init__(self, app: ASGIApp, desk: _Desk) -> None:
        self._app = app
        self._desk = desk

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        office, began, status = (
            self._desk.office,
            self._desk.office.smith.runs.journals.clock.monotonic(),
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
            office.log.failure("broke", path=scope["path"], error=repr(error))
            if status:
                raise  # half of an answer is out: the connection has to be cut
            hint = "the server's log has more"
            problem = HttpProblem(500, "broke", "something went wrong here", hint=hint)
            await problem.response()(scope, receive, send_seen)
        finally:
            seconds = office.smith.runs.journals.clock.monotonic() - began
            route = scope.get("plansmith_route", "other")
            office.meters.count(scope["method"], route, status, seconds)
            office.log.info(
                "request",
                method=scope["method"],
                path=scope["path"],
                status=status,
                ms=round(seconds * 1000, 1),
            )
