"""Serving: settings to a running server: parts put together, a socket, and a graceful end."""

from __future__ import annotations

import asyncio
import getpass
import os
import signal
import socket
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, cast

import uvicorn

from plansmith.adapters.agents.a2a.registry import AgentRegistry
from plansmith.app import Plansmith
from plansmith.config import Settings
from plansmith.errors import Misconfigured
from plansmith.server.alone import Alone
from plansmith.server.app import make_app
from plansmith.server.conducting import Conducting
from plansmith.server.connections import BACKLOG, Connection, make_room
from plansmith.server.drafts import Drafts
from plansmith.server.faces import face_routes
from plansmith.server.gate import GateRules, host_names, is_loopback
from plansmith.server.keys import Keys, load_token
from plansmith.server.live import LiveAgent
from plansmith.server.logs import Log
from plansmith.server.meters import Meters
from plansmith.server.office import Office
from plansmith.server.rows import Rows
from plansmith.server.settings import Serve
from plansmith.server.telemetry import Spans, tracer
from plansmith.server.tokens import TokenFile
from plansmith.wiring import PARTS, TeamSmiths, load, make_agents, make_model, make_smith

_GRACE_S: Final = 5
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


def make_office(settings: Settings, *, log: Log, by: str = "", **given: Any) -> Office:
    """The office of these settings; parts that are given take the place of theirs."""
    clock = given.setdefault("clock", load(PARTS["clock"])())
    drafts = Drafts(clock, lambda text: log.info("told", text=text))
    own = given.pop("model", None)
    made = own or make_model(settings.models.plan, clock=clock, tell=drafts.tell)
    registry = _registry(settings)
    live = [LiveAgent(registry, each) for each in registry.agents()] if registry else []
    given.setdefault("agents", live)
    smith: Plansmith = make_smith(settings, tell=drafts.tell, model=drafts.overheard(made), **given)
    teams = TeamSmiths(smith, settings, tell=drafts.tell, model=own)
    return Office(
        smith=smith,
        teams=teams,
        settings=settings,
        drafts=drafts,
        conducting=Conducting(smith, teams=teams, drafts=drafts, log=log),
        log=log,
        meters=Meters(),
        rows=Rows(smith),
        by=by or getpass.getuser(),
        alone=Alone(_lock_path(settings), clock),
        registry=registry,
        live=tuple(live),
    )


def _lock_path(settings: Settings) -> Path | None:
    """The lock of a store that is a file; others are not locked."""
    url = settings.store_url()
    if not url.startswith("sqlite:"):
        return None
    path: Path = load(PARTS["sqlite_path"])(url)
    # One a folder: a server takes up only the runs of the folder it is in.
    here = sha256(str(Path.cwd().resolve()).encode()).hexdigest()[:12]
    return path.with_name(f"{path.name}.{here}.serve.lock")


def _registry(settings: Settings) -> AgentRegistry | None:
    """The A2A agents, where there are any."""
    if not settings.agents and not (load(PARTS["data_folder"])() / "agents").is_dir():
        return None
    secrets = load(PARTS["secrets"])(settings.secrets)
    registry: AgentRegistry = make_agents(settings, secrets=secrets)
    return registry


def bind(serve: Serve) -> socket.socket:
    """The listening socket; an address others can reach needs the person's word and a token."""
    if not is_loopback(serve.host) and not serve.remote:
        hint = "add --insecure-remote if others may reach this server, and name a --token-file"
        raise Misconfigured(f"{serve.host} can be reached from other machines", hint=hint)
    family = socket.AF_INET6 if ":" in serve.host else socket.AF_INET
    # Named as TCP: only then does asyncio send small answers at once.
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((serve.host, serve.port))
        sock.listen(BACKLOG)  # now: whoever follows the link at once waits and is not refused
    except (OSError, OverflowError) as error:
        sock.close()
        hint = "choose another one with --port"
        raise Misconfigured(
            f"cannot listen on {serve.host}:{serve.port}: {error}", hint=hint
        ) from None
    return sock


class Server(uvicorn.Server):
    """uvicorn's server, which lets event streams end before it waits for connections."""

    def __init__(self, config: uvicorn.Config, closing: asyncio.Event) -> None:
        super().__init__(config)
        self._closing = closing

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Heed the first signal; the process then ends as told, not as if it had been killed."""
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
        """Stop: streams first."""
        self._closing.set()
        await super().shutdown(sockets)


def make_server(office: Office, serve: Serve, sock: socket.socket) -> tuple[Server, Keys]:
    """The server on a bound socket, and the keys to it."""
    port = int(sock.getsockname()[1])
    token = load_token(serve.token_file)
    keys = Keys(
        token,
        tokens=TokenFile(serve.tokens_file or serve.token_file.with_name("tokens.json")),
        by=office.by,
        now=office.smith.runs.journals.clock.now,
        port=port,
        login=timedelta(days=serve.login_days),
    )
    for each in (token, keys.link_token):
        office.log.hide(each)
    routes, during = face_routes(office, base_url(sock))
    app = make_app(
        office,
        keys=keys,
        rules=GateRules(hosts=host_names(serve.host, port, serve.allow_hosts), **serve.rules),
        more=routes,
        during=during,
        spans=Spans(tracer() if serve.telemetry else None),
    )
    config = uvicorn.Config(
        app,
        http=cast(
            "type[asyncio.Protocol]",
            partial(Connection, room=make_room(serve.head_s, most=serve.connections)),
        ),
        backlog=BACKLOG,
        log_config=None,
        access_log=False,
        server_header=False,
        ws="none",
        lifespan="on",
        timeout_graceful_shutdown=_GRACE_S,
        proxy_headers=False,
    )
    return Server(config, office.closing), keys


def base_url(sock: socket.socket) -> str:
    """The address of a server, as this machine reaches it."""
    host, port = sock.getsockname()[:2]
    name = "127.0.0.1" if host in ("0.0.0.0", "::") else host  # noqa: S104 - a link to here
    return f"http://{f'[{name}]' if ':' in name else name}:{port}"


async def run_server(settings: Settings, serve: Serve, announce: Callable[[str], None]) -> None:
    """Serve until a signal ends it; `announce` is told the one-time link."""
    with bind(serve) as sock:
        log = Log()
        log.take_over()
        office = make_office(settings, log=log)
        server, keys = make_server(office, serve, sock)
        announce(f"{base_url(sock)}/?token={keys.link_token}")
        await server.serve(sockets=[sock])
