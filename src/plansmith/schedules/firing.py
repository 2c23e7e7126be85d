"""Turns due times into runs, exactly one each."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from plansmith.errors import (
    Misconfigured,
    PlansmithError,
    RunBusy,
    StaleWriter,
    StoreAway,
)
from plansmith.plan.next_move import AwaitReview, Conclude, Execute, MakePlan, next_move
from plansmith.plan.origin import Origin
from plansmith.plan.plan import Plan
from plansmith.plan.run import Run, RunStatus
from plansmith.plan.schedules import (
    Fire,
    FireKind,
    FireState,
    Missed,
    Overlap,
    Schedule,
    failures_in_a_row,
    pending,
)
from plansmith.plan.sentence import Sentence, joined
from plansmith.ports import ScheduleStore
from plansmith.runs.service import SUBMITTED, RunService
from plansmith.schedules.approval import StandingApproval, shelf_of
from plansmith.templates.book import TemplateBook

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


class Hold:
    """A fire that this process carries out, as its row stands."""

    def __init__(self, fire: Fire, shelf: ScheduleStore) -> None:
        self.fire = fire
        self._shelf = shelf
        self._writing = asyncio.Lock()

    async def mark(self, **changes: Any) -> bool:
        """Write the row's next version; false when another process has taken it over."""
        async with self._writing:
            after = self.fire.replace(version=self.fire.version + 1, **changes)
            if not await self._shelf.put_fire(after):
                return False
            self.fire = after
            return True


