"""Decides whether a plan can run unattended, and whether a person has approved that."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from plansmith.errors import Refused
from plansmith.plan import events as e
from plansmith.plan.capability import AgentSpec, Effect, ToolSpec, is_freed
from plansmith.plan.limits import Limits
from plansmith.plan.plan import Plan
from plansmith.plan.refs import RESERVED
from plansmith.plan.second_person import applies, same_user
from plansmith.plan.sentence import Sentence
from plansmith.plan.steps import (
    MAX_NESTING,
    AgentStep,
    AnyStep,
    AskStep,
    MapStep,
    PlanStep,
    ToolStep,
)
from plansmith.review.coverage import redefined
from plansmith.review.policy import effects
from plansmith.runs.decisions import need_second_person
from plansmith.schedules.store import ScheduleStore

if TYPE_CHECKING:
    from plansmith.engine.journal import Entry
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
        name = schedule.name
        if plan.hash != schedule.approved:
            code = "review.schedule_other" if schedule.approved else "review.schedule_none"
            first = Sentence(code, schedule=name)
        elif changed:
            first = Sentence("review.schedule_redefined", schedule=name, changes=changed)
        elif alone:
            first = Sentence("second.asked", user=schedule.by)
        else:
            why = Sentence(
                "the schedule {schedule}: this plan was approved for every time it runs",
                schedule=name,
            )
            approved = e.PlanApproved(hash=plan.hash, tools=schedule.tools)
            started = e.RunStarted(hash=plan.hash, reason=why)
            return [(approved, e.actor(schedule.approved_by)), started]
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


def reasons_attended(
    plan: Plan,
    *,
    tools: Mapping[str, ToolSpec],
    agents: Mapping[str, AgentSpec],
    templates: Mapping[str, Plan],
    limits: Limits,
) -> tuple[str, ...]:
    """Returns the reasons why a plan cannot run unattended; empty if it can."""
    calls = list(_calls(plan, templates))
    reasons: list[str] = []
    # For example a plan that only replies that it cannot be done.
    if not any(isinstance(step, ToolStep | AgentStep) for step, _ in calls):
        reasons.append(Sentence("it calls no tool and no agent, so nothing would be done"))
    for step, data in calls:
        match step:
            case AskStep():
                reasons.append(Sentence("{step} asks a person", step=step.id))
            case AgentStep(agent=name) if not may_run_unattended(agents.get(name)):
                reasons.append(
                    Sentence(
                        "{step} calls the agent {name}, which may change something and is not "
                        "said to work unattended",
                        step=step.id,
                        name=name,
                    )
                )
            case ToolStep() | AgentStep() if data and limits.data != "show":
                changes = [
                    name
                    for name, effect in effects(step, tools=tools, agents=agents)
                    if effect is not Effect.READ and not is_freed(name, effect, limits.data_free)
                ]
                code = "schedule.is_asked" if limits.data == "ask" else "schedule.is_refused"
                reasons += [
                    Sentence(code, step=step.id, name=name, sources=[*data]) for name in changes
                ]
            case _:
                pass
    return tuple(reasons)


def may_run_unattended(agent: AgentSpec | None) -> bool:
    """Tells whether an agent may be called unattended: it only reads, or a person said so."""
    return agent is not None and (agent.effect is Effect.READ or agent.unattended)


def _calls(
    plan: Plan, templates: Mapping[str, Plan], depth: int = 0
) -> Iterator[tuple[AnyStep, list[str]]]:
    """Yields every step that would run, with the steps whose output it gets."""
    asked = {step.id for step in plan.steps if isinstance(step, AskStep)}
    for step in plan.steps:
        if step.disabled:
            continue
        inner: AnyStep = step.each if isinstance(step, MapStep) else step
        # The inner step of a map gets the items of its list.
        names = dict.fromkeys(ref.step for ref in step.refs())
        data = [name for name in names if name not in asked | RESERVED]
        yield inner, data
        if isinstance(inner, PlanStep) and inner.template in templates and depth < MAX_NESTING:
            yield from _calls(templates[inner.template], templates, depth + 1)
