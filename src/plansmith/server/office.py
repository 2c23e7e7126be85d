"""Office: what all handlers share: Plansmith, the runs in the background, and who decides."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from typing import Final

from plansmith.adapters.agents.a2a.registry import AgentRegistry
from plansmith.app import Plansmith
from plansmith.config import Settings
from plansmith.errors import OtherTeam, PlansmithError
from plansmith.plan.run import Run
from plansmith.runner.journal import Journal
from plansmith.server.alone import Alone
from plansmith.server.conducting import Conducting
from plansmith.server.drafts import Drafts
from plansmith.server.live import LiveAgent
from plansmith.server.logs import Log
from plansmith.server.meters import Meters
from plansmith.server.problems import not_found
from plansmith.server.rows import Rows
from plansmith.wiring import TeamSmiths

_LONGEST: Final = 300


@dataclass(slots=True)
class Office:
    """One server's state; runs and templates are in the store, not here."""

    smith: Plansmith
    settings: Settings
    drafts: Drafts
    conducting: Conducting
    log: Log
    meters: Meters
    rows: Rows
    by: str
    alone: Alone
    teams: TeamSmiths
    registry: AgentRegistry | None = None
    live: tuple[LiveAgent, ...] = ()
    model_calls: dict[str, list[tuple[str, int]]] = field(
        default_factory=dict[str, list[tuple[str, int]]]
    )
    ready: bool = False
    closing: asyncio.Event = field(default_factory=asyncio.Event)

    async def journal(self, run_id: str) -> Journal:
        """The journal of a run that is there."""
        if len(run_id) > _LONGEST or not run_id.isprintable():
            raise not_found("run", run_id)
        try:
            return await self.smith.runs.journals.load(run_id)
        except PlansmithError as error:
            if type(error) is PlansmithError:  # the journal's word for: no event at all
                raise not_found("run", run_id) from None
            raise

    async def for_run(self, run_id: str, *, acts: bool = True) -> Office:
        """This office with the Plansmith of the team that a run belongs to, if to any.

        Who only looks at a run whose team cannot be made here, or stops it, needs no team.
        """
        try:
            smith = await self.teams.of_id(run_id)
        except OtherTeam:
            if acts:
                raise
            return self
        except PlansmithError:
            return self  # there is no such run, or it is damaged: whoever reads it says so
        return self if smith is self.smith else replace(self, smith=smith)

    async def run(self, run_id: str) -> Run:
        """A run that is there, as it stands, without results."""
        return (await self.journal(run_id)).run
