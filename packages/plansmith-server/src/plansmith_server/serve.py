"""Starts a server or a worker from its settings: listens, limits connections, ends gracefully."""

from __future__ import annotations

import asyncio
import getpass
import os
import signal
import socket
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, Final, Unpack, cast

import uvicorn
from starlette.middleware.gzip import GZipMiddleware
from starlette.routing import BaseRoute, Route

from plansmith.arguments import Parts
from plansmith.clock import SystemClock
from plansmith.errors import Misconfigured
from plansmith.plan.sentence import Sentence
from plansmith.protected_files import protect
from plansmith.secrets import SecretBox
from plansmith.store_ports import ProcessInfo
from plansmith_planner.make import make_model
from plansmith_server.app import Application
from plansmith_server.background import BackgroundRuns, RunCarrier
from plansmith_server.connections import Connection, most_connections
from plansmith_server.errors import HttpProblem
from plansmith_server.middleware import GateRules, RequestGate, host_names, is_loopback
from plansmith_server.news import ConversationNews, Drafts, EventReader
from plansmith_server.ops.logs import Log, watched_loop
from plansmith_server.ops.metrics import Metrics, Spans, tracer
from plansmith_server.ops.tasks import end
from plansmith_server.ports import Wiring
from plansmith_server.settings import Serve, require_server
from plansmith_server.state import ModelSwitch, OpenRuns, ServerState
from plansmith_server.team.auth import Auth, load_token, with_scope
from plansmith_server.team.notices import Notices
from plansmith_server.team.tenant_book import Tenant, TenantBook
from plansmith_server.team.tokens import TokenFile
from plansmith_server.tenants import Tenants, TenantSwitch
from plansmith_server.upkeep import sending_notices, upkeep
from plansmith_server.worker import Left, Worker, executing_runs

if TYPE_CHECKING:
    from plansmith_server.team.oidc import OidcClient, OidcLogin

BACKLOG: Final = 128
_PROTOCOLS: Final = {
    "mcp": ("plansmith_server.protocols.mcp:mcp_routes", ("/mcp",)),
    "a2a": ("plansmith_server.protocols.a2a:a2a_routes", ("/a2a", "/.well-known/agent-card.json")),
}


def protocol_routes(state: ServerState, base: str) -> tuple[list[BaseRoute], list[Any]]:
    """Returns the routes of MCP and A2A and their resources; one without its extra says so."""
    routes: list[BaseRoute] = []
    during: list[Any] = []
    for extra, (dotted, paths) in _PROTOCOLS.items():
        try:
            make = resolve_name(dotted)
        except ModuleNotFoundError:
            hint = f"pip install packages/* 'plansmith[{extra}]'"
            lacking = HttpProblem(501, "not_installed", f"{extra} is not installed", hint=hint)
            # A response without state is an application of its own.
            routes += [Route(path, lacking.response()) for path in paths]
            continue
        found, held = make(state, base)
        routes += [with_scope(each, extra) for each in found]
        during += held
    return routes, during


_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


def make_state(
    wiring: Wiring, *, log: Log, by: str = "", engine: str = "", **parts: Unpack[Parts]
) -> ServerState:
    """Makes the state of a server; the given parts replace those of the settings.

    With an `engine` it sends runs to workers instead of executing them.
    """
    settings, clock = wiring.settings, parts.setdefault("clock", SystemClock())
    drafts = Drafts(clock, lambda text: log.info("planning", text=text))
    own_model = parts.get("model")
    model = own_model or make_model(settings.models.plan, clock=clock, tell=drafts.tell)
    models = ModelSwitch(model, settings.models.plan, clock, is_given=own_model is not None)
    registry = wiring.make_agents()
    parts.setdefault("agents", registry.agents() if registry else [])
    parts |= {"tell": drafts.tell, "model": drafts.observed(models)}
    smith = wiring.make_smith(**parts)
    teams = wiring.make_teams(smith, tell=drafts.tell, model=own_model)
    carrier = None
    if engine:
        url, folder = settings.store_url(), smith.runs.journals.folder
        carrier = RunCarrier(require_server(url).run_queue(url, folder), clock=clock, log=log)
    return ServerState(
        smith=smith,
        teams=teams,
        carrier=carrier,
        wiring=wiring,
        drafts=drafts,
        background=BackgroundRuns(smith, teams=teams, drafts=drafts, log=log, carrier=carrier),
        log=log,
        metrics=Metrics(),
        open_runs=OpenRuns(smith),
        events=EventReader(smith.store),
        conversations=ConversationNews(smith),
        by=by or getpass.getuser(),
        notices=Notices(
            settings.notices, secrets=SecretBox(settings.secrets), clock=clock, log=log
        ),
        registry=registry,
        models=models,
    )


