"""Makes the state of a server or a worker from its settings."""

from __future__ import annotations

import getpass
from hashlib import sha256
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, Unpack

from plansmith.adapters.agents.a2a.registry import AgentRegistry
from plansmith.adapters.clock import SystemClock
from plansmith.adapters.secrets import SecretBox
from plansmith.adapters.stores.urls import is_postgres, sqlite_path
from plansmith.app import Plansmith
from plansmith.config import Settings
from plansmith.engine.run_queue import RunQueue
from plansmith.errors import Misconfigured
from plansmith.models import make_model
from plansmith.server.background import BackgroundRuns
from plansmith.server.carrier import RunCarrier
from plansmith.server.conversation_news import ConversationNews
from plansmith.server.drafts import Drafts
from plansmith.server.ops.leader import Leader
from plansmith.server.ops.logs import Log
from plansmith.server.ops.metrics import Metrics
from plansmith.server.state import LiveAgent, OpenRuns, ServerState
from plansmith.wiring import Parts, TeamSmiths, make_agents, make_smith


def make_state(
    settings: Settings, *, log: Log, by: str = "", engine: str = "", **parts: Unpack[Parts]
) -> ServerState:
    """Makes the state of a server; the given parts replace those of the settings.

    With an `engine` it sends runs to workers instead of executing them.
    """
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
    carrier = _carrier(smith, settings.store_url(), log) if engine else None
    return ServerState(
        smith=smith,
        teams=teams,
        carrier=carrier,
        settings=settings,
        drafts=drafts,
        background=BackgroundRuns(smith, teams=teams, drafts=drafts, log=log, carrier=carrier),
        log=log,
        metrics=Metrics(),
        open_runs=OpenRuns(smith),
        conversations=ConversationNews(smith),
        by=by or getpass.getuser(),
        leader=Leader(_lock_path(settings), clock),
        registry=registry,
        live=tuple(live),
    )


def _carrier(smith: Plansmith, url: str, log: Log) -> RunCarrier:
    """Makes what sends runs to workers; they share a PostgreSQL database."""
    if not is_postgres(url):
        hint = "name a database that all of them reach: --store postgresql://…"
        raise Misconfigured("workers need a store on PostgreSQL", hint=hint)
    queue: RunQueue = load_engine("queue:DbosQueue")(url, smith.runs.journals.folder)
    return RunCarrier(queue, clock=smith.runs.journals.clock, log=log)


def load_engine(dotted: str) -> Any:
    """Loads a part of the engine that carries runs to workers; says what is missing."""
    try:
        return resolve_name(f"plansmith.adapters.engines.dbos.{dotted}")
    except ModuleNotFoundError as error:
        hint = "pip install 'plansmith[scale]'"
        raise Misconfigured(f"workers need the package {error.name}", hint=hint) from None


def _lock_path(settings: Settings) -> Path | None:
    """Returns the lock file of a SQLite store; other stores have none."""
    url = settings.store_url()
    if not url.startswith("sqlite:"):
        return None
    path = sqlite_path(url)
    # One per folder: a server resumes only the runs of the folder it is in.
    here = sha256(str(settings.folder().resolve()).encode()).hexdigest()[:12]
    return path.with_name(f"{path.name}.{here}.serve.lock")


def _registry(settings: Settings) -> AgentRegistry | None:
    """Returns the registry of A2A agents, or None if there are no agents."""
    if not settings.agents and not (settings.data() / "agents").is_dir():
        return None
    return make_agents(settings, secrets=SecretBox(settings.secrets))
