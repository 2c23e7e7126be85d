"""Reads, lists, follows and repairs the runs of a store."""

from __future__ import annotations

import shlex
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from plansmith.engine.journal import Journal, repair, whole_run
from plansmith.engine.ownership import Owners
from plansmith.engine.store_outage import StoreOutage
from plansmith.errors import JournalDamaged, OtherFolder, OtherTeam
from plansmith.plan import events as e
from plansmith.plan.data import Json
from plansmith.plan.ids import Ids
from plansmith.plan.origin import Origin
from plansmith.plan.plan import Plan
from plansmith.plan.run import Run, RunStatus
from plansmith.plan.run_options import RunOptions, Team
from plansmith.ports import Clock, PlanStore

_MOST_BEGUN: Final = 1000


class Journals:
    """Finds the journal of a run, and makes that of a new one.

    New runs belong to this folder and to this team. A shared store is closed by its owner.
    """

    def __init__(
        self,
        *,
        store: PlanStore,
        clock: Clock,
        ids: Callable[[], str] | None = None,
        folder: Path | str = "",
        team: Team | None = None,
        shared_store: bool = False,
    ) -> None:
        self.store = store
        self.clock = clock
        self.new_id = ids or Ids()
        self.team, self.shared_store = team, shared_store
        self.folder = str(Path(folder).resolve()) if folder else ""
        self.owners = Owners(store)
        self.patience = StoreOutage(store, clock)
        self._begun: dict[str, Journal] = {}

    def new(self, run_id: str = "") -> Journal:
        """The journal of a new run."""
        named = run_id or self.new_id()
        return Journal(
            named, store=self.store, clock=self.clock, folder=self.folder, team=self.team
        )

    def keep(self, journal: Journal) -> Journal:
        """Remember the journal of a run that was just created: `resumed` does not read it again."""
        self._begun[journal.id] = journal
        while len(self._begun) > _MOST_BEGUN:
            del self._begun[next(iter(self._begun))]
        return journal

    async def load(self, run_id: str) -> Journal:
        """The journal of a run."""
        return await Journal.load(run_id, store=self.store, clock=self.clock)

    async def own(self, run_id: str) -> Journal:
        """The journal of a run that may act here."""
        journal = await self.load(run_id)
        self.require_ours(journal.run)
        return journal

    async def resumed(self, run_id: str) -> Journal:
        """The journal of a run; one just created here is not read again, only what came since."""
        journal = self._begun.pop(run_id, None)
        if journal is not None:
            await journal.catch_up()
        return journal or await self.load(run_id)

    async def whole(self, journal: Journal, results: Mapping[str, Json] | None = None) -> Run:
        """A run with its results, unless they are at hand already, and its report."""
        return await self.owners.marked(await whole_run(self.store, journal.run, results))

    async def get(self, run_id: str) -> Run:
        """A run as it stands, with its results."""
        return await self.whole(await self.load(run_id))

    async def all(self) -> list[Run]:
        """All runs, oldest first, without their results; a damaged one says so as its reason."""
        return [(await self.listed(run_id))[0] for run_id in await self.store.runs()]

    async def listed(self, run_id: str) -> tuple[Run, Sequence[e.Event]]:
        """A run without results, and its events; one that cannot be read says so as its reason."""
        try:
            journal = await self.load(run_id)
        except JournalDamaged as damage:
            told = str(damage)
            return Run(id=run_id, phase=RunStatus.FAILED, reason=told, damage=told), ()
        return await self.owners.marked(journal.run), journal.events

    async def events(
        self, run_id: str, *, after: int = 0, follow: bool = False
    ) -> AsyncIterator[e.Event]:
        """The events of a run behind a number; with `follow`, also those still to come."""
        journal = Journal(run_id, store=self.store, clock=self.clock)
        while True:
            await journal.catch_up()
            for event in journal.events[after:]:
                after = event.number
                yield event
                if isinstance(event.body, e.RunFinished):
                    return
            # Of a damaged run there is no more to come before it is repaired.
            if not follow or journal.damage is not None:
                return
            await self.store.wait(run_id, after=after)

    async def repair(self, run_id: str, *, by: e.Who = "") -> Run:
        """Go on with a damaged run from its last good event: it is paused, nothing is lost.

        What comes behind that event is kept apart; calls that it tells of count as made.
        """
        async with self.owners.owning(run_id):
            journal = await self.load(run_id)
            await repair(self.store, journal, by=e.actor(by))
            return await self.whole(journal)

    def is_here(self, folder: str) -> bool:
        """Whether what belongs to a folder may act here; what belongs to none may anywhere."""
        return not folder or not self.folder or folder == self.folder

    def require_here(self, what: str, folder: str) -> None:
        """Refuse to act for a run or a schedule of another folder."""
        if self.is_here(folder):
            return
        hint = f"cd {shlex.quote(folder)} and do the same there, or use plansmith -C FOLDER"
        if not Path(folder).is_dir():
            hint = "that folder is not there any more: move it back, or ask anew here"
        raise OtherFolder(f"{what} belongs to the folder {folder}", hint=hint)

    def is_ours(self, run: Run) -> bool:
        """Whether a run may go on here by itself: in its folder, with the agents of its team."""
        return self.is_here(run.folder) and run.options.team == self.team

    def require_ours(self, run: Run) -> None:
        """Refuse to act for a run of another folder, or without the agents of its team."""
        self.require_here(f"run {run.id}", run.folder)
        team = run.options.team
        if team is None or (self.team is not None and self.team.name == team.name):
            return
        hint = f"plansmith {team.name} --resume {run.id}{' --db URL' if team.database else ''}"
        raise OtherTeam(f"run {run.id} needs the agents of the {team.name} team", hint=hint)

    async def close(self) -> None:
        """Let go of the store, unless others use it."""
        if not self.shared_store:
            await self.store.close()


def run_created(
    request: str,
    plan: Plan | None = None,
    *,
    locale: str = "",
    options: RunOptions | None = None,
    origin: Origin | None = None,
    folder: str = "",
) -> e.RunCreated:
    """The first event of a run; without a folder it belongs to that of whoever creates it."""
    return e.RunCreated(
        request=request or (plan.goal if plan else ""),
        locale=locale or (plan.locale if plan else "en"),
        options=options or RunOptions(),
        origin=origin or Origin(),
        folder=folder,
    )
