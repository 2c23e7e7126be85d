"""Holds what all handlers share: Plansmith, background runs, open runs, agents, the model."""

from __future__ import annotations

import asyncio
import os
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from plansmith.app import Plansmith
from plansmith.engine.journal import Journal
from plansmith.errors import Misconfigured, NotFound, OtherTeam, PlansmithError, Refused
from plansmith.plan.run import Run
from plansmith.plan.run_options import TeamName
from plansmith.plan.sentence import Sentence
from plansmith.ports import ChatModel, Clock, Delta, Prompt
from plansmith.store_ports import ProcessInfo
from plansmith_connect.a2a.registry import AgentRegistry
from plansmith_planner.make import make_model
from plansmith_planner.models import choose
from plansmith_planner.models.wrappers import closing
from plansmith_planner.settings import ModelSettings
from plansmith_server.background import BackgroundRuns, RunCarrier
from plansmith_server.bodies import ModelChoice
from plansmith_server.errors import not_found
from plansmith_server.news import ConversationNews, Drafts, EventReader
from plansmith_server.ops.logs import Log
from plansmith_server.ops.metrics import Metrics
from plansmith_server.ops.tasks import end
from plansmith_server.ports import ServerSettings, Teams, Wiring
from plansmith_server.team.notices import Notices
from plansmith_server.views import JsonObject, run_row, run_view

_KEPT: Final = 2_000
_MAX_LENGTH: Final = 300


class ModelDownloads:
    """Downloads embedded models in the background, one at a time."""

    def __init__(self) -> None:
        # How far the newest one is, or why it stopped.
        self.current: dict[str, Any] | None = None
        self._task: asyncio.Task[None] | None = None

    def begin(self, name: str) -> None:
        """Starts a download, unless it is under way."""
        model = _shelf().model(name)
        if self.current is not None and self.current["state"] in ("loading", "checking"):
            if self.current["name"] == model.name:
                return
            why = Sentence("{model} is being downloaded", model=self.current["name"])
            raise Refused(why, hint=Sentence("wait for it to end"))
        self.current = {"name": model.name, "total": model.size, "done": 0, "state": "loading"}
        self.current |= {"error": "", "hint": ""}
        self._task = asyncio.create_task(self._load(model.name, self.current))

    async def _load(self, name: str, download: dict[str, Any]) -> None:
        def progress(done: int, total: int) -> None:
            download.update(done=done, state="checking" if done >= total else "loading")

        try:
            await asyncio.to_thread(_shelf().pull, name, progress)
            download.update(state="done", done=download["total"])
        except PlansmithError as error:
            download.update(state="failed", error=error.message, hint=error.hint)
        except OSError as error:
            download.update(state="failed", error=str(error))


class ModelSwitch:
    """A model that stands for another one, which can be replaced between two calls."""

    def __init__(
        self, model: ChatModel, settings: ModelSettings, clock: Clock, *, is_given: bool = False
    ) -> None:
        self._model, self._settings, self._clock = model, settings, clock
        # A program that starts the server may give it a model, whatever the settings say.
        self.is_given = is_given
        # Set once a person has chosen on the page; the settings decide until then.
        self.chosen = ""
        self.downloads = ModelDownloads()

    @property
    def name(self) -> str:
        return self._model.name

    async def stream(self, prompt: Prompt) -> AsyncIterator[Delta]:
        """Returns the answer of the model in use when the call begins."""
        pieces = self._model.stream(prompt)
        async with closing(pieces):
            async for delta in pieces:
                yield delta

    async def use(self, given: ModelChoice) -> None:
        """Plans with another model from the next call on; checks what can be checked at once."""
        key = given.api_key.get_secret_value().strip()
        fields: dict[str, str | None] = {"model": given.kind}
        match given.kind:
            case "auto" | "rules":
                pass
            case "embedded":
                known = _shelf().model(given.model)
                if not known.is_here:
                    why = Sentence("the file of {model} is not on this machine", model=known.name)
                    raise Refused(why, hint=Sentence("download it first"))
                fields = {"model": f"local:{known.name}"}
            case "server":
                fields = await _server_model(given)
            case "key":
                fields = _key_model(given.variable, given.model.strip(), has_key=bool(key))
        limits = {"timeout_s": self._settings.timeout_s, "silence_s": self._settings.silence_s}
        settings = ModelSettings.model_validate({**fields, **limits})
        self._model = make_model(settings, clock=self._clock, api_key=key or None)
        self.chosen = settings.model


async def _server_model(given: ModelChoice) -> dict[str, str | None]:
    places = [each for each in choose.usual_places(os.environ) if each.url == given.url]
    servers = await choose.ask_servers(places) if places else []
    if not servers or given.model not in servers[0].models:
        server = given.url or "the server"
        why = Sentence("{server} has no model '{model}' now", server=server, model=given.model)
        raise Refused(why, hint=Sentence("start it, and look again"))
    return {"model": f"openai:{given.model}", "base_url": servers[0].place.base_url}


