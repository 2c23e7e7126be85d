"""Starts a server from its settings: listens, limits connections, ends gracefully."""

from __future__ import annotations

import asyncio
import getpass
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from hashlib import sha256
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, Final, Unpack, cast

import uvicorn
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from plansmith.adapters.agents.a2a.registry import AgentRegistry
from plansmith.adapters.clock import SystemClock
from plansmith.adapters.secrets import SecretBox
from plansmith.adapters.stores.urls import sqlite_path
from plansmith.config import Settings, data_folder
from plansmith.errors import Misconfigured
from plansmith.models import make_model
from plansmith.server.app import make_app
from plansmith.server.auth import Auth, load_token, scoped
from plansmith.server.background import BackgroundRuns
from plansmith.server.conversation_news import ConversationNews
from plansmith.server.drafts import Drafts
from plansmith.server.errors import HttpProblem
from plansmith.server.middleware import GateRules, host_names, is_loopback
from plansmith.server.ops.leader import Leader
from plansmith.server.ops.logs import Log
from plansmith.server.ops.metrics import Metrics, Spans, tracer
from plansmith.server.settings import Serve
from plansmith.server.state import LiveAgent, OpenRuns, ServerState
from plansmith.server.tokens import TokenFile
from plansmith.wiring import Parts, TeamSmiths, make_agents, make_smith

if sys.platform != "win32":
    import resource

BACKLOG: Final = 128
_MOST: Final = 512
_FEWEST: Final = 16
_RESERVED: Final = 256
_WANTED_FILES: Final = 4096
_FULL: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\n"
    b"Connection: close\r\n\r\n"
)


@dataclass(frozen=True, slots=True)
class ConnectionLimit:
    """How many connections are allowed, in all and per address, and the time for a request head."""

    most: int = _MOST
    per_peer: int = _MOST * 3 // 4
    head_s: float = 10.0


