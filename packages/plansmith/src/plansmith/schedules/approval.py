"""Decides whether a plan can run unattended, and whether a person has approved that."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from plansmith.errors import Refused
from plansmith.plan import events as e
from plansmith.plan import steps as st
from plansmith.plan.capability import Capabilities, Effect, is_freed
from plansmith.plan.limits import Limits
from plansmith.plan.plan import Plan
from plansmith.plan.refs import RESERVED
from plansmith.plan.second_person import applies, same_user
from plansmith.plan.sentence import Sentence
from plansmith.review.coverage import redefined
from plansmith.review.policy import ActiveStep, walk_active_steps
from plansmith.runs.decisions import ASK_ANOTHER, require_second_person
from plansmith.schedules.store import ScheduleStore

if TYPE_CHECKING:
    from plansmith.plan.run import Run
    from plansmith.runs.intake import PlanIntake
    from plansmith.schedules.schedule import Schedule


async def approval_of_run(intake: PlanIntake, run: Run, plan: Plan) -> Sequence[e.Entry] | None:
    """Returns what is written with the new plan of a run; None if no schedule started the run."""
    if run.origin.kind != "schedule":
        return None
    schedule = await ScheduleStore(intake.registry.store).schedule(run.origin.id)
    return None if schedule is None else await standing_approval(intake, schedule, plan)


async def standing_approval(
    intake: PlanIntake, schedule: Schedule, plan: Plan
) -> Sequence[e.Entry]:
    """Returns the approval of exactly this plan if there is one, else a review request."""
    name = schedule.name
    approver = e.Actor(kind="person", name=schedule.approved_by, user=schedule.approver)
    acts = bool(await intake.registry.acting(plan))
    approves_own = applies(intake.policy.second_person, acts=acts) and same_user(
        schedule.by, approver.identity
    )
    if plan.hash != schedule.approved:
        code = "review.schedule_other" if schedule.approved else "review.schedule_none"
        first = Sentence(code, schedule=name)
    elif changed := redefined(schedule.tools, await intake.registry.definitions(plan)):
        first = Sentence("review.schedule_redefined", schedule=name, changes=changed)
    elif approves_own:
        first = Sentence("second.asked", user=schedule.by)
    else:
        why = Sentence(
            "the schedule {schedule}: this plan was approved for every time it runs", schedule=name
        )
        approved = e.PlanApproved(hash=plan.hash, tools=schedule.tools, bounds=schedule.bounds)
        return [(approved, approver), e.RunStarted(hash=plan.hash, reason=why)]
    more = [reason for asked in await intake.review(plan) for reason in asked.reasons]
    return [e.ReviewAsked(hash=plan.hash, reasons=(first, *more))]


async def require_second_scheduler(
    plan: Plan, who: e.Actor, source: Run | None, intake: PlanIntake
) -> None:
    """Refuses the approval of a plan by its own author, where the settings want a second person.

    `source` is the run that the plan comes from; a plan that comes alone is of who schedules it.
    """
    if source is not None:
        require_second_person(source, who, intake.policy)
    elif applies(intake.policy.second_person, acts=bool(await intake.registry.acting(plan))):
        why = Sentence("Another user has to schedule a run that you asked for")
        raise Refused(why, hint=ASK_ANOTHER)


def why_not_unattended(
    plan: Plan, capabilities: Capabilities, limits: Limits, bounds: Collection[str] = ()
) -> Iterator[str]:
    """Yields the reasons why a plan cannot run unattended; none if it can.

    Calls within `bounds` need no consent to values from tools.
    """
    calls = [
        (each.step, _data_of(each)) for each in walk_active_steps(plan, capabilities.templates)
    ]
    # An agent that only reads, or of which a person said that it may.
    agents = capabilities.agents.items()
    unattended = {name for name, each in agents if each.effect is Effect.READ or each.unattended}
    # For example a plan that only replies that it cannot be done.
    if not any(isinstance(step, st.ToolStep | st.AgentStep) for step, _ in calls):
        yield Sentence("it calls no tool and no agent, so nothing would be done")
    for step, data in calls:
        match step:
            case st.AskStep():
                yield Sentence("{step} asks a person", step=step.id)
            case st.AgentStep(agent=name) if name not in unattended:
                yield Sentence(
                    "{step} calls the agent {name}, which may change something and is not "
                    "said to work unattended",
                    step=step.id,
                    name=name,
                )
            case st.ToolStep() | st.AgentStep() if (
                data
                and limits.data != "show"
                and not (limits.data == "ask" and step.callee in bounds)
            ):
                code = "schedule.is_asked" if limits.data == "ask" else "schedule.is_refused"
                name, effect = step.callee, capabilities.effect(step)
                if effect is not Effect.READ and not is_freed(name, effect, limits.data_free):
                    yield Sentence(code, step=step.id, name=name, sources=[*data])
            case _:
                pass


def _data_of(active: ActiveStep) -> list[str]:
    """Returns the steps whose output a step gets; inside of a map, also the items of its list."""
    asked = {step.id for step in active.plan.steps if isinstance(step, st.AskStep)}
    around = active.maps[-1][0] if active.maps else None
    whole = around if around is not None and around.each is active.step else active.step
    names = dict.fromkeys(ref.step for ref in whole.input_refs())
    return [name for name in names if name not in asked | RESERVED]