def _key_model(variable: str, model: str, *, has_key: bool) -> dict[str, str | None]:
    key = next((each for each in choose.KEYS if each.variable == variable), None)
    if key is None:
        why = Sentence("'{name}' is not the key of a known provider", name=variable)
        names = [each.variable for each in choose.KEYS]
        raise Misconfigured(why, hint=Sentence("use {names}", names=names))
    if not has_key and not os.environ.get(variable, "").strip():
        why = Sentence("{variable} is not set, and no key was given", variable=variable)
        raise Refused(why, hint=Sentence("enter the key"))
    name = f"{key.provider}:{model or key.model}"
    return {"model": name, "base_url": key.base_url, "api_key_env": None if has_key else variable}


def _shelf() -> choose.ModelShelf:
    shelf = choose.installed_shelf()
    if shelf is None:
        hint = "pip install packages/* 'plansmith[desk]'"
        raise Misconfigured("no installed package runs models in this process", hint=hint)
    return shelf


class Listed(NamedTuple):
    """An open run, and its row in a list."""

    row: JsonObject
    run: Run


class OpenRuns:
    """Caches the open runs, which the inbox and every new stream read."""

    def __init__(self, smith: Plansmith) -> None:
        self._smith = smith
        self._position = -1
        self._listed: OrderedDict[str, Listed] = OrderedDict()

    async def all(self) -> list[Listed]:
        store = self._smith.store
        if self._position < 0:
            self._position = await store.wait_news(-1)
        while news := await store.news(self._position):
            for each in news:
                self.forget(each.run)
            self._position = news[-1].position
        found: list[Listed] = []
        for run_id in await store.open_runs():
            known, before = self._listed.get(run_id), self._position
            if known is None:
                run, summary = await self._smith.runs.journals.listed(run_id)
                known = Listed(run_row(summary), run)
            found.append(known)
            # If the run changed while it was read, it is read again next time.
            if self._position == before:
                self._listed[run_id] = known
                if len(self._listed) > _KEPT:
                    self._listed.popitem(last=False)
        return found

    def forget(self, run_id: str) -> None:
        self._listed.pop(run_id, None)


@dataclass(slots=True)
class ServerState:
    """The state of one server; runs and templates are in the store."""

    smith: Plansmith
    wiring: Wiring
    drafts: Drafts
    background: BackgroundRuns
    log: Log
    metrics: Metrics
    open_runs: OpenRuns
    events: EventReader
    conversations: ConversationNews
    by: str
    teams: Teams
    notices: Notices
    registry: AgentRegistry | None = None
    # Sends runs to workers; None where this server executes them itself.
    carrier: RunCarrier | None = None
    # The planning model that a person may change; None where it is not this server's.
    models: ModelSwitch | None = None
    about: ProcessInfo = field(default_factory=lambda: ProcessInfo("server"))
    ready: bool = False
    closing: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def settings(self) -> ServerSettings:
        return self.wiring.settings

    @property
    def clock(self) -> Clock:
        return self.smith.runs.journals.clock

    async def close(self) -> None:
        """Stops what runs, so that it can be resumed later, and closes everything."""
        await self.background.close()
        if self.carrier is not None:
            await self.carrier.close()
        await self.teams.close()
        await self.smith.close()

    async def wait(self, work: Awaitable[Any], seconds: float) -> None:
        """Waits for something, at most so many seconds and while the server serves."""
        waiting = [asyncio.ensure_future(work), asyncio.ensure_future(self.closing.wait())]
        try:
            await asyncio.wait(waiting, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await end(waiting)

    async def journal(self, run_id: str) -> Journal:
        """Returns the journal of a run; raises `NotFound` or 404 if there is no such run."""
        return await self.smith.runs.journals.load_verified(_valid_id(run_id))

    async def run(self, run_id: str) -> Run:
        return (await self.journal(run_id)).run

    async def run_view(self, run_id: str, *, wait_s: float = 0.0) -> JsonObject:
        """Returns a run; if the client waits for that, once it is over or needs a person."""
        if wait_s:
            await self.wait(self.background.at_rest(run_id), wait_s)
        view = await run_view(self.smith, run_id)
        # One that was just begun has no process yet.
        return view | {"interrupted": False} if self.background.has(run_id) else view

    async def for_run(self, run_id: str, *, acts: bool = True) -> ServerState:
        """Returns this state with the Plansmith of the run's team; raises 404 if there is no run.

        With `acts=False`, for reading and stopping, a team that cannot be made is no error.
        """
        try:
            smith = await self.teams.of_id(_valid_id(run_id))
        except NotFound:
            raise not_found("run", run_id) from None
        except OtherTeam:
            if acts:
                raise
            return self
        except PlansmithError:
            return self  # a damaged one: reading it raises the right error
        return self if smith is self.smith else replace(self, smith=smith)

    def for_team(self, name: TeamName | None, database: str = "") -> ServerState:
        """Returns this state with the Plansmith of a new team; unchanged without a name."""
        return replace(self, smith=self.teams.of_name(name, database)) if name else self


def _valid_id(run_id: str) -> str:
    """Refuses what cannot be the id of a run, before a store is asked."""
    if len(run_id) > _MAX_LENGTH or not run_id.isprintable():
        raise not_found("run", run_id)
    return run_id
