"""Reads, lists, follows, repairs and deletes the runs of a store."""

from __future__ import annotations

import shlex
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from plansmith import errors
from plansmith.engine.journal import Journal, StoreRetry, whole_run
from plansmith.engine.lease import LEASE_S
from plansmith.engine.ownership import Ownership
from plansmith.lazy import lazy_modules
from plansmith.plan import events as e
from plansmith.plan.data import Json, full_hash
from plansmith.plan.fold import with_ready_steps
from plansmith.plan.ids import Ids, call_key
from plansmith.plan.planning import Tell, ignore_progress
from plansmith.plan.run import Run, RunStatus, StepStatus
from plansmith.plan.run_options import Team
from plansmith.plan.sentence import Sentence, with_hint
from plansmith.plan.summary import RunSummary, summary_of

if TYPE_CHECKING:
    from datetime import datetime

    from plansmith.engine import repair
    from plansmith.engine.processes import Machine
    from plansmith.ports import Clock, Store
    from plansmith.report import build
else:
    lazy_modules(globals(), build="plansmith.report.build", repair="plansmith.engine.repair")

Decide = Callable[[Run], Sequence[e.Entry]]  # decides what to write to a run
_MAX_BYTES: Final = 16_000_000
_KNOWN: Final = (StepStatus.DONE, StepStatus.SKIPPED)


class _Cached(NamedTuple):
    """A journal kept in memory, with the size of the events counted so far.

    A new one begins without being read again.
    """

    journal: Journal
    size: int = 0
    events: int = 0
    is_new: bool = False


class Journals:
    """Loads the journals of runs and creates new ones.

    New runs belong to `folder` and to `team`. A tenant's journals do not tell where the folder is
    (`records_folder`). `tell` hears what happens.
    """

    def __init__(  # noqa: PLR0913 - all by name
        self,
        *,
        store: Store,
        clock: Clock,
        ids: Callable[[], str] | None = None,
        folder: Path | str = "",
        team: Team | None = None,
        lease_s: float = LEASE_S,
        machine: Machine | None = None,
        tell: Tell = ignore_progress,
        records_folder: bool = True,
    ) -> None:
        self.store = store
        self.clock = clock
        self.new_id = ids or Ids()
        self.team = team
        self.folder = str(Path(folder).resolve()) if folder else ""
        self.recorded_folder = self.folder if records_folder else ""
        self.ownership = Ownership(store, clock, lease_s=lease_s, machine=machine)
        self.tell = tell
        self.store_retry = StoreRetry(clock, self.tell)
        self._cache: dict[str, _Cached] = {}
        self._cache_bytes = 0

    def new(self, run_id: str = "") -> Journal:
        """Creates the journal of a new run."""
        return Journal(run_id or self.new_id(), store=self.store, clock=self.clock)

    def keep_new(self, journal: Journal) -> Journal:
        """Keeps the journal of a run just created, so that it can begin without another look."""
        return self._keep(_Cached(journal, is_new=True))

    def pop_new(self, run_id: str) -> Journal | None:
        """Returns the journal of a run just created here, once; others may have written since."""
        cached = self._cache.get(run_id)
        if cached is None or not cached.is_new:
            return None
        self._forget(run_id)
        return cached.journal

    async def load_verified(self, run_id: str) -> Journal:
        """Loads the journal of a run, and verifies every event of it."""
        journal = await Journal.load(run_id, store=self.store, clock=self.clock)
        if journal.damage is not None:
            # Lists show the damage from now on: they read journals longer than their summaries.
            with suppress(errors.JournalError, errors.Misconfigured):
                await self.store.keep_summaries([(journal.last, summary_of(journal.run))])
        return journal

    async def load_cached(self, run_id: str) -> Journal:
        """Loads the journal of a run; verifies only what came since it was last read here.

        For what is done again and again with a run, such as an answer. Damage of what was read
        before is found by `load_verified`, which is before every approval and every beginning.
        """
        cached = self._forget(run_id)
        journal = cached.journal.copy() if cached is not None else None
        if cached is not None and journal is not None and await journal.refresh():
            return self._keep(cached._replace(journal=journal, is_new=False))
        return self._keep(_Cached(await self.load_verified(run_id)))

    def _keep(self, cached: _Cached) -> Journal:
        journal = cached.journal
        self._forget(journal.id)  # another task may have read it meanwhile
        size = cached.size + sum(len(event.body_text) for event in journal.events[cached.events :])
        if journal.damage is None and size <= _MAX_BYTES:
            self._cache[journal.id] = cached._replace(size=size, events=len(journal.events))
            self._cache_bytes += size
            while self._cache_bytes > _MAX_BYTES:
                self._forget(next(iter(self._cache)))
        return journal

    def _forget(self, run_id: str) -> _Cached | None:
        cached = self._cache.pop(run_id, None)
        self._cache_bytes -= cached.size if cached is not None else 0
        return cached

    async def load_or_none(self, run_id: str) -> Journal | None:
        """Loads the journal of a run; None if it was deleted or cannot be read."""
        try:
            return await self.load_cached(run_id)
        except errors.StoreAway:
            raise  # nobody knows whether it is there
        except errors.PlansmithError:
            return None

    async def load_to_write(self, run_id: str) -> Journal:
        """Loads the journal of a run, to write to it; refuses one of another folder or team."""
        journal = await self.load_cached(run_id)
        self.require_ours(journal.run)
        return journal

    async def write(self, journal: Journal, decide: Decide, *, by: e.Actor = e.SYSTEM) -> bool:
        """Writes what is decided about a run, decided anew if others write at the same time.

        False if there is nothing to write.
        """
        while bodies := decide(journal.run):
            try:
                await journal.append(*bodies, by=by)
            except errors.StaleWriter:
                await journal.catch_up()
            else:
                return True
        return False

    async def whole(self, journal: Journal, results: Mapping[str, Json] | None = None) -> Run:
        """Returns a run with its results and report; reads results that are not given."""
        run = with_ready_steps(journal.run)
        whole = await whole_run(self.store, run, results)
        if results is None:
            journal.keep_results(whole)
        return await self.ownership.mark_interrupted(build.with_report(whole, journal.events))

    async def get(self, run_id: str) -> Run:
        """Returns the current state of a run, with its results."""
        return await self.whole(await self.load_verified(run_id))

    async def all(self) -> list[Run]:
        """Returns all runs, oldest first, without results; a damaged one names its damage."""
        return [(await self.listed(run_id))[0] for run_id in await self.store.runs()]

    async def listed(self, run_id: str) -> tuple[Run, RunSummary]:
        """Returns a run without results, and its summary; a damaged one names its damage."""
        try:
            journal = await self.load_cached(run_id)
        except errors.JournalDamaged as damage:
            text, over = with_hint(damage.message, damage.hint), RunStatus.FAILED
            run = Run(id=run_id, phase=over, reason=text, damage=text)
            return run, RunSummary(run_id, 0, over, reason=text, damage=text)
        run = await self.ownership.mark_interrupted(with_ready_steps(journal.run))
        return run, replace(summary_of(journal.run), interrupted=run.interrupted)

    async def events(
        self, run_id: str, *, after: int = 0, follow: bool = False
    ) -> AsyncIterator[e.Event]:
        """Yields the events of a run after a number; with `follow`, also new ones as they come."""
        journal = Journal(run_id, store=self.store, clock=self.clock)
        while True:
            await journal.catch_up()
            for event in journal.events[after:]:
                after = event.number
                yield event
                if isinstance(event.body, e.RunFinished):
                    return
            # A damaged run gets no more events before it is repaired.
            if not follow or journal.damage is not None:
                return
            await self.store.wait(run_id, after=after)

    async def repair(self, run_id: str, *, by: e.Who = "") -> Run:
        """Repairs a damaged run: it is paused at its last good event.

        Later events are moved aside and kept; calls recorded in them count as made.

        Args:
            run_id: The id of the run.
            by: Who acts.
        """
        async with self.ownership.owning(run_id):
            journal = await self.load_verified(run_id)
            await repair.repair(self.store, journal, by=e.actor(by))
            return await self.whole(journal)

    def is_here(self, folder: str) -> bool:
        """Tells whether a run or schedule of a folder may act here; without a folder it may."""
        return not folder or not self.folder or folder == self.folder

    def require_here(self, what: str, folder: str) -> None:
        """Refuses a run or schedule of another folder."""
        if self.is_here(folder):
            return
        hint = Sentence(
            "cd {folder} and do the same there, or use plansmith -C FOLDER",
            folder=shlex.quote(folder),
        )
        if not Path(folder).is_dir():
            hint = Sentence(
                "that folder does not exist any more: restore it, or start a new run here"
            )
        why = Sentence("{what} belongs to the folder {folder}", what=what, folder=folder)
        raise errors.OtherFolder(why, hint=hint)

    def may_resume(self, run: Run) -> bool:
        """Tells whether a run is resumed here unasked: same folder, and the same team or none."""
        return self.is_here(run.folder) and run.options.team == self.team

    def require_ours(self, run: Run) -> None:
        """Refuses a run of another folder, or one whose team of agents is not loaded."""
        self.require_here(Sentence("run {run}", run=run.id), run.folder)
        team = run.options.team
        if team is None or (self.team is not None and self.team.name == team.name):
            return
        database = " --db URL" if team.name == "data" else ""
        hint = f"plansmith go {run.id} --team {team.name}{database}"
        raise errors.OtherTeam(
            Sentence("run {run} needs the agents of the {team} team", run=run.id, team=team.name),
            hint=hint,
        )


