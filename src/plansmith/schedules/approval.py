"""Which plan of a schedule a person let run unattended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from plansmith.engine.journal import Entry
from plansmith.errors import Misconfigured
from plansmith.plan import events as e
from plansmith.plan.plan import Plan
from plansmith.plan.run import Run
from plansmith.plan.schedules import Schedule
from plansmith.plan.sentence import Sentence
from plansmith.ports import PlanStore, ScheduleStore
from plansmith.review.coverage import redefined
from plansmith.runs.intake import PlanIntake


def keeps_schedules(store: PlanStore) -> bool:
    """Whether a store has a place for schedules."""
    return hasattr(store, "put_schedule")


def shelf_of(store: PlanStore) -> ScheduleStore:
    """The store as one that keeps schedules."""
    if not keeps_schedules(store):
        raise Misconfigured("this store keeps no schedules", hint="use SQLite or PostgreSQL")
    return cast("ScheduleStore", store)


class StandingApproval:
    """Says what stands behind the plan of a fire: an approval given before, or a question."""

    def __init__(self, *, intake: PlanIntake) -> None:
        self._intake = intake

    async def of_run(self, run: Run, plan: Plan) -> Sequence[Entry] | None:
        """What stands behind a plan that was made for a run; nothing where it is no fire."""
        if run.origin.kind != "schedule":
            return None
        schedules = {each.id: each for each in await shelf_of(self._intake.store).schedules()}
        schedule = schedules.get(run.origin.id)
        return None if schedule is None else await self.of(schedule, plan)

    async def of(self, schedule: Schedule, plan: Plan) -> Sequence[Entry]:
        """The person's standing approval of exactly this plan, or the question for one."""
        others = redefined(schedule.tools, await self._intake.definitions(plan))
        if plan.hash == schedule.approved and not others:
            given = e.PlanApproved(hash=plan.hash, tools=schedule.tools)
            approved = given, e.actor(schedule.approved_by)
            why = Sentence("start.schedule", schedule=schedule.name)
            return [approved, e.RunStarted(hash=plan.hash, reason=why)]
        if plan.hash == schedule.approved:
            first = Sentence("review.schedule_redefined", schedule=schedule.name, changes=others)
        elif schedule.approved:
            first = Sentence("review.schedule_other", schedule=schedule.name)
        else:
            first = Sentence("review.schedule_none", schedule=schedule.name)
        asked = await self._intake.review(plan)
        more = asked[0].reasons if asked else ()
        return [e.ReviewAsked(hash=plan.hash, reasons=(first, *more))]
