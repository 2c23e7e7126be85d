"""Schedules the parts of one plan that run at different times, under one approval."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from plansmith.engine.journal import SYSTEM
from plansmith.errors import Refused, StaleDecision
from plansmith.plan import events as e
from plansmith.plan.refs import pieces
from plansmith.plan.run import Run, RunStatus
from plansmith.plan.schedules import Part, parts
from plansmith.plan.sentence import Sentence
from plansmith.plan.steps import AgentStep

if TYPE_CHECKING:
    from plansmith.plan.plan import Plan
    from plansmith.plan.schedules import Schedule
    from plansmith.plan.timing import Timing
    from plansmith.runs.service import RunService


class Schedules(Protocol):
    """What creates single schedules."""

    async def all(self) -> list[Schedule]:
        """Returns all schedules that are not removed."""
        ...

    async def create(
        self,
        *,
        timing: Timing | None,
        plan: Plan | None,
        request: str,
        approve: str,
        by: e.Who,
        part_of: Run | None,
        id: str,  # noqa: A002 - the field of a schedule
    ) -> Schedule:
        """Creates a schedule under the approval of its plan's hash, once for each id."""
        ...

    async def require_unattended(self, plan: Plan) -> None:
        """Refuses a plan that cannot run unattended."""
        ...


def refuse_parts(plan: Plan | None) -> None:
    """Refuses one schedule for a plan whose steps run at different times."""
    if plan is not None and plan.schedules:
        raise Refused(
            Sentence("the steps of this plan run at different times"),
            hint=Sentence(
                "submit the plan and schedule its run, which makes a schedule for each time"
            ),
        )


async def source_run(run_id: str, runs: RunService) -> Run:
    """Returns a run of this folder."""
    source = await runs.journals.get(run_id)
    runs.journals.require_here(f"run {run_id}", source.folder)
    return source


async def schedule_parts(
    run_id: str, *, approve: str, by: e.Who, schedules: Schedules, runs: RunService
) -> list[Schedule]:
    """Creates one schedule for each time in a run's plan; what runs once stays in the run.

    The approval of the whole plan's hash covers its parts and nothing else. Called again after a
    crash, or by two processes, it creates only what is missing.
    """
    source = await source_run(run_id, runs)
    plan = _approved(source, approve, by)
    timed = [part for part in parts(plan) if part.timing is not None]
    for part in timed:
        await schedules.require_unattended(part.plan)
    known = {each.id: each for each in await schedules.all()}
    made: list[Schedule] = []
    for place, part in enumerate(timed, start=1):
        # The id follows from the run: no two processes create the same schedule.
        own_id = f"{run_id}-{place}"
        made.append(known.get(own_id) or await _scheduled(part, source, own_id, by, schedules))
    once = [part.plan for part in parts(plan) if part.timing is None]
    if once:
        await _keep(run_id, once[0], by=by, runs=runs)
    else:
        await set_aside(run_id, made, by=by, runs=runs)
    return made


async def set_aside(run_id: str, made: list[Schedule], *, by: e.Who, runs: RunService) -> None:
    """Ends a run whose plan became schedules."""
    reason = Sentence(
        "it runs as the schedule {schedule}", schedule=", ".join(each.name for each in made)
    )
    await runs.set_aside(run_id, reason=reason, by=by)


def _approved(source: Run, approve: str, by: e.Who) -> Plan:
    """Returns the plan of a run, if a person approves exactly this plan."""
    plan = source.plan
    if e.actor(by).kind != "person":
        raise Refused(Sentence("a {kind} cannot approve a schedule", kind=e.actor(by).kind))
    if plan is None or source.status.over:
        state = Sentence(f"status.{source.status}")
        raise Refused(
            Sentence("run {run} has no plan to schedule: it is {state}", run=source.id, state=state)
        )
    if all(part.timing is None for part in parts(plan)):
        raise Refused(
            Sentence("no step of run {run} is to be repeated", run=source.id), hint="run it"
        )
    if approve != plan.hash:
        hint = Sentence("review it and approve its hash: {hash}", hash=plan.hash)
        raise StaleDecision(Sentence("this is not the hash of the plan"), hint=hint)
    return plan


async def _scheduled(
    part: Part, source: Run, own_id: str, by: e.Who, schedules: Schedules
) -> Schedule:
    return await schedules.create(
        timing=part.timing,
        plan=part.plan,
        approve=part.plan.hash,
        request=_about(part.plan) or source.request,
        by=by,
        part_of=source,
        id=own_id,
    )


def _about(plan: Plan) -> str:
    tasks = [step.title or step.task for step in plan.steps if isinstance(step, AgentStep)]
    return "; ".join("".join(map(str, pieces(task))) for task in tasks)


async def _keep(run_id: str, once: Plan, *, by: e.Who, runs: RunService) -> None:
    """Leaves in a run what runs once: the person who approved the whole has approved it too."""
    run = await runs.journals.get(run_id)
    # The part is the program's choice, so that it makes nobody the author of what they approve.
    alone = run.options.second_person == "never"
    run = await runs.editing.edit(run_id, once, by=by if alone else SYSTEM)
    if run.phase is RunStatus.REVIEWING and run.plan is not None:
        await runs.decide(run_id, approve=run.plan.hash, by=by)
