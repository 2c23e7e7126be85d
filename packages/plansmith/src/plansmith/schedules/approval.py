"""Finds out whether a person has approved the plan of a schedule for unattended runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from plansmith.errors import Refused
from plansmith.plan import events as e
from plansmith.plan.second_person import applies, same_user
from plansmith.plan.sentence import Sentence
from plansmith.review.coverage import redefined
from plansmith.runs.answering import need_second_person
from plansmith.schedules.store import ScheduleStore

if TYPE_CHECKING:
    from plansmith.engine.journal import Entry
    from plansmith.plan.plan import Plan
    from plansmith.plan.run import Run
    from plansmith.plan.schedules import Schedule
    from plansmith.review.settings import ReviewPolicy
    from plansmith.runs.intake import PlanIntake


class StandingApproval:
    """Returns the approval of a scheduled plan if it was given before, else a review request."""

    def __init__(self, *, intake: PlanIntake) -> None:
        self._intake = intake

    async def of_run(self, run: Run, plan: Plan) -> Sequence[Entry] | None:
        """Returns the same for the new plan of a run; None if no schedule started the run."""
        if run.origin.kind != "schedule":
            return None
        schedules = {each.id: each for each in await ScheduleStore(self._intake.store).schedules()}
        schedule = schedules.get(run.origin.id)
        return None if schedule is None else await self.of(schedule, plan)

    async def of(self, schedule: Schedule, plan: Plan) -> Sequence[Entry]:
        """Returns the approval of exactly this plan if there is one, else a review request."""
        changed = redefined(schedule.tools, await self._intake.definitions(plan))
        acts = bool(await self._intake.acting(plan))
        alone = applies(self._intake.policy.second_person, acts=acts) and same_user(
            e.actor(schedule.by).identity, e.actor(schedule.approved_by).identity
        )
        if plan.hash == schedule.approved and not changed and not alone:
            given = e.PlanApproved(hash=plan.hash, tools=schedule.tools)
            approved = given, e.actor(schedule.approved_by)
            why = Sentence(
                "the schedule {schedule}: this plan was approved for every time it runs",
                schedule=schedule.name,
            )
            return [approved, e.RunStarted(hash=plan.hash, reason=why)]
        if plan.hash == schedule.approved and not changed:
            first = Sentence("second.asked", user=schedule.by)
        elif plan.hash == schedule.approved:
            first = Sentence("review.schedule_redefined", schedule=schedule.name, changes=changed)
        elif schedule.approved:
            first = Sentence("review.schedule_other", schedule=schedule.name)
        else:
            first = Sentence("review.schedule_none", schedule=schedule.name)
        asked = await self._intake.review(plan)
        more = asked[0].reasons if asked else ()
        return [e.ReviewAsked(hash=plan.hash, reasons=(first, *more))]


async def need_second_scheduler(
    plan: Plan, who: e.Actor, source: Run | None, intake: PlanIntake
) -> None:
    """Refuses the approval of a plan by its own author, where the settings want a second person.

    `source` is the run that the plan comes from; a plan that comes alone is of who schedules it.
    """
    if source is not None:
        need_second_person(source, who, intake.policy)
    elif applies(intake.policy.second_person, acts=bool(await intake.acting(plan))):
        raise Refused(
            Sentence("Another user has to schedule a run that you asked for"),
            hint=Sentence("Ask somebody with the role approver or admin"),
        )


def requester(source: Run | None, policy: ReviewPolicy) -> str:
    """Returns who asked for a run, if it matters that another user schedules it."""
    asked_by = source.asked_by if source is not None else None
    return asked_by.identity if asked_by and policy.second_person != "never" else ""
