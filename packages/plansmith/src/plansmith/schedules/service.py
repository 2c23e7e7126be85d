"""Creates, changes, pauses and lists schedules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, Unpack

from plansmith.errors import Misconfigured, NotFound, PlansmithError, Refused, StaleDecision
from plansmith.plan import events as e
from plansmith.plan.data import Json
from plansmith.plan.plan import Plan
from plansmith.plan.run import Run
from plansmith.plan.schedules import (
    Fire,
    FireKind,
    FireState,
    Schedule,
    make_schedule,
    passed_over,
)
from plansmith.plan.sentence import Sentence, joined
from plansmith.plan.timing import Timing, next_fires
from plansmith.runs.service import RunService
from plansmith.schedules.approval import StandingApproval, need_second_scheduler, requester
from plansmith.schedules.firing import Firing
from plansmith.schedules.names import free_name
from plansmith.schedules.parts import refuse_parts, schedule_parts, set_aside, source_run
from plansmith.schedules.scope import reasons_attended
from plansmith.schedules.settings import NewSettings, ScheduleSettings
from plansmith.schedules.store import ScheduleStore
from plansmith.schedules.times import check_times, first_of, past_times, replace_missed
from plansmith.templates.book import TemplateBook

LOOK_S: Final = 5.0
_MIN_PREFIX: Final = 4


class Schedules:
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

    def __init__(
        self, *, runs: RunService, templates: TemplateBook, approval: StandingApproval
    ) -> None:
        self._runs = runs
        self.firing = Firing(runs=runs, templates=templates, approval=approval)

    @property
    def shelf(self) -> ScheduleStore:
        """Returns the store of schedules."""
        return self.firing.store

    async def close(self) -> None:
        """Stops all fires of this process; another process may continue them at once."""
        await self.firing.close()

    async def tick(self, now: datetime | None = None) -> list[Fire]:
        """Starts all that is due now; returns the fires that this process started.

        Their runs continue in the background: `carried` waits for them.

        Args:
            now: The time to go by; None takes that of the clock.
        """
        return await self.firing.tick(now)

    async def carried(self) -> None:
        """Waits until every fire of this process is over or waits for a person."""
        await self.firing.carried()

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
        given = {"timing": timing, "plan": plan, "template": template, "request": request}
        fields = given | {"inputs": {**(inputs or {})}, "name": name, **settings}
        return await self._create(fields, run, approve, by, part_of)

    async def _create(
        self, given: dict[str, Any], run: str, approve: str, by: e.Who, part_of: Run | None
    ) -> Schedule:
        if run:
            part_of = await source_run(run, self._runs)
            goal = part_of.plan.goal if part_of.plan else ""
            given |= {
                "plan": part_of.plan,
                "request": given["request"] or goal or part_of.request,
            }
        plan, wanted = given["plan"], given["name"]
        given |= {
            "name": wanted or "schedule",
            "timing": given["timing"] or (plan.schedule if plan else None),
            "by": requester(part_of, self._runs.intake.policy) or e.actor(by).name,
        }
        made = await self._approved(self._new(given), approve, by, part_of)
        schedule = made.replace(name=free_name(made, await self.all(), wanted=wanted))
        if not await self.shelf.put_schedule(schedule):
            return await self.get(schedule.id)
        self.firing.changed_event.set()
        if run:
            await set_aside(run, [schedule], by=by, runs=self._runs)
        return schedule

    async def create_each(self, run: str, *, approve: str, by: e.Who = "") -> list[Schedule]:
        """Creates a schedule for each time in a run's plan; what runs once stays in the run.

        Args:
            run: The id of the run.
            approve: The hash of the whole plan.
        """
        return await schedule_parts(run, approve=approve, by=by, schedules=self, runs=self._runs)

    def _new(self, fields: dict[str, Any]) -> Schedule:
        refuse_parts(fields["plan"])
        if fields["timing"] is None:
            raise Misconfigured(
                Sentence("the schedule has no times"),
                hint=Sentence("give a timing, such as daily_at"),
            )
        if (team := self._runs.journals.team) is not None:
            hint = Sentence("run it yourself: schedules cannot set up a team")
            raise Refused(
                Sentence("the {name} team cannot be scheduled", name=team.name), hint=hint
            )
        starts = dict.fromkeys(("created", "settled", "watched"), self._runs.clock.now())
        own = {"id": self._runs.journals.new_id(), "folder": self._runs.journals.recorded_folder}
        return check_times(make_schedule(own | fields | starts))

    async def _approved(
        self, schedule: Schedule, approve: str, by: e.Who, source: Run | None = None
    ) -> Schedule:
        """Returns the schedule with a person's approval of exactly the plan it runs."""
        who = e.actor(by)
        if who.kind != "person":
            raise Refused(Sentence("a {kind} cannot approve a schedule", kind=who.kind))
        plan = await self.firing.plan_of(schedule)
        if plan is None:
            return schedule.replace(approved=approve, approved_by=who.name if approve else "")
        await self.require_unattended(plan)
        if approve != plan.hash:
            hint = Sentence("review it and approve its hash: {hash}", hash=plan.hash)
            if approve:
                raise StaleDecision(Sentence("this is not the hash of the plan"), hint=hint)
            raise Refused(
                Sentence("a scheduled plan runs unattended and needs approval"), hint=hint
            )
        await need_second_scheduler(plan, who, source, self._runs.intake)
        kept = plan if schedule.plan is not None else None
        tools = await self._runs.intake.definitions(plan)
        return schedule.replace(plan=kept, approved=approve, approved_by=who.name, tools=tools)

    async def require_unattended(self, plan: Plan) -> None:
        """Checks that a plan can run unattended.

        Args:
            plan: The plan.

        Raises:
            Refused: It cannot; the message gives every reason.
        """
        await self._runs.intake.usable(plan)
        reasons = reasons_attended(
            plan, limits=self._runs.execution.limits, **await self._runs.intake.known(plan)
        )
        if reasons:
            why = Sentence("this plan cannot run unattended: {reasons}", reasons=joined(reasons))
            raise Refused(why, hint=Sentence("change the plan, or run it yourself"))

    async def all(self) -> list[Schedule]:
        """Returns all schedules that are not removed, oldest first."""
        return [each for each in await self.shelf.schedules() if not each.removed]

    async def get(self, name: str) -> Schedule:
        """Returns a schedule.

        Raises:
            NotFound: There is no such schedule.
            Misconfigured: Several schedules have this name or beginning.
        """
        schedules = await self.all()
        wanted = " ".join(name.split()).lower()
        found = [each for each in schedules if wanted in (each.name.lower(), each.id)]
        if not found and len(wanted) >= _MIN_PREFIX:
            found = [each for each in schedules if each.id.startswith(wanted)]
        if not found:
            hint = Sentence("plansmith schedule list lists them")
            raise NotFound(Sentence("there is no schedule '{name}'", name=name), hint=hint)
        if len(found) > 1:
            hint = Sentence("give an id: {ids}", ids=[each.id for each in found[:3]])
            raise Misconfigured(f"{name!r} fits {len(found)} schedules", hint=hint)
        return found[0]

    async def _own_schedule(self, name: str) -> Schedule:
        """Returns a schedule of this folder."""
        schedule = await self.get(name)
        self._runs.journals.require_here(f"schedule {schedule.name}", schedule.folder)
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
        fields: dict[str, Any] = {
            each: getattr(schedule, each) for each in Schedule.model_fields
        } | dict(settings)
        if timing is not None:
            fields |= {"timing": timing, "settled": self._runs.clock.now()}
        if plan is not None:
            fields |= {"plan": plan, "template": "", "inputs": {}}
        wanted = check_times(make_schedule(fields))
        if plan is not None or approve:
            wanted = await self._approved(wanted, approve, by)
        changes = {
            each: getattr(wanted, each)
            for each in Schedule.model_fields
            if getattr(wanted, each) != getattr(schedule, each)
        }
        after = await self.firing.changed(schedule, **changes)
        self.firing.changed_event.set()
        return after

    async def pause(self, name: str, *, reason: str = "", by: e.Who = "") -> Schedule:
        """Pauses a schedule: nothing fires until `resume`; running runs go on.

        Args:
            reason: Why, for the list.
        """
        who = e.actor(by).label or Sentence("a person")
        reason = reason or Sentence("paused by {who}", who=who)
        return await self.firing.changed(await self.get(name), paused=True, reason=reason)

    async def resume(self, name: str) -> Schedule:
        """Ends the pause of a schedule; times that passed meanwhile are recorded as missed.

        Raises:
            Refused: It is not paused.
        """
        schedule = await self._own_schedule(name)
        if not schedule.paused:
            raise Refused(Sentence("schedule {name} is not paused", name=schedule.name))
        now = self._runs.clock.now()
        passed = passed_over(schedule, now, Sentence("passed while it was paused"))
        if passed is not None:
            row = self._row(schedule, passed[0], now, state=FireState.MISSED, note=passed[1])
            await self.shelf.put_fire(row.replace(ended=now))
        fresh = {"paused": False, "reason": "", "settled": now, "watched": now}
        after = await self.firing.changed(schedule, **fresh)
        self.firing.changed_event.set()
        return after

    async def remove(self, name: str) -> Schedule:
        """Removes a schedule; its history and its runs are kept."""
        return await self.firing.changed(await self.get(name), removed=True)

    async def fire_now(self, name: str) -> Fire:
        """Fires once, now, even if the schedule is paused or running; `carried` waits for it."""
        schedule = await self._own_schedule(name)
        now = at = self._runs.clock.now()
        while True:
            fire = self._row(schedule, at, now, kind=FireKind.NOW, run=self._runs.journals.new_id())
            if await self.shelf.put_fire(fire):
                self.firing.start(schedule, fire)
                return fire
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
        now = self._runs.clock.now()
        if until > now or since >= until:
            raise Misconfigured(Sentence("`until` must be in the past, and `since` before it"))
        queued: list[Fire] = []
        taken: list[Fire] = []
        for at in past_times(schedule, since=since, until=until):
            row = self._row(
                schedule, at, now, kind=FireKind.BACKFILL, run=self._runs.journals.new_id()
            )
            row = row.replace(state=FireState.QUEUED)
            (queued if await self.shelf.put_fire(row) else taken).append(row)
        queued += await replace_missed(self.shelf, taken) if taken else []
        self.firing.changed_event.set()
        return sorted(queued, key=lambda each: each.due)

    def _row(self, schedule: Schedule, at: datetime, now: datetime, **fields: Any) -> Fire:
        return Fire(schedule=schedule.id, due=at, at=now, seen=now, **fields)

    async def history(self, name: str, *, limit: int = 50) -> Sequence[Fire]:
        """Returns the fires of a schedule, newest first.

        Args:
            limit: How many at most.
        """
        return await self.shelf.fires((await self.get(name)).id, limit=limit)

    async def next_fires(self, name: str, *, count: int = 5) -> list[datetime]:
        """Returns the next times of a schedule in UTC; none while it is paused.

        Args:
            count: How many.
        """
        schedule = await self.get(name)
        if schedule.paused:
            return []
        after = max(schedule.settled, self._runs.clock.now())
        return next_fires(schedule.timing, after=after, anchor=schedule.created, count=count)

    async def keep(self, *, look_s: float = LOOK_S) -> None:
        """Starts what is due until it is cancelled.

        Args:
            look_s: Within how many seconds changes by other processes are noticed.
        """
        while True:
            self.firing.changed_event.clear()
            wait = look_s
            try:
                await self.tick()
                wait = min(look_s, await self._until_next())
            except PlansmithError as error:
                self._runs.planning.tell(
                    Sentence("the schedules could not be read: {error}", error=str(error))
                )
            await first_of(self._runs.clock.sleep(wait), self.firing.changed_event.wait())

    async def _until_next(self) -> float:
        """Returns the seconds until something is due."""
        now = self._runs.clock.now()
        is_here = self._runs.journals.is_here
        active = [each for each in await self.all() if not each.paused and is_here(each.folder)]
        coming = [(each, at) for each in active if (at := self.firing.upcoming(each)) is not None]
        first = min((each.starts(at) for each, at in coming), default=None)
        return max((first - now).total_seconds(), 0.01) if first else LOOK_S