def connection_limit(head_s: float = 10.0, *, most: int = 0) -> ConnectionLimit:
    """Returns the limit; `most=0` allows as many as leave enough open files for runs."""
    if most:
        return ConnectionLimit(most=most, per_peer=max(1, most * 3 // 4), head_s=head_s)
    if sys.platform == "win32":
        return ConnectionLimit(head_s=head_s)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _WANTED_FILES if hard == resource.RLIM_INFINITY else min(hard, _WANTED_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft = wanted
    files = _WANTED_FILES if soft == resource.RLIM_INFINITY else soft
    # Half of what is left: many new connections arrive before old ones are closed.
    most = max(_FEWEST, min(_MOST, (files - _RESERVED) // 2))
    return ConnectionLimit(most=most, per_peer=max(1, most * 3 // 4), head_s=head_s)


class Connection(H11Protocol):
    """A connection that closes if no request head arrives, or when others need its place.

    A full server closes the connection that has been idle the longest, so that a client which
    sends a request is served, however many connections somebody else holds open.
    """

    def __init__(self, *, limit: ConnectionLimit, **uvicorn: Any) -> None:
        super().__init__(**uvicorn)
        self._limit = limit
        self._timer: asyncio.TimerHandle | None = None
        self.since = self.loop.time()

    @property
    def is_idle(self) -> bool:
        """Whether no request is being answered."""
        cycle = cast("RequestResponseCycle | None", self.cycle)
        return cycle is None or cycle.response_complete

    def connection_made(self, transport: Any) -> None:
        """Accepts the connection; closes an idle one if there are too many."""
        super().connection_made(transport)
        self._start_timer()
        too_many = self._too_many()
        if not too_many:
            return
        idle = [each for each in too_many if each is not self and each.is_idle]
        if idle:
            min(idle, key=lambda each: each.since).drop()
        else:
            self.transport.write(_FULL)
            self.drop(at_once=False)

    def _too_many(self) -> list[Connection]:
        """The connections of which one has to close: those of this address, or all; or none."""
        everyone = cast("list[Connection]", list(self.connections))
        host = self.client[0] if self.client else ""
        here = [each for each in everyone if (each.client or ("",))[0] == host]
        if len(here) > self._limit.per_peer:
            return here
        return everyone if len(everyone) > self._limit.most else []

    def drop(self, *, at_once: bool = True) -> None:
        """Closes the connection and frees its place now."""
        self._stop_timer()
        self.connections.discard(self)
        if at_once:
            self.transport.abort()
        else:
            self.transport.close()

    def data_received(self, data: bytes) -> None:
        """Receives data; a request head that has begun must be complete in time."""
        if self.is_idle and self._timer is None:
            self._start_timer()
        super().data_received(data)
        if not self.is_idle:
            self._stop_timer()

    def on_response_complete(self) -> None:
        """Marks the connection as idle."""
        self.since = self.loop.time()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stops the timer of a lost connection."""
        self._stop_timer()
        super().connection_lost(exc)

    def _start_timer(self) -> None:
        self._timer = self.loop.call_later(self._limit.head_s, self._too_slow)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _too_slow(self) -> None:
        self._timer = None
        if self.is_idle:
            self.drop()


_PROTOCOLS: Final = {
    "mcp": ("plansmith.server.protocols.mcp:mcp_routes", ("/mcp",)),
    "a2a": ("plansmith.server.protocols.a2a:a2a_routes", ("/a2a", "/.well-known/agent-card.json")),
}


def protocol_routes(server_state: ServerState, base: str) -> tuple[list[BaseRoute], list[Any]]:
    """Returns the routes of MCP and A2A and their resources; one without its extra says so."""
    routes: list[BaseRoute] = []
    during: list[Any] = []
    for extra, (dotted, paths) in _PROTOCOLS.items():
        try:
            make = resolve_name(dotted)
        except ModuleNotFoundError:
            routes += _missing(extra, paths)
            continue
        found, held = make(server_state, base)
        routes += [scoped(each, extra) for each in found]
        during += held
    return routes, during


def _missing(extra: str, paths: Sequence[str]) -> list[BaseRoute]:
    async def not_installed(_: Request) -> Response:
        hint = f"pip install 'plansmith[{extra}]'"
        return HttpProblem(501, "not_installed", f"{extra} is not installed", hint=hint).response()

    return [Route(path, not_installed, methods=["GET", "POST"]) for path in paths]


_GRACE_S: Final = 5
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


def make_state(
    settings: Settings, *, log: Log, by: str = "", **parts: Unpack[Parts]
) -> ServerState:
    """Makes the state of a server; the given parts replace those of the settings."""
    clock = parts.setdefault("clock", SystemClock())
    drafts = Drafts(clock, lambda text: log.info("planning", text=text))
    own_model = parts.get("model")
    model = own_model or make_model(settings.models.plan, clock=clock, tell=drafts.tell)
    registry = _registry(settings)
    live = [LiveAgent(registry, each) for each in registry.agents()] if registry else []
    parts.setdefault("agents", live)
    parts |= {"tell": drafts.tell, "model": drafts.observed(model)}
    smith = make_smith(settings, **parts)
    teams = TeamSmiths(smith, settings, tell=drafts.tell, model=own_model)
    return ServerState(
        smith=smith,
        teams=teams,
        settings=settings,
        drafts=drafts,
        background=BackgroundRuns(smith, teams=teams, drafts=drafts, log=log),
        log=log,
        metrics=Metrics(),
        open_runs=OpenRuns(smith),
        conversations=ConversationNews(smith),
        by=by or getpass.getuser(),
        leader=Leader(_lock_path(settings), clock),
        registry=registry,
        live=tuple(live),
    )


def _lock_path(settings: Settings) -> Path | None:
    """Returns the lock file of a SQLite store; other stores have none."""
    url = settings.store_url()
    if not url.startswith("sqlite:"):
        return None
    path = sqlite_path(url)
    # One per folder: a server resumes only the runs of the folder it is in.
    here = sha256(str(Path.cwd().resolve()).encode()).hexdigest()[:12]
    return path.with_name(f"{path.name}.{here}.serve.lock")


def _registry(settings: Settings) -> AgentRegistry | None:
    """Returns the registry of A2A agents, or None if there are no agents."""
    if not settings.agents and not (data_folder() / "agents").is_dir():
        return None
    return make_agents(settings, secrets=SecretBox(settings.secrets))


def bind(serve: Serve) -> socket.socket:
    """Opens the listening socket; an address that others can reach has to be allowed."""
    if not is_loopback(serve.host) and not serve.remote:
        hint = "add --insecure-remote if others may reach this server, and name a --token-file"
        raise Misconfigured(f"{serve.host} can be reached from other machines", hint=hint)
    family = socket.AF_INET6 if ":" in serve.host else socket.AF_INET
    # asyncio turns Nagle's algorithm off only for sockets that are named as TCP.
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((serve.host, serve.port))
        sock.listen(
            BACKLOG
        )  # now: a browser that opens the link at once then waits and is not refused
    except (OSError, OverflowError) as error:
        sock.close()
        hint = "choose another one with --port"
        raise Misconfigured(
            f"cannot listen on {serve.host}:{serve.port}: {error}", hint=hint
        ) from None
    return sock


class Server(uvicorn.Server):
    """A uvicorn server that ends event streams before it waits for connections to close."""

    def __init__(self, config: uvicorn.Config, closing: asyncio.Event) -> None:
        super().__init__(config)
        self._closing = closing

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Handles signals so that the process exits with its own code, not as if killed."""
        if threading.current_thread() is not threading.main_thread() or os.name != "posix":
            with super().capture_signals():
                yield
            return
        loop = asyncio.get_running_loop()
        for each in _SIGNALS:
            loop.add_signal_handler(each, self.handle_exit, each, None)
        try:
            yield
        finally:
            for each in _SIGNALS:
                loop.remove_signal_handler(each)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stops; event streams first."""
        self._closing.set()
        await super().shutdown(sockets)


def make_server(
    server_state: ServerState, serve: Serve, sock: socket.socket
) -> tuple[Server, Auth]:
    """Makes the server on a bound socket, and the object that checks its clients."""
    port = int(sock.getsockname()[1])
    token = load_token(serve.token_file)
    auth = Auth(
        token,
        tokens=TokenFile(serve.tokens_file or serve.token_file.with_name("tokens.json")),
        by=server_state.by,
        now=server_state.smith.runs.journals.clock.now,
        port=port,
        login=timedelta(days=serve.login_days),
    )
    for each in (token, auth.link_token):
        server_state.log.hide(each)
    routes, during = protocol_routes(server_state, base_url(sock))
    app = make_app(
        server_state,
        auth=auth,
        rules=GateRules(hosts=host_names(serve.host, port, serve.allow_hosts), **serve.rules),
        more=routes,
        during=during,
        spans=Spans(tracer() if serve.telemetry else None),
    )
    limit = connection_limit(serve.head_s, most=serve.connections)
    config = uvicorn.Config(
        app,
        http=cast("type[asyncio.Protocol]", partial(Connection, limit=limit)),
        backlog=BACKLOG,
        log_config=None,
        access_log=False,
        server_header=False,
        ws="none",
        lifespan="on",
        timeout_graceful_shutdown=_GRACE_S,
        proxy_headers=False,
    )
    return Server(config, server_state.closing), auth


def base_url(sock: socket.socket) -> str:
    """Returns the URL of the server as seen from this machine."""
    host, port = sock.getsockname()[:2]
    name = "127.0.0.1" if host in ("0.0.0.0", "::") else host  # noqa: S104 - a link to here
    return f"http://{f'[{name}]' if ':' in name else name}:{port}"


async def run_server(settings: Settings, serve: Serve, announce: Callable[[str], None]) -> None:
    """Serves until a signal; `announce` receives the one-time link."""
    with bind(serve) as sock:
        log = Log()
        log.capture_libraries()
        server_state = make_state(settings, log=log)
        server, auth = make_server(server_state, serve, sock)
        announce(f"{base_url(sock)}/?token={auth.link_token}")
        await server.serve(sockets=[sock])
