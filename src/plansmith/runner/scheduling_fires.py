"""Firing: what is due becomes a run, exactly one an instant, whoever looks and whatever dies."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, Final, cast

from plansmith.errors import (
    Misconfigured,
    PlansmithError,
    RunBusy,
    StaleWriter,
    StoreAway,
)
from plansmith.plan import events as e
from plansmith.plan.data import Json
from plansmith.plan.next_move import AwaitReview, Conclude, Execute, MakePlan, next_move
from plansmith.plan.plan import Plan
from plansmith.plan.run import Run, RunStatus
from plansmith.plan.schedules import (
    ORIGIN,
    Fire,
    FireKind,
    FireState,
    Missed,
    Overlap,
    Schedule,
    failures_in_a_row,
    pending,
)
from plansmith.planner.kit import Planned
from plansmith.ports import ScheduleStore
from plansmith.review.definitions import redefined
from plansmith.runner.desk import SUBMITTED
from plansmith.runner.journal import Entry, Journal
from plansmith.runner.repeating import Repeating
from plansmith.runner.replan import failed_steps
from plansmith.runner.scheduling_holds import Hold
from plansmith.runner.templates import TemplateBook

BEAT_S: Final = 30.0
# Whoever carries a fire out says every BEAT_S that it lives; silent for so long, it is dead.
LEFT: Final = timedelta(seconds=4 * BEAT_S)
_LONG_AGO: Final = datetime(1970, 1, 1, tzinfo=UTC)
_AT_ONCE: Final = 16
_ENDS: Final = {
    RunStatus.DONE: FireState.DONE,
    RunStatus.ANSWERED: FireState.DONE,
    RunStatus.CANCELLED: FireState.CANCELLED,
}


class Firing(Repeating):
    """Turns due instants into runs."""

    def __init__(self, **revising: Any) -> None:
        super().__init__(**revising)
        self._holds: dict[tuple[str, datetime], Hold] = {}
        self._carrying: set[asyncio.Task[None]] = set()
        self._stirred = asyncio.Event()
        self._next: dict[str, tuple[int, datetime | None]] = {}

    @property
    def shelf(self) -> ScheduleStore:
        """The store, where it keeps schedules."""
        if not hasattr(self.store, "put_schedule"):
            raise Misconfigured("this store keeps no schedules", hint="use SQLite or PostgreSQL")
        return cast("ScheduleStore", self.store)

    async def tick(self, now: datetime | None = None) -> list[Fire]:
        """Deal with all that is due now; returns the fires that were begun by this process.

        Their runs go on by themselves: `carried` waits for them.
        """
        now = now or self.clock.now()
        open_fires: dict[str, list[Fire]] = defaultdict(list)
        for fire in await self.shelf.open_fires():
            open_fires[fire.schedule].append(fire)
        begun: list[Fire] = []
        for schedule in await self.shelf.schedules():
            if not self.is_here(schedule.folder):
                continue  # it fires in its own folder, by whoever keeps schedules there
            tended = [await self._tend(schedule, each, now) for each in open_fires[schedule.id]]
            still = [each for each in tended if each.state.open]
            if schedule.removed or schedule.paused:
                continue
            try:
                begun += await self._deal(schedule, still, now)
            except Misconfigured as error:  # such as a zone that this machine does not know
                await self.pause_for(schedule, f"its times cannot be computed: {error}")
        return begun

    async def carried(self) -> None:
        """Wait until every fire that this process carries out is over or waits for a person."""
        while self._carrying:
            await asyncio.wait(list(self._carrying))

    async def close(self) -> None:
        """Stop carrying out, leaving every fire to the next process at once."""
        runs = {hold.fire.run for hold in self._holds.values()}
        conducting = [future for run, (_, future) in self._active.items() if run in runs]
        stopping: list[asyncio.Future[Any]] = [*self._carrying, *conducting]
        for each in stopping:
            each.cancel()
        await asyncio.gather(*stopping, return_exceptions=True)
        while self._holds:
            _, hold = self._holds.popitem()
            await hold.mark(seen=_LONG_AGO)
        await super().close()

    async def _deal(self, schedule: Schedule, open_: list[Fire], now: datetime) -> list[Fire]:
        """Begin what is due or queued of a schedule that is neither paused nor removed."""
        first = self.upcoming(schedule)
        if first is None or schedule.starts(first) > now:
            return await self._start_queued(schedule, open_, now)
        what = pending(schedule, now)
        if what.settled is None or await self.judged(schedule):
            return []
        if what.passed is not None:
            at, note = what.passed
            await self.shelf.put_fire(
                Fire(
                    schedule=schedule.id,
                    due=at,
                    state=FireState.MISSED,
                    note=note,
                    at=now,
                    seen=now,
                    ended=now,
                )
            )
        begun = await self._start_queued(schedule, open_, now)
        for at, kind in what.fires:
            fire = self._placed(schedule, at, kind, open_, now, many=len(what.fires) > 1)
            if await self.shelf.put_fire(fire):
                open_ += [fire] if fire.state.open else []
                begun += [fire] if self._began(schedule, fire) else []
        await self.changed(schedule, settled=what.settled)
        return begun

    def _placed(
        self,
        schedule: Schedule,
        at: datetime,
        kind: FireKind,
        open_: Sequence[Fire],
        now: datetime,
        *,
        many: bool,
    ) -> Fire:
        """The row of an instant, by the policy on runs that still go on."""
        fire = Fire(schedule=schedule.id, due=at, kind=kind, run=self._ids(), at=now, seen=now)
        if not open_ or schedule.overlap is Overlap.ALLOW:
            return fire
        one_by_one = schedule.missed is Missed.ALL and (many or kind is FireKind.LATE)
        queued = any(each.state is FireState.QUEUED for each in open_)
        if one_by_one or (schedule.overlap is Overlap.QUEUE and not queued):
            return fire.replace(state=FireState.QUEUED, note="waits for the run before")
        before = next((each for each in open_ if each.state is not FireState.QUEUED), open_[0])
        waits = before.state is FireState.WAITING
        why = f"the run of {before.due:%Y-%m-%d %H:%M} UTC {'waits' if waits else 'goes on'} still"
        why = f"{why}, and one is queued" if queued else why
        return fire.replace(state=FireState.SKIPPED, run="", note=why, ended=now)

    async def _start_queued(
        self, schedule: Schedule, open_: list[Fire], now: datetime
    ) -> list[Fire]:
        """Start queued fires, oldest first, as soon as there is room for them."""
        begun: list[Fire] = []
        room = _AT_ONCE if schedule.overlap is Overlap.ALLOW else 1
        room -= sum(each.state is not FireState.QUEUED for each in open_)
        for index, fire in enumerate(open_):
            if fire.state is not FireState.QUEUED or room <= 0:
                continue
            room -= 1
            started = fire.replace(
                version=fire.version + 1, state=FireState.CLAIMED, note="", seen=now
            )
            open_[index] = started
            if await self.shelf.put_fire(started) and self._began(schedule, started):
                begun.append(started)
        return begun

    async def _tend(self, schedule: Schedule, fire: Fire, now: datetime) -> Fire:
        """See to a fire that is open: settle it, heal it, or leave it to whoever has it."""
        if fire.key in self._holds or (fire.state is FireState.QUEUED and not schedule.removed):
            return fire
        hold = Hold(fire, self.shelf)
        journal = Journal(fire.run, store=self.store, clock=self.clock)
        await journal.catch_up()
        if journal.damage is not None and not journal.run.status.over:
            await hold.mark(state=FireState.FAILED, note=str(journal.damage), ended=now)
            return hold.fire
        if schedule.removed and not journal.events:
            ending = {"note": "the schedule was removed", "ended": now}
            await hold.mark(state=FireState.CANCELLED, **ending)
        elif journal.run.status.over:
            await self._ended(schedule, hold, journal.run)
        elif not journal.events:  # its claimer died before the run was there, or is making it
            self._began(schedule, fire)
        elif _is_ours(fire, journal.run, now) and await hold.mark(seen=now):
            self._began(schedule, hold.fire)
        return hold.fire

    def _began(self, schedule: Schedule, fire: Fire) -> bool:
        """Start carrying a fire out in the background, if it is one to be carried out."""
        if fire.state not in (FireState.CLAIMED, FireState.RUNNING, FireState.WAITING):
            return False
        hold = self._holds[fire.key] = Hold(fire, self.shelf)
        task = asyncio.get_running_loop().create_task(self._carry(schedule, hold))
        self._carrying.add(task)
        task.add_done_callback(lambda _: self._put_down(task, hold))
        return True

    def _put_down(self, task: asyncio.Task[None], hold: Hold) -> None:
        self._carrying.discard(task)
        if not task.cancelled():
            self._holds.pop(hold.fire.key, None)
            error = task.exception()
            if error is not None:  # not even the row could be written: the next tick heals it
                self.tell(f"a fire of {hold.fire.due:%Y-%m-%d %H:%M} UTC was lost: {error}")
        self._stirred.set()

    async def _carry(self, schedule: Schedule, hold: Hold) -> None:
        """Make the run of a fire, conduct it, and write down what came of it."""
        beating = asyncio.ensure_future(self._beat(hold))
        try:
            await self._make_run(schedule, hold.fire)
            if await hold.mark(state=FireState.RUNNING, note="", seen=self.clock.now()):
                self.tell(f"schedule {schedule.name}: run {hold.fire.run}")
                await self._ended(schedule, hold, await self.run(hold.fire.run))
        except (StaleWriter, RunBusy, StoreAway):
            pass  # another process carries this one out, or a later tick does
        except Exception as error:  # noqa: BLE001 - whatever it is, the schedule goes on and tells
            ending = {"note": f"it could not be carried out: {error}", "ended": self.clock.now()}
            await hold.mark(state=FireState.FAILED, **ending)
            await self.judged(schedule)
        finally:
            beating.cancel()

    async def _beat(self, hold: Hold) -> None:
        while True:
            await self.clock.sleep(BEAT_S)
            with suppress(PlansmithError):  # a store that is busy now is asked again
                await hold.mark(seen=self.clock.now())

    async def _make_run(self, schedule: Schedule, fire: Fire) -> None:
        """The run of a fire, under the id that its row names; one that is there stays."""
        journal = self.new_journal(fire.run)
        await journal.catch_up()
        if journal.events:
            return
        plan = await self.plan_of(schedule)
        options: dict[str, Json] = {**schedule.options, "mode": "review"}
        if schedule.budget.to_json():
            options["budget"] = schedule.budget.to_json()
        created = e.RunCreated(
            request=schedule.request or (plan.goal if plan else ""),
            locale=plan.locale if plan else "en",
            options=options,
            origin=f"{ORIGIN}{schedule.id}",
            folder=schedule.folder,
        )
        by = e.actor(schedule.by)
        if plan is None:
            self.need_model()
            await journal.append(created, by=by)
            return
        problems = await self.usable(plan)
        reviewed = await self._standing(schedule, plan)
        start = [(created, by)]
        about = {"origin": "template"} if schedule.template else SUBMITTED
        await self.propose(
            journal, plan, problems, start=start, reviewed=reviewed, about=about, by=by
        )

    async def plan_of(self, schedule: Schedule) -> Plan | None:
        """What a schedule would run now; nothing when each fire is planned anew."""
        if schedule.template:
            found = await TemplateBook(self).plan(schedule.template, schedule.inputs)
            return await self.pinned(found)
        return await self.pinned(schedule.plan) if schedule.plan else None

    async def _standing(self, schedule: Schedule, plan: Plan) -> Sequence[Entry]:
        """The person's standing approval of exactly this plan, or the question for one."""
        others = redefined(schedule.tools, await self.definitions(plan))
        if plan.hash == schedule.approved and not others:
            given = e.PlanApproved(hash=plan.hash, tools=schedule.tools)
            approved = given, e.actor(schedule.approved_by)
            why = f"schedule {schedule.name}: this plan was approved for every fire"
            return [approved, e.RunStarted(hash=plan.hash, reason=why)]
        another = "another plan was approved" if schedule.approved else "no plan is approved yet"
        another = "; ".join(others) if plan.hash == schedule.approved else another
        asked = await self.review(plan)
        more = asked[0].reasons if asked else ()
        reasons = (f"for schedule {schedule.name} {another}", *more)
        return [e.ReviewAsked(hash=plan.hash, reasons=reasons)]

    async def propose_made(
        self, journal: Journal, planned: Planned, *, cause: str = "", **entries: Sequence[Entry]
    ) -> None:
        """Put a plan forward that a model made; for a fire, under the standing approval."""
        origin = journal.run.origin
        if origin.startswith(ORIGIN) and planned.plan is not None and "reviewed" not in entries:
            schedules = {each.id: each for each in await self.shelf.schedules()}
            schedule = schedules.get(origin.removeprefix(ORIGIN))
            if schedule is not None:
                entries["reviewed"] = await self._standing(schedule, planned.plan)
        await super().propose_made(journal, planned, cause=cause, **entries)

    async def end(
        self, journal: Journal, *, reason: str = "", results: Mapping[str, Json] | None = None
    ) -> bool:
        """End a run; a fire in which something failed says why nothing else was tried."""
        run = journal.run
        failed = failed_steps(run) if run.origin.startswith(ORIGIN) and self._model else []
        if failed and not reason and not run.cancel_asked:
            only = "a schedule runs the plan that was approved and no other"
            reason = f"failed: {', '.join(failed[:5])}; {only}"
        return await super().end(journal, reason=reason, results=results)

    async def _ended(self, schedule: Schedule, hold: Hold, run: Run) -> Fire:
        """Write down how a run stands; failures count, and too many in a row pause."""
        now = self.clock.now()
        if run.status.over:
            state = _ENDS.get(run.status, FireState.FAILED)
            await hold.mark(state=state, note=run.reason, seen=now, ended=now)
            self.tell(f"schedule {schedule.name}: {state.value} {run.reason}".rstrip())
            if state is FireState.FAILED:
                await self.judged(schedule)
        elif not isinstance(next_move(run), MakePlan | Execute | Conclude):
            await hold.mark(state=FireState.WAITING, note=waits_for(run), seen=now)
        return hold.fire

    async def judged(self, schedule: Schedule) -> bool:
        """Whether too many fires failed in a row; then the schedule is paused, and says so."""
        recent = await self.shelf.fires(schedule.id, limit=schedule.max_failures + 50)
        count = failures_in_a_row(schedule, recent)
        if count < schedule.max_failures:
            return False
        notes = [fire.note for fire in recent if fire.state is FireState.FAILED and fire.note]
        last = f"; the last: {notes[0]}" if notes else ""
        await self.pause_for(schedule, f"{count} fires in a row failed{last}")
        return True

    async def pause_for(self, schedule: Schedule, reason: str) -> None:
        """Pause a schedule by itself, with the reason."""
        self.tell(f"schedule {schedule.name} is paused: {reason}")
        await self.changed(schedule, paused=True, reason=reason)

    async def changed(self, schedule: Schedule, **changes: Any) -> Schedule:
        """A schedule with other values in some fields, whatever others change meanwhile."""
        while True:
            if changes.get("settled"):
                changes["settled"] = max(changes["settled"], schedule.settled)
            after = schedule.replace(version=schedule.version + 1, **changes)
            if await self.shelf.put_schedule(after):
                return after
            known = {each.id: each for each in await self.shelf.schedules()}
            schedule = known[schedule.id]

    def upcoming(self, schedule: Schedule) -> datetime | None:
        """The first instant of a schedule that is not dealt with; computed once a version."""
        version, at = self._next.get(schedule.id, (0, None))
        if version != schedule.version:
            at = schedule.upcoming()
            self._next[schedule.id] = schedule.version, at
        return at


def _is_ours(fire: Fire, run: Run, now: datetime) -> bool:
    """Whether a run is to be gone on with here: approved since, or left behind by the dead."""
    if next_move(run) == Execute(begun=False):
        return True
    return fire.state is not FireState.WAITING and now - fire.seen > LEFT


def waits_for(run: Run) -> str:
    """What a run waits for, in a few words."""
    if isinstance(next_move(run), AwaitReview):
        return "waits for your approval"
    if run.questions:
        return f"asks: {next(iter(run.questions.values())).text}"
    return f"is {run.status.value}{f': {run.reason}' if run.reason else ''}"