def wrong_status(run: Run, hint: str = "") -> errors.Refused:
    """Makes the error for what cannot be done with a run in its status."""
    status = Sentence(f"status.{run.status.value}")
    return errors.Refused(Sentence("run {run} is {status}", run=run.id, status=status), hint=hint)


async def delete_run(journals: Journals, run_id: str, *, by: e.Who = "") -> bool:
    """Deletes a run that is over and that no process works on; false if there is none.

    The intent of a call is stored before the call. So a journal that has not grown since its
    tombstones were made names every call there was.

    Raises:
        Refused: The run is not over, or the store cannot delete.
        RunBusy: A living process has not let go of the run.
    """
    while True:
        try:
            journal = await journals.load_verified(run_id)
        except errors.NotFound:
            return False
        if not journal.run.status.over:
            hint = Sentence("cancel it first: plansmith runs cancel {run}", run=run_id)
            raise errors.Refused(Sentence("run {run} is not over", run=run_id), hint=hint)
        await journals.ownership.require_released(run_id)
        found = [*_tombstones(journal.run, e.actor(by), journals.clock.now())]
        if await journals.store.delete_run(run_id, last=journal.last, tombstones=found):
            return True


def _tombstones(run: Run, by: e.Actor, now: datetime) -> Iterator[Json]:
    for name, step in run.steps.items():
        if step.status is StepStatus.UNKNOWN or (step.unsure and step.status not in _KNOWN):
            yield {
                "run": run.id,
                "step": name,
                "callee": step.callee,
                "key": call_key(run.id, name, step.call_mark),
                "inputs": full_hash(step.inputs),
                "began_at": step.started_at.isoformat() if step.started_at else "",
                "deleted_at": now.isoformat(),
                "deleted_by": by.label,
            }