class Firing:
    """Turns due instants into runs."""

    def __init__(
        self, *, runs: RunService, templates: TemplateBook, approval: StandingApproval
    ) -> None:
        self._runs = runs
        self._templates = templates
        self._approval = approval
        self._holds: dict[tuple[str, datetime], Hold] = {}
        self.carrying: set[asyncio.Task[None]] = set()
        self.stirred = asyncio.Event()
        self._next: dict[str, tuple[int, datetime | None]] = {}

    @property
    def shelf(self) -> ScheduleStore:
        """The store, where it keeps schedules."""
        return shelf_of(self._runs.store)

    async def tick(self, now: datetime | None = None) -> list[Fire]:
        """Deal with all that is due now; returns the fires that were begun by this process.

        Their runs go on by themselves: `carried` waits for them.
        """
        now = now or self._runs.clock.now()
        open_fires: dict[str, list[Fire]] = defaultdict(list)
        for fire in await self.shelf.open_fires():
            open_fires[fire.schedule].append(fire)
        begun: list[Fire] = []
        for schedule in await self.shelf.schedules():
            if not self._runs.journals.is_here(schedule.folder):
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
        while self.carrying:
            await asyncio.wait(list(self.carrying))

    async def close(self) -> None:
        """Stop carrying out, leaving every fire to the next process at once."""
        runs = [hold.fire.run for hold in self._holds.values()]
        executing = [each for run in runs if (each := self._runs.execution.of(run)) is not None]
        stopping: list[asyncio.Future[Any]] = [*self.carrying, *executing]
        for each in stopping:
            each.cancel()
        await asyncio.gather(*stopping, return_exceptions=True)
        while self._holds:
            _, hold = self._holds.popitem()
            await hold.mark(seen=_LONG_AGO)

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
                begun += [fire] if self.began(schedule, fire) else []
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
        fire = Fire(
            schedule=schedule.id,
            due=at,
            kind=kind,
            run=self._runs.journals.new_id(),
            at=now,
            seen=now,
        )
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
            if await self.shelf.put_fire(started) and self.began(schedule, started):
                begun.append(started)
        return begun

    async def _tend(self, schedule: Schedule, fire: Fire, now: datetime) -> Fire:
        """See to a fire that is open: settle it, heal it, or leave it to whoever has it."""
        if fire.key in self._holds or (fire.state is FireState.QUEUED and not schedule.removed):
            return fire
        hold = Hold(fire, self.shelf)
        journal = self._runs.journals.new(fire.run)
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
            self.began(schedule, fire)
        elif _is_ours(fire, journal.run, now) and await hold.mark(seen=now):
            self.began(schedule, hold.fire)
        return hold.fire

    def began(self, schedule: Schedule, fire: Fire) -> bool:
        """Start carrying a fire out in the background, if it is one to be carried out."""
        if fire.state not in (FireState.CLAIMED, FireState.RUNNING, FireState.WAITING):
            return False
        hold = self._holds[fire.key] = Hold(fire, self.shelf)
        task = asyncio.get_running_loop().create_task(self._carry(schedule, hold))
        self.carrying.add(task)
        task.add_done_callback(lambda _: self._put_down(task, hold))
        return True

    def _put_down(self, task: asyncio.Task[None], hold: Hold) -> None:
        self.carrying.discard(task)
        if not task.cancelled():
            self._holds.pop(hold.fire.key, None)
            error = task.exception()
            if error is not None:  # not even the row could be written: the next tick heals it
                self._runs.planner.tell(
                    f"a fire of {hold.fire.due:%Y-%m-%d %H:%M} UTC was lost: {error}"
                )
        self.stirred.set()

    async def _carry(self, schedule: Schedule, hold: Hold) -> None:
        """Make the run of a fire, conduct it, and write down what came of it."""
        beating = asyncio.ensure_future(self._beat(hold))
        try:
            await self._make_run(schedule, hold.fire)
            if await hold.mark(state=FireState.RUNNING, note="", seen=self._runs.clock.now()):
                self._runs.planner.tell(f"schedule {schedule.name}: run {hold.fire.run}")
                await self._ended(schedule, hold, await self._runs.run(hold.fire.run))
        except (StaleWriter, RunBusy, StoreAway):
            pass  # another process carries this one out, or a later tick does
        except Exception as error:  # noqa: BLE001 - whatever it is, the schedule goes on and tells
            ending = {
                "note": f"it could not be carried out: {error}",
                "ended": self._runs.clock.now(),
            }
            await hold.mark(state=FireState.FAILED, **ending)
            await self.judged(schedule)
        finally:
            beating.cancel()

    async def _beat(self, hold: Hold) -> None:
        while True:
            await self._runs.clock.sleep(BEAT_S)
            with suppress(PlansmithError):  # a store that is busy now is asked again
                await hold.mark(seen=self._runs.clock.now())

    async def _make_run(self, schedule: Schedule, fire: Fire) -> None:
        """The run of a fire, under the id that its row names; one that is there stays."""
        journal = self._runs.journals.new(fire.run)
        await journal.catch_up()
        if journal.events:
            return
        plan = await self.plan_of(schedule)
        options = schedule.options.replace(mode="review")
        if schedule.budget.to_json():
            options = options.replace(budget=schedule.budget.to_json())
        await self._runs.create(
            schedule.request,
            plan=plan,
            run_id=fire.run,
            options=options,
            origin=Origin(kind="schedule", id=schedule.id),
            folder=schedule.folder,
            about={"origin": "template"} if schedule.template else SUBMITTED,
            reviewed=await self._approval.of(schedule, plan) if plan is not None else None,
            by=schedule.by,
        )

    async def plan_of(self, schedule: Schedule) -> Plan | None:
        """What a schedule would run now; nothing when each fire is planned anew."""
        if schedule.template:
            found = await self._templates.plan(schedule.template, schedule.inputs)
            return await self._runs.intake.pinned(found)
        return await self._runs.intake.pinned(schedule.plan) if schedule.plan else None

    async def _ended(self, schedule: Schedule, hold: Hold, run: Run) -> Fire:
        """Write down how a run stands; failures count, and too many in a row pause."""
        now = self._runs.clock.now()
        if run.status.over:
            state = _ENDS.get(run.status, FireState.FAILED)
            await hold.mark(state=state, note=run.reason, seen=now, ended=now)
            self._runs.planner.tell(
                f"schedule {schedule.name}: {state.value} {run.reason}".rstrip()
            )
            if state is FireState.FAILED:
                await self.judged(schedule)
        elif not isinstance(next_move(run), MakePlan | Execute | Conclude):
            await hold.mark(state=FireState.WAITING, note=_waits_for(run), seen=now)
        return hold.fire

    async def judged(self, schedule: Schedule) -> bool:
        """Whether too many fires failed in a row; then the schedule is paused, and says so."""
        recent = await self.shelf.fires(schedule.id, limit=schedule.max_failures + 50)
        count = failures_in_a_row(schedule, recent)
        if count < schedule.max_failures:
            return False
        notes = [fire.note for fire in recent if fire.state is FireState.FAILED and fire.note]
        failed = Sentence("schedule.failures", count=count)
        last = Sentence("schedule.last_failure", note=notes[0]) if notes else ""
        await self.pause_for(schedule, joined([failed, last]))
        return True

    async def pause_for(self, schedule: Schedule, reason: str) -> None:
        """Pause a schedule by itself, with the reason."""
        self._runs.planner.tell(f"schedule {schedule.name} is paused: {reason}")
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


def _waits_for(run: Run) -> str:
    """What a run waits for, in a few words."""
    if isinstance(next_move(run), AwaitReview):
        return "waits for your approval"
    if run.questions:
        return f"asks: {next(iter(run.questions.values())).text}"
    return f"is {run.status.value}{f': {run.reason}' if run.reason else ''}"
