"""Holds what all handlers share: Plansmith, background runs, the list of runs, agents."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from plansmith.app import Plansmith
from plansmith.engine.journal import Journal
from plansmith.engine.processes import ProcessKind
from plansmith.errors import NotFound, OtherTeam, PlansmithError
from plansmith.plan.capability import AgentSpec
from plansmith.plan.data import Json
from plansmith.plan.run import Run
from plansmith.plan.run_options import TeamName
from plansmith.ports import Agent, Call, Clock, Closing
from plansmith_connect.a2a.registry import AgentRegistry
from plansmith_server.background import BackgroundRuns
from plansmith_server.carrier import RunCarrier
from plansmith_server.errors import not_found
from plansmith_server.model_switch import ModelSwitch
from plansmith_server.news import ConversationNews, Drafts, EventReader
from plansmith_server.ops.logs import Log
from plansmith_server.ops.metrics import Metrics
from plansmith_server.ops.tasks import end
from plansmith_server.ports import ServerSettings, Teams, Wiring
from plansmith_server.team.notices import Notices
from plansmith_server.views import Shown, run_row

_KEPT: Final = 2_000
_LONGEST: Final = 300


class LiveAgent:
    """An agent of the registry; call `refresh` after an approval."""

    def __init__(self, registry: AgentRegistry, agent: Agent) -> None:
        self._registry = registry
        self._agent = agent

    @property
    def spec(self) -> AgentSpec:
        return self._agent.spec

    async def work(self, task: str, inputs: Mapping[str, Json], call: Call) -> Json:
        return await self._agent.work(task, inputs, call)

    async def refresh(self) -> None:
        """Takes the agent from the registry again."""
        for each in self._registry.agents():
            if each.spec.name == self.spec.name:
                await self.close()
                self._agent = each
                return

    async def close(self) -> None:
        if isinstance(self._agent, Closing):
            await self._agent.close()


class Listed(NamedTuple):
    """An open run, and its row in a list."""

    row: Shown
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
        return [await self._read(run_id) for run_id in await store.open_runs()]

    async def _read(self, run_id: str) -> Listed:
        """Returns an open run, also a damaged one."""
        known = self._listed.get(run_id)
        if known is not None:
            return known
        before = self._position
        run, summary = await self._smith.runs.journals.listed(run_id)
        found = Listed(run_row(summary), run)
        # If the run changed while it was read, it is read again next time.
        if self._position == before:
            self._listed[run_id] = found
            if len(self._listed) > _KEPT:
                self._listed.popitem(last=False)
        return found

    def forget(self, run_id: str) -> None:
        """Forgets a run that was changed or removed."""
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
    live: tuple[LiveAgent, ...] = ()
    # Sends runs to workers; None where this server executes them itself.
    carrier: RunCarrier | None = None
    # The planning model that a person may change; None where it is not this server's.
    models: ModelSwitch | None = None
    kind: ProcessKind = field(default_factory=lambda: ProcessKind("server"))
    ready: bool = False
    closing: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def settings(self) -> ServerSettings:
        """The settings of the server, or of the tenant."""
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
        _check_id(run_id)
        return await self.smith.runs.journals.load(run_id)

    async def run(self, run_id: str) -> Run:
        """Returns a run without its results."""
        return (await self.journal(run_id)).run

    async def for_run(self, run_id: str, *, acts: bool = True) -> ServerState:
        """Returns this state with the Plansmith of the run's team; raises 404 if there is no run.

        With `acts=False`, for reading and stopping, a team that cannot be made is no error.
        """
        _check_id(run_id)
        try:
            smith = await self.teams.of_id(run_id)
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
        if name is None:
            return self
        return replace(self, smith=self.teams.of_name(name, database))


def _check_id(run_id: str) -> None:
    """Refuses what cannot be the id of a run, before a store is asked."""
    if len(run_id) > _LONGEST or not run_id.isprintable():
        raise not_found("run", run_id)
