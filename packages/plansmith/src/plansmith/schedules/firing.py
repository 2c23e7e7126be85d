"""Starts the runs of schedules: exactly one run for each due time."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection
from datetime import datetime
from typing import Any, Final

from plansmith.errors import Misconfigured, RunBusy, StaleWriter, StoreAway
from plansmith.plan.next_move import AwaitReview, EndOrReplan, Execute, MakePlan, goes_on, next_move
from plansmith.plan.plan import Plan
from plansmith.plan.run import Run, RunStatus, StepStatus
from plansmith.plan.run_options import Origin
from plansmith.plan.sentence import Sentence, joined, with_hint
from plansmith.runs.intake import NewRun
from plansmith.runs.service import RunService
from plansmith.runs.template_book import TemplateBook
from plansmith.schedules.approval import standing_approval
from plansmith.schedules.schedule import (
    Fire,
    FireKind,
    FireState,
    Missed,
    Overlap,
    Schedule,
    failures_in_a_row,
    pending,
)
from plansmith.schedules.store import ScheduleStore

_MAX_PARALLEL: Final = 16
_ENDS: Final = {
    RunStatus.DONE: FireState.DONE,
    RunStatus.ANSWERED: FireState.DONE,
    RunStatus.CANCELLED: FireState.CANCELLED,
}
ExecuteRun = Callable[[str], Awaitable[Run]]


class Firing:
    """Starts, continues and records the runs of schedules ("fires").

    Who has put the row of a fire starts it. Afterwards the claim of its run says whether a process
    that lives is at it: a run that nobody owns is continued by whoever looks next. `execute` takes
    a run to its rest: a server that has others carry its runs replaces it.
    """

    def __init__(self, runs: RunService, templates: TemplateBook) -> None:
        self._runs, self._journals, self._clock = runs, runs.journals, runs.clock
        self._intake, self._tell = runs.intake, runs.journals.tell
        self._registry = runs.registry
        self._templates = templates
        # What executes fires here, by their runs, and what was computed of each schedule.
        self._own: dict[str, asyncio.Task[None]] = {}
        self._next: dict[str, tuple[int, datetime | None]] = {}
        self.execute: ExecuteRun = runs.run
        self.changed_event = asyncio.Event()

    @property
    def store(self) -> ScheduleStore:
        """Returns the store of schedules."""
        return ScheduleStore(self._runs.store)

    async def tick(self, now: datetime | None = None) -> list[Fire]:
        """Starts all that is due now, and goes on with what nobody is at; returns what it began.

        Their runs continue in the background: `carried` waits for them.

        Args:
            now: The time to go by; None takes that of the clock.
        """
        now = now or self._clock.now()
        open_fires: dict[str, list[Fire]] = defaultdict(list)
        for fire in await self.store.open_fires():
            open_fires[fire.schedule].append(fire)
        others = {fire.run for some in open_fires.values() for fire in some} - self._own.keys()
        owned = await self._journals.ownership.in_use(others)
        begun: list[Fire] = []
        for schedule in await self.store.schedules():
            if not self._journals.is_here(schedule.folder):
                continue  # it fires only in its own folder
            found = [await self._look_at(schedule, each, owned) for each in open_fires[schedule.id]]
            if schedule.removed or schedule.paused:
                continue
            try:
                still = [each for each in found if each.state.open]
                begun += await self._fire_due(schedule, still, now)
            except Misconfigured as error:  # such as an unknown time zone
                reason = Sentence("its times cannot be computed: {error}", error=error)
                await self._pause(schedule, reason)
        return begun

    @property
    def carrying(self) -> list[asyncio.Task[None]]:
        """Returns what this process executes."""
        return [*self._own.values()]

    async def carried(self) -> None:
        """Waits until every fire of this process is over or waits for a person."""
        while self.carrying:
            await asyncio.wait(self.carrying)

    async def close(self) -> None:
        """Stops all fires of this process; another process may continue them at once."""
        found = map(self._runs.execution.future_of, self._own)
        executing = [each for each in found if each is not None]
        stopping: list[asyncio.Future[Any]] = [*self.carrying, *executing]
        for each in stopping:
            each.cancel()
        await asyncio.gather(*stopping, return_exceptions=True)

    def upcoming(self, schedule: Schedule) -> datetime | None:
        """Returns the first due time that was not handled yet; computed once a version."""
        version, at = self._next.get(schedule.id, (0, None))
        if version != schedule.version:
            at = schedule.upcoming()
            self._next[schedule.id] = schedule.version, at
        return at

    async def _fire_due(
        self, schedule: Schedule, open_fires: list[Fire], now: datetime
    ) -> list[Fire]:
        """Starts the due and queued fires of a schedule that is neither paused nor removed."""
        first = self.upcoming(schedule)
        if first is None or schedule.starts(first) > now:
            return await self._start_queued(schedule, open_fires)
        what = pending(schedule, now)
        if what.handled_until is None or await self._pause_if_failing(schedule):
            return []
        if what.passed is not None:
            at, note = what.passed
            missed = Fire(schedule=schedule.id, due=at, at=now, note=note)
            await self.store.put(missed.replace(state=FireState.MISSED, ended=now))
        begun = await self._start_queued(schedule, open_fires)
        for at, kind in what.fires:
            run = self._journals.new_id()
            fire = Fire(schedule=schedule.id, due=at, kind=kind, run=run, at=now)
            late = len(what.fires) > 1 or kind is FireKind.LATE
            fire = fire.replace(**_overlapping(schedule, open_fires, now, late=late))
            if await self.store.put(fire):
                open_fires += [fire] if fire.state.open else []
                if fire.state is FireState.CLAIMED:
                    begun.append(self.start(schedule, fire))
        await self.store.change(schedule, handled_until=what.handled_until)
        return begun

    async def _start_queued(self, schedule: Schedule, open_fires: list[Fire]) -> list[Fire]:
        begun: list[Fire] = []
        free = _MAX_PARALLEL if schedule.overlap is Overlap.ALLOW else 1
        free -= sum(each.state is not FireState.QUEUED for each in open_fires)
        for index, fire in enumerate(open_fires):
            if fire.state is FireState.QUEUED and free > 0:
                free -= 1
                started = open_fires[index] = fire.next(state=FireState.CLAIMED, note="")
                if await self.store.put(started):
                    begun.append(self.start(schedule, started))
        return begun

    async def _look_at(self, schedule: Schedule, fire: Fire, owned: Collection[str]) -> Fire:
        """Looks at an open fire: records its end, continues it, or leaves it to its process."""
        queued = fire.state is FireState.QUEUED and not schedule.removed
        if fire.run in self._own or queued:
            return fire
        journal, now = self._journals.new(fire.run), self._clock.now()
        await journal.catch_up()
        run, ending = journal.run, dict[str, Any](ended=now)
        if run.status.over:
            return await self._record(schedule, fire, run)
        if journal.damage is not None:
            ending |= {"state": FireState.FAILED, "note": str(journal.damage.error)}
        elif schedule.removed and not journal.events:
            note = Sentence("the schedule was removed")
            ending |= {"state": FireState.CANCELLED, "note": note}
        else:
            # Without events its process died before it created the run, or is creating it.
            goes = not journal.events or fire.state is not FireState.WAITING or goes_on(run)
            if goes and not _sleeps(run, now) and fire.run not in owned:
                self.start(schedule, fire)
            return fire
        return await self.store.change(fire, **ending)

    def start(self, schedule: Schedule, fire: Fire) -> Fire:
        """Starts to execute a fire in the background; returns it."""
        task = asyncio.get_running_loop().create_task(self._execute(schedule, fire))
        self._own[fire.run] = task

        def ended(_: object) -> None:
            self._own.pop(fire.run, None)  # a tick may have begun it, too
            if not task.cancelled() and (error := task.exception()) is not None:
                # The row could not be written: the next tick repairs it.
                due, why = f"{fire.due:%Y-%m-%d %H:%M}", str(error)
                self._tell(Sentence("a fire of {time} UTC was lost: {error}", time=due, error=why))
            self.changed_event.set()

        task.add_done_callback(ended)
        return fire

    async def _execute(self, schedule: Schedule, fire: Fire) -> None:
        try:
            await self._make_run(schedule, fire)
            fire = await self.store.change(fire, state=FireState.RUNNING, note="")
            if fire.state.open:
                self._tell(Sentence("schedule {name}: run {run}", name=schedule.name, run=fire.run))
                await self._record(schedule, fire, await self.execute(fire.run))
            else:
                reason = Sentence("another process had already given this time of the schedule up")
                await self._runs.cancel(fire.run, reason=reason)
        except (StaleWriter, RunBusy, StoreAway):
            pass  # another process or a later tick executes it
        except Exception as error:  # noqa: BLE001 - recorded as the fire's failure
            note = Sentence("it could not be executed: {error}", error=error)
            ended = {"state": FireState.FAILED, "note": note, "ended": self._clock.now()}
            await self.store.change(fire, **ended)
            await self._pause_if_failing(schedule)

    async def _make_run(self, schedule: Schedule, fire: Fire) -> None:
        journal = self._journals.new(fire.run)
        await journal.catch_up()
        if journal.events:
            return
        plan = await self.plan_of(schedule)
        options = schedule.options.replace(mode="review")
        if schedule.budget.to_json():
            options = options.replace(budget=schedule.budget.to_json())
        new = NewRun(
            schedule.request,
            plan,
            by=schedule.by,
            run_id=fire.run,
            options=options,
            origin=Origin(kind="schedule", id=schedule.id),
            folder=schedule.folder,
            plan_origin="template" if schedule.template else "submitted",
            review_events=await standing_approval(self._intake, schedule, plan) if plan else None,
        )
        await self._runs.create(new)

    async def plan_of(self, schedule: Schedule) -> Plan | None:
        """Returns the plan that a schedule would run now; None if each fire is planned again."""
        plan = schedule.plan
        if schedule.template:
            plan = await self._templates.plan(schedule.template, schedule.inputs)
        return await self._registry.with_fixed_templates(plan) if plan is not None else None

    async def _record(self, schedule: Schedule, fire: Fire, run: Run) -> Fire:
        """Records how a run ended or what it waits for; too many failures pause the schedule."""
        if run.status.over:
            state = _ENDS.get(run.status, FireState.FAILED)
            errors = (step.error for step in run.steps.values() if step.status is StepStatus.FAILED)
            why = with_hint(run.reason, next((each for each in errors if each), ""))
            ended = {"state": state, "note": why, "ended": self._clock.now()}
            fire = await self.store.change(fire, **ended)
            fields = {"state": Sentence(f"fire.{state.value}"), "reason": why}
            self._tell(Sentence("schedule {name}: {state} {reason}", name=schedule.name, **fields))
            if state is FireState.FAILED:
                await self._pause_if_failing(schedule)
        elif not isinstance(move := next_move(run), MakePlan | Execute | EndOrReplan):
            note = f"is {run.status.value}{f': {run.reason}' if run.reason else ''}"
            if isinstance(move, AwaitReview):
                note = Sentence("waits for your approval")
            elif run.questions:
                note = f"asks: {next(iter(run.questions.values())).text}"
            fire = await self.store.change(fire, state=FireState.WAITING, note=note)
        return fire

    async def _pause_if_failing(self, schedule: Schedule) -> bool:
        """Pauses a schedule if too many fires failed in a row; true if it did."""
        recent = await self.store.fires(schedule.id, limit=schedule.max_failures + 50)
        count = failures_in_a_row(schedule, recent)
        if count < schedule.max_failures:
            return False
        notes = [fire.note for fire in recent if fire.state is FireState.FAILED and fire.note]
        failed = Sentence("{count} fires in a row failed", count=count)
        last = Sentence("the last: {note}", note=notes[0]) if notes else ""
        await self._pause(schedule, joined([failed, last]))
        return True

    async def _pause(self, schedule: Schedule, reason: str) -> None:
        text = Sentence("schedule {name} is paused: {reason}", name=schedule.name, reason=reason)
        self._tell(text)
        await self.store.change(schedule, paused=True, reason=reason)


def _sleeps(run: Run, now: datetime) -> bool:
    """Tells whether a run waits for a time alone: then nobody owns it, and nothing can be done."""
    if run.calls_open or run.wakes_at is None or run.wakes_at <= now:
        return False
    times = [run.steps[name].wakes_at for name in run.startable_steps]
    return all(each is not None and each > now for each in times)


def _overlapping(
    schedule: Schedule, open_fires: list[Fire], now: datetime, *, late: bool
) -> dict[str, Any]:
    """Returns the fields of a new fire that is queued or skipped, by the overlap policy."""
    if not open_fires or schedule.overlap is Overlap.ALLOW:
        return {}
    queued = any(each.state is FireState.QUEUED for each in open_fires)
    one_by_one = schedule.missed is Missed.ALL and late
    if one_by_one or (schedule.overlap is Overlap.QUEUE and not queued):
        return {"state": FireState.QUEUED, "note": Sentence("waits for the previous run")}
    begun = [each for each in open_fires if each.state is not FireState.QUEUED]
    before = (begun or open_fires)[0]
    waits = before.state is FireState.WAITING
    code = "schedule.still_waits" if waits else "schedule.still_runs"
    more = Sentence("and one is queued") if queued else ""
    why = joined([Sentence(code, time=f"{before.due:%Y-%m-%d %H:%M}"), more])
    return {"state": FireState.SKIPPED, "run": "", "note": why, "ended": now}