def bind(serve: Serve) -> socket.socket:
    """Opens the listening socket; an address that others can reach has to be allowed."""
    if not is_loopback(serve.host) and not serve.remote:
        why = Sentence("{host} can be reached from other machines", host=serve.host)
        hint = Sentence(
            "add --insecure-remote if others may reach this server, and name a --token-file"
        )
        raise Misconfigured(why, hint=hint)
    family = socket.AF_INET6 if ":" in serve.host else socket.AF_INET
    # asyncio turns Nagle's algorithm off only for sockets that are named as TCP.
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((serve.host, serve.port))
        # Now: a browser that opens the link at once then waits and is not refused.
        sock.listen(BACKLOG)
    except (OSError, OverflowError) as error:
        sock.close()
        place = f"{serve.host}:{serve.port}"
        why = Sentence("cannot listen on {address}: {error}", address=place, error=str(error))
        raise Misconfigured(why, hint=Sentence("choose another one with --port")) from None
    return sock


class Server(uvicorn.Server):
    """A uvicorn server that ends event streams before it waits for connections to close."""

    def __init__(self, config: uvicorn.Config, end_streams: Callable[[], None]) -> None:
        super().__init__(config)
        self._end_streams = end_streams

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Handles signals so that the process exits with its own code, not as if killed."""
        if threading.current_thread() is not threading.main_thread() or os.name != "posix":
            with super().capture_signals():
                yield
            return
        with _signals(lambda each: self.handle_exit(each, None)):
            yield

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._end_streams()
        await super().shutdown(sockets)


@contextmanager
def _signals(handler: Callable[[int], None]) -> Generator[None]:
    loop = asyncio.get_running_loop()
    for each in _SIGNALS:
        loop.add_signal_handler(each, handler, each)
    try:
        yield
    finally:
        for each in _SIGNALS:
            loop.remove_signal_handler(each)


def make_server(state: ServerState, serve: Serve, sock: socket.socket) -> tuple[Server, Auth]:
    """Makes the server on a bound socket, and the object that checks its clients."""
    port = int(sock.getsockname()[1])
    token = load_token(serve.token_file)
    tokens_file = serve.tokens_file or serve.token_file.with_name("tokens.json")
    protect((serve.token_file, tokens_file))
    auth = Auth(
        token,
        tokens=TokenFile(tokens_file),
        by=state.by,
        now=state.clock.now,
        port=port,
        login=timedelta(days=serve.login_days),
    )
    for each in (token, auth.link_token):
        state.log.hide(each)
    spans = Spans(tracer() if serve.telemetry else None)
    base = base_url(sock)

    def tenant_app(tenant: Tenant) -> Application:
        log, wiring = state.log.of_tenant(tenant.name), state.wiring.of_tenant(tenant)
        own = make_state(wiring, log=log, by=state.by, engine=serve.engine)
        routes, during = protocol_routes(own, base)
        during.append(partial(sending_notices, own, base))
        return Application(own, auth=auth, more=routes, during=during)

    book = TenantBook(serve.tenants) if serve.tenants else None
    tenants = Tenants(book, tenant_app, log=state.log) if book else None
    state.about = replace(state.about, at=base)
    routes, during = protocol_routes(state, base)
    during += [partial(sending_notices, state, base), partial(watched_loop, state.log)]
    during += [tenants.running] if tenants else []
    during += [partial(executing_runs, state, serve.executes)] if serve.executes else []
    app = Application(state, auth=auth, more=routes, during=during, spans=spans)
    rules = GateRules(hosts=host_names(serve.host, port, serve.allow_hosts), **serve.rules)
    inside = TenantSwitch(app, tenants) if tenants else app
    # Event streams are left as they are. No other site can make a browser ask for a response, and
    # none holds a token, so that its size betrays nothing: see docs/server.md.
    small = GZipMiddleware(inside, minimum_size=1000, compresslevel=5)
    login = _oidc_login(state, book, auth, base)
    gate = RequestGate(small, auth, rules, state.clock.monotonic, app.count_refused, login)

    def end_streams() -> None:
        state.closing.set()
        if tenants is not None:
            tenants.end_streams()

    most = serve.connections or most_connections()
    config = uvicorn.Config(
        gate,
        http=cast("type[asyncio.Protocol]", partial(Connection, most=most, head_s=serve.head_s)),
        backlog=BACKLOG,
        log_config=None,
        access_log=False,
        server_header=False,
        ws="none",
        lifespan="on",
        timeout_graceful_shutdown=5,
        proxy_headers=False,
    )
    return Server(config, end_streams), auth


def _oidc_login(
    own: ServerState, book: TenantBook | None, auth: Auth, base: str
) -> OidcLogin | None:
    settings = own.settings.oidc
    if settings is None:
        return None
    try:
        make_client: type[OidcClient] = resolve_name("plansmith_server.team.oidc:OidcClient")
        make_login: type[OidcLogin] = resolve_name("plansmith_server.team.oidc:OidcLogin")
    except ModuleNotFoundError as error:
        why = Sentence("OpenID Connect needs the package {name}", name=error.name)
        raise Misconfigured(why, hint="pip install packages/* 'plansmith[oidc]'") from None
    redirect = f"{settings.url or base}/login/callback"
    client = make_client(settings, redirect=redirect, monotonic=own.clock.monotonic)
    return make_login(client=client, auth=auth, book=book, log=own.log, now=own.clock.now)


def base_url(sock: socket.socket) -> str:
    """Returns the URL of the server as seen from this machine."""
    host, port = sock.getsockname()[:2]
    name = "127.0.0.1" if host in ("0.0.0.0", "::") else host  # noqa: S104 - a link to here
    return f"http://{f'[{name}]' if ':' in name else name}:{port}"


async def run_server(wiring: Wiring, serve: Serve, announce: Callable[[str], None]) -> None:
    """Serves until a signal; `announce` receives the one-time link."""
    with bind(serve) as sock:
        log = Log()
        log.capture_libraries()
        state = make_state(wiring, log=log, engine=serve.engine)
        if serve.engine:
            state.about = ProcessInfo("server", state.clock.now(), serve.executes)
        server, auth = make_server(state, serve, sock)
        announce(f"{base_url(sock)}/?token={auth.link_token}")
        await server.serve(sockets=[sock])


async def run_worker(wiring: Wiring, *, drain_s: float, announce: Callable[[str], None]) -> Left:
    """Executes runs until a signal, then drains; `announce` receives the name of the queue."""
    log = Log()
    log.capture_libraries()
    state = make_state(wiring, log=log, engine="dbos")
    workers = wiring.settings.workers
    most = workers.concurrency
    state.about = ProcessInfo("worker", state.clock.now(), most)
    worker = Worker(state, most=most)
    stop, hurry = asyncio.Event(), asyncio.Event()
    tasks: list[asyncio.Task[Any]] = []
    # The second signal hurries.
    with _signals(lambda _: (hurry if stop.is_set() else stop).set()):
        try:
            # A database that is away is waited for, unless a signal comes first.
            starting = asyncio.create_task(worker.start(workers.limits()))
            stopping = asyncio.create_task(stop.wait())
            tasks += [starting, stopping]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if not starting.done():
                return Left(0, 0)
            starting.result()
            tasks += [asyncio.create_task(each) for each in upkeep(state)]
            announce(worker.carrier.queue.name)
            await stopping
            return await worker.drain(drain_s, hurry)
        finally:
            await end(tasks)
            await state.close()
            log.info("stopped")
