"""Creates, changes, pauses and lists schedules."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import count, islice, pairwise
from typing import Any, Final, TypedDict, Unpack

from plansmith.clock import first_of
from plansmith.errors import Misconfigured, NotFound, PlansmithError, Refused
from plansmith.plan import events as e
from plansmith.plan.data import Json
from plansmith.plan.limits import Bound, BudgetLimits
from plansmith.plan.plan import Plan
from plansmith.plan.refs import pieces
from plansmith.plan.run import Run, RunStatus
from plansmith.plan.run_options import RunOptions
from plansmith.plan.sentence import Sentence, joined
from plansmith.plan.steps import AgentStep
from plansmith.plan.timed_plans import plans_by_time
from plansmith.plan.timing import Timing, due, next_fires, require_valid_timing
from plansmith.runs.decisions import require_hash
from plansmith.schedules.approval import require_second_scheduler, why_not_unattended
from plansmith.schedules.firing import Firing
from plansmith.schedules.schedule import (
    Fire,
    FireKind,
    FireState,
    Missed,
    Overlap,
    Schedule,
    make_schedule,
    passed_over,
)

LOOK_S: Final = 5.0
_MIN_PREFIX: Final = 4
_MAX_BACKFILLED: Final = 1000
_AHEAD: Final = 50
_ALL: Final = 10**9
_NAME_LENGTH: Final = 60


class ScheduleSettings(TypedDict, total=False):
    """Optional settings of a schedule.

    Attributes:
        overlap: What happens if the last run still goes on: `skip`, `queue` or `allow`.
        missed: What happens to missed times: `one` run for all, `none`, or `all`.
        window_minutes: How far back `all` goes.
        jitter_seconds: A delay of up to so many seconds, the same in every process.
        max_failures: After how many failures in a row the schedule is paused.
        budget: The limits of each fire.
        bounds: By tool or agent, the calls that each fire may make with values of other tools, such
            as `{"send": {"most": 20, "only": {"to": ["ann@example.org"]}}}`.
        options: The options of each run.
    """

    overlap: Overlap | str
    missed: Missed | str
    window_minutes: int
    jitter_seconds: int
    max_failures: int
    budget: BudgetLimits | Mapping[str, Json]
    bounds: Mapping[str, Bound | Mapping[str, Json]]
    options: RunOptions | Mapping[str, Json]


class NewSettings(ScheduleSettings, total=False):
    """Settings of a new schedule; those of `ScheduleSettings`, and `id`.

    Attributes:
        id: Your own id; if it is taken, the schedule that has it is returned.
    """

    id: str


class Schedules(Firing):
    """Creates, changes and lists schedules; `keep` starts what is due until it is cancelled.

    Methods about one schedule raise `NotFound` if there is none of that name.

    Args of methods:
        name: The name or the id of the schedule, or the beginning of its id.
        by: Who acts; only a person can approve.

    Examples:
        >>> from plansmith import Plansmith, read_plan, tool
        >>> from plansmith.plan.timing import make_timing
        >>> @tool(effect="read")
        ... def price(item: str) -> int:
        ...     return 3
        >>> smith = Plansmith(tools=[price])
        >>> steps = [{"id": "tea", "tool": "price", "inputs": {"item": "tea"}}]
        >>> plan = read_plan({"goal": "Watch the price of tea", "steps": steps})
        >>> monday = make_timing(cron="0 9 * * MON", timezone="Europe/Oslo")
        >>> schedule = await smith.schedules.create(timing=monday, plan=plan, approve=plan.hash)
        >>> len(await smith.schedules.next_fires(schedule.name, count=3))
        3
    """

    async def create(  # noqa: PLR0913 - all by name
        self,
        *,
        timing: Timing | None = None,
        plan: Plan | None = None,
        run: str = "",
        template: str = "",
        inputs: Mapping[str, Json] | None = None,
        request: str = "",
        approve: str = "",
        name: str = "",
        by: e.Who = "",
        part_of: Run | None = None,
        **settings: Unpack[NewSettings],
    ) -> Schedule:
        """Creates a schedule for a plan, a run's plan, a template, or a request.

        Args:
            timing: When it fires; None takes the times of the plan.
            plan: The plan to run.
            run: The id of a run whose plan is used.
            template: The name of a template to run.
            inputs: The values of its parameters.
            request: A request that is planned at each fire; its plans wait for approval.
            approve: The hash of the one plan that may run unattended.
            name: The name of the new schedule; empty makes one.
            part_of: The run that the schedule comes from.
            **settings: See `NewSettings`.

        Raises:
            Misconfigured: The times or the settings cannot be used.
            Refused: The plan cannot run unattended; the message gives every reason.
            StaleDecision: The plan has another hash than the approved one.
        """
        if run:
            part_of = await self._source(run)
            plan = part_of.plan
            request = request or (plan.goal if plan else "") or part_of.request
        fields: dict[str, Any] = {
            "timing": timing or (plan.schedule if plan else None),
            "plan": plan,
            "template": template,
            "inputs": {**(inputs or {})},
            "request": request,
            "name": name or "schedule",
            "by": e.actor(by).identity or e.actor(by).name,
        }
        one_suffices = self._intake.policy.second_person == "never"
        if part_of is not None and part_of.requested_by and not one_suffices:
            # It matters who asked for the run: another user has to schedule it.
            fields["by"] = part_of.requested_by.identity or fields["by"]
        made = await self._approved(self._new(fields | {**settings}), approve, by, part_of)
        schedule = made.replace(name=await self._free_name(made, wanted=name))
        if not await self.store.put(schedule):
            return await self.get(schedule.id)
        self.changed_event.set()
        if run:
            await self._end_as_scheduled(run, [schedule], by)
        return schedule

    async def _source(self, run_id: str) -> Run:
        source = await self._journals.get(run_id)
        self._journals.require_here(f"run {run_id}", source.folder)
        return source

    def _new(self, fields: dict[str, Any]) -> Schedule:
        if fields["plan"] is not None and fields["plan"].schedules:
            hint = Sentence(
                "submit the plan and schedule its run, which makes a schedule for each time"
            )
            raise Refused(Sentence("the steps of this plan run at different times"), hint=hint)
        if fields["timing"] is None:
            hint = Sentence("give a timing, such as daily_at")
            raise Misconfigured(Sentence("the schedule has no times"), hint=hint)
        if (team := self._journals.team) is not None:
            why = Sentence("the {name} team cannot be scheduled", name=team.name)
            raise Refused(why, hint=Sentence("run it yourself: schedules cannot set up a team"))
        starts = dict.fromkeys(("created", "handled_until", "failures_since"), self._clock.now())
        own = {"id": self._journals.new_id(), "folder": self._journals.recorded_folder}
        return _check_times(make_schedule(own | fields | starts))

    async def _approved(
        self, schedule: Schedule, approve: str, by: e.Who, source: Run | None = None
    ) -> Schedule:
        """Returns the schedule with a person's approval of exactly the plan it runs."""
        who, plan = _require_person(by), await self.plan_of(schedule)
        signed: dict[str, Any] = {"approved": approve}
        if approve:
            signed |= {"approved_by": who.name, "approver": who.user}
        if plan is None:
            return schedule.replace(**signed)
        await self.require_unattended(plan, schedule.bounds)
        if not approve:
            hint = Sentence("review it and approve its hash: {hash}", hash=plan.hash)
            why = Sentence("a scheduled plan runs unattended and needs approval")
            raise Refused(why, hint=hint)
        require_hash(plan, approve)
        await require_second_scheduler(plan, who, source, self._intake)
        kept = plan if schedule.plan is not None else None
        tools = await self._registry.definitions(plan)
        return schedule.replace(plan=kept, tools=tools, **signed)

    async def _free_name(self, schedule: Schedule, *, wanted: str) -> str:
        """Returns a name that no other schedule has: the wanted one, or its request or goal."""
        if wanted:
            if await self.store.has_name(wanted):
                raise Refused(
                    Sentence("there is a schedule '{name}' already; use another name", name=wanted)
                )
            return wanted
        text = schedule.request or (schedule.plan.goal if schedule.plan else "")
        words = "".join(each if each.isprintable() else " " for each in text or schedule.template)
        first = " ".join(words.split())[:_NAME_LENGTH].strip() or "schedule"
        if not await self.store.has_name(first):
            return first
        taken = {each.name.lower() for each in await self.all()}
        names = (f"{first} {number}" for number in count(2))
        return next(each for each in names if each.lower() not in taken)

    async def create_each(self, run: str, *, approve: str, by: e.Who = "") -> list[Schedule]:
        """Creates a schedule for each time in a run's plan; what runs once stays in the run.

        Args:
            run: The id of the run.
            approve: The hash of the whole plan. It covers the plans of its times and nothing else.

        Raises:
            Refused: The run has no plan, is over, or none of its steps is to be repeated.
        """
        _require_person(by)
        source = await self._source(run)
        plan = source.plan
        if plan is None or source.status.over:
            state = Sentence(f"status.{source.status}")
            why = Sentence("run {run} has no plan to schedule: it is {state}", run=run, state=state)
            raise Refused(why)
        repeated = [timed for timed in plans_by_time(plan) if timed.timing is not None]
        if not repeated:
            why = Sentence("no step of run {run} is to be repeated", run=run)
            raise Refused(why, hint="run it")
        require_hash(plan, approve)
        for timed in repeated:
            await self.require_unattended(timed.plan)
        made: list[Schedule] = []
        for place, timed in enumerate(repeated, start=1):
            # The id follows from the run: no two processes create the same schedule.
            own_id = f"{run}-{place}"
            known = await self.store.schedule(own_id)
            if known is None or known.removed:
                tasks = [step for step in timed.plan.steps if isinstance(step, AgentStep)]
                texts = ["".join(map(str, pieces(step.title or step.task))) for step in tasks]
                known = await self.create(
                    timing=timed.timing,
                    plan=timed.plan,
                    approve=timed.plan.hash,
                    request="; ".join(texts) or source.request,
                    by=by,
                    part_of=source,
                    id=own_id,
                )
            made.append(known)
        once = [timed.plan for timed in plans_by_time(plan) if timed.timing is None]
        if not once:
            await self._end_as_scheduled(run, made, by)
            return made
        # What runs once stays in the run: who approved the whole has approved it too. It is
        # recorded as an edit of Plansmith, so that nobody is the author of what they approve.
        one_suffices = source.options.second_person == "never"
        left = await self._runs.editing.edit(run, once[0], by=by if one_suffices else e.SYSTEM)
        if left.phase is RunStatus.REVIEWING and left.plan is not None:
            await self._runs.decide(run, approve=left.plan.hash, by=by)
        return made

    async def _end_as_scheduled(self, run_id: str, made: Sequence[Schedule], by: e.Who) -> None:
        """Ends a run that was only planned, because its plan runs as these schedules."""
        journal = await self._journals.load_verified(run_id)
        if journal.run.status in (RunStatus.PLANNING, RunStatus.REVIEWING):
            names = ", ".join(each.name for each in made)
            reason = Sentence("it runs as the schedule {schedule}", schedule=names)
            await journal.append(e.RunFinished(status="cancelled", reason=reason), by=e.actor(by))

    async def require_unattended(self, plan: Plan, bounds: Collection[str] = ()) -> None:
        """Refuses a plan that cannot run unattended, with every reason."""
        await self._intake.require_valid(plan)
        known = await self._registry.capabilities(plan)
        limits = self._runs.execution.limits
        if reasons := [*why_not_unattended(plan, known, limits, bounds)]:
            why = Sentence("this plan cannot run unattended: {reasons}", reasons=joined(reasons))
            raise Refused(why, hint=Sentence("change the plan, or run it yourself"))

    async def all(self) -> list[Schedule]:
        """Returns all schedules that are not removed, oldest first."""
        return [each for each in await self.store.schedules() if not each.removed]

    async def get(self, name: str) -> Schedule:
        """Returns a schedule.

        Raises:
            NotFound: There is no such schedule.
            Misconfigured: Several schedules have this name or beginning.
        """
        known = await self.all()
        wanted = " ".join(name.split()).lower()
        found = [each for each in known if wanted in (each.name.lower(), each.id)]
        if not found and len(wanted) >= _MIN_PREFIX:
            found = [each for each in known if each.id.startswith(wanted)]
        if not found:
            hint = Sentence("plansmith schedule list lists them")
            raise NotFound(Sentence("there is no schedule '{name}'", name=name), hint=hint)
        if len(found) > 1:
            hint = Sentence("give an id: {ids}", ids=[each.id for each in found[:3]])
            raise Misconfigured(f"{name!r} fits {len(found)} schedules", hint=hint)
        return found[0]

    async def _own_schedule(self, name: str) -> Schedule:
        schedule = await self.get(name)
        self._journals.require_here(f"schedule {schedule.name}", schedule.folder)
        return schedule

    async def change(
        self,
        name: str,
        *,
        timing: Timing | None = None,
        plan: Plan | None = None,
        approve: str = "",
        by: e.Who = "",
        **settings: Unpack[ScheduleSettings],
    ) -> Schedule:
        """Changes the times, the plan or the settings of a schedule.

        Args:
            timing: New times; they count from now on.
            plan: A new plan; it needs approval like the first.
            approve: The hash of the new plan, or of a template's or a request's plan that changed.
            **settings: See `ScheduleSettings`.
        """
        schedule = await self._own_schedule(name)
        fields: dict[str, Any] = {**dict(schedule), **settings}
        if timing is not None:
            fields |= {"timing": timing, "handled_until": self._clock.now()}
        if plan is not None:
            fields |= {"plan": plan, "template": "", "inputs": {}}
        wanted = _check_times(make_schedule(fields))
        if plan is not None or approve or wanted.bounds != schedule.bounds:
            wanted = await self._approved(wanted, approve, by)
        changes = {name: each for name, each in wanted if each != getattr(schedule, name)}
        after = await self.store.change(schedule, **changes)
        self.changed_event.set()
        return after

    async def pause(self, name: str, *, reason: str = "", by: e.Who = "") -> Schedule:
        """Pauses a schedule: nothing fires until `resume`; running runs go on.

        Args:
            reason: Why, for the list.
        """
        who = e.actor(by).label or Sentence("a person")
        reason = reason or Sentence("paused by {who}", who=who)
        return await self.store.change(await self.get(name), paused=True, reason=reason)

    async def resume(self, name: str) -> Schedule:
        """Ends the pause of a schedule; times that passed meanwhile are recorded as missed.

        Raises:
            Refused: It is not paused.
        """
        schedule = await self._own_schedule(name)
        if not schedule.paused:
            raise Refused(Sentence("schedule {name} is not paused", name=schedule.name))
        now = self._clock.now()
        passed = passed_over(schedule, now, Sentence("passed while it was paused"))
        if passed is not None:
            ended: dict[str, Any] = {"state": FireState.MISSED, "note": passed[1], "ended": now}
            await self.store.put(Fire(schedule=schedule.id, due=passed[0], at=now, **ended))
        fresh = {"paused": False, "reason": "", "handled_until": now, "failures_since": now}
        after = await self.store.change(schedule, **fresh)
        self.changed_event.set()
        return after

    async def remove(self, name: str) -> Schedule:
        """Removes a schedule; its history and its runs are kept."""
        return await self.store.change(await self.get(name), removed=True)

    async def fire_now(self, name: str) -> Fire:
        """Fires once, now, even if the schedule is paused or running; `carried` waits for it."""
        schedule = await self._own_schedule(name)
        now = at = self._clock.now()
        while True:
            begun: dict[str, Any] = {"kind": FireKind.NOW, "run": self._journals.new_id()}
            fire = Fire(schedule=schedule.id, due=at, at=now, **begun)
            if await self.store.put(fire):
                return self.start(schedule, fire)
            at += timedelta(microseconds=1)

    async def backfill(self, name: str, *, since: datetime, until: datetime) -> list[Fire]:
        """Queues a fire for every due time that had none, oldest first.

        Args:
            since: The first time.
            until: The end; it must be in the past.

        Raises:
            Misconfigured: The two times are not in this order, or not in the past.
            Refused: That would be too many fires.
        """
        schedule = await self._own_schedule(name)
        now = self._clock.now()
        if until > now or since >= until:
            raise Misconfigured(Sentence("`until` must be in the past, and `since` before it"))
        first = since - timedelta(microseconds=1)
        found = due(schedule.timing, after=first, until=until, anchor=schedule.created)
        times = list(islice(found, _MAX_BACKFILLED + 1))
        if len(times) > _MAX_BACKFILLED:
            hint = Sentence("at most {most} at a time: choose a shorter time", most=_MAX_BACKFILLED)
            raise Refused(Sentence("that would be too many fires"), hint=hint)
        known = {each.due: each for each in await self.store.fires(schedule.id, limit=_ALL)}
        queued: list[Fire] = []
        for at in times:
            fields: dict[str, Any] = {"state": FireState.QUEUED, "run": self._journals.new_id()}
            if (before := known.get(at)) is not None:
                if before.state not in (FireState.MISSED, FireState.SKIPPED):
                    continue  # it has had its run
                note = f"was {before.state}: {before.note}"
                fields |= {"version": before.version + 1, "note": note}
            row = Fire(schedule=schedule.id, due=at, at=now, kind=FireKind.BACKFILL, **fields)
            queued += [row] if await self.store.put(row) else []
        self.changed_event.set()
        return queued

    async def history(self, name: str, *, limit: int = 50) -> Sequence[Fire]:
        """Returns the fires of a schedule, newest first.

        Args:
            limit: How many at most.
        """
        return await self.store.fires((await self.get(name)).id, limit=limit)

    async def next_fires(self, name: str, *, count: int = 5) -> list[datetime]:
        """Returns the next times of a schedule in UTC; none while it is paused.

        Args:
            count: How many.
        """
        return (await self.get(name)).next_times(self._clock.now(), count=count)

    async def run_forever(self, *, look_s: float = LOOK_S) -> None:
        """Starts what is due until it is cancelled.

        Args:
            look_s: Within how many seconds changes by other processes are noticed.
        """
        while True:
            self.changed_event.clear()
            wait = look_s
            try:
                await self.tick()
                wait = min(look_s, await self._until_next())
            except PlansmithError as error:
                self._tell(Sentence("the schedules could not be read: {error}", error=str(error)))
            await first_of(self._clock.sleep(wait), self.changed_event.wait())

    async def _until_next(self) -> float:
        is_here = self._journals.is_here
        active = [each for each in await self.all() if not each.paused and is_here(each.folder)]
        coming = [(each, at) for each in active if (at := self.upcoming(each)) is not None]
        first = min((each.starts(at) for each, at in coming), default=None)
        return max((first - self._clock.now()).total_seconds(), 0.01) if first else LOOK_S


def _require_person(by: e.Who) -> e.Actor:
    who = e.actor(by)
    if who.kind != "person":
        raise Refused(Sentence("a {kind} cannot approve a schedule", kind=who.kind))
    return who


def _check_times(schedule: Schedule) -> Schedule:
    """Returns the schedule; refuses it if its times are invalid, past or too close."""
    require_valid_timing(schedule.timing)
    upcoming = next_fires(
        schedule.timing, after=schedule.handled_until, anchor=schedule.created, count=_AHEAD
    )
    if not upcoming:
        past = Sentence("{timing} is in the past", timing=str(schedule.timing))
        raise Refused(past, hint=Sentence("give a time in the future"))
    gaps = [(after - before).total_seconds() for before, after in pairwise(upcoming)]
    if gaps and schedule.jitter_seconds >= min(gaps):
        most = f"{min(gaps):g}"
        raise Misconfigured(
            Sentence("jitter_seconds is too large: {seconds}", seconds=schedule.jitter_seconds),
            hint=Sentence("give less than {most}, the seconds between two fires", most=most),
        )
    return schedule
