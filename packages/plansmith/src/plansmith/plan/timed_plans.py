"""The parts of a plan that run at different times."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from plansmith.plan.graph import upstream
from plansmith.plan.plan import Plan
from plansmith.plan.steps import AskStep
from plansmith.plan.timing import Timing


class TimedPlan(NamedTuple):
    """The steps of a plan that run at the same times, as a plan; None for those that run once."""

    timing: Timing | None
    plan: Plan


def timing_of(plan: Plan, step: str) -> Timing | None:
    """Returns when a step runs again; None if it runs once."""
    return plan.schedules.get(step, plan.schedule)


def conflicting_times(plan: Plan) -> Iterator[tuple[str, str]]:
    """Returns the pairs of steps of which one needs the other and that run at different times.

    A question does not count: it is asked before anything is scheduled.
    """
    if not plan.schedules:
        return
    for step, before in plan.needs.items():
        for other in sorted(before):
            asks = isinstance(plan.by_id[other], AskStep)
            if not asks and timing_of(plan, step) != timing_of(plan, other):
                yield step, other


def plans_by_time(plan: Plan) -> list[TimedPlan]:
    """Returns one plan for each time at which steps run, in the order of their first steps.

    A step's questions go with it, so that nobody takes such a plan for one that asks nothing.
    """
    if not plan.schedules:
        return [TimedPlan(plan.schedule, plan)]
    found: list[TimedPlan] = []
    for timing in dict.fromkeys(timing_of(plan, step.id) for step in plan.steps):
        own = {step.id for step in plan.steps if timing_of(plan, step.id) == timing}
        own |= upstream(plan.needs, own)
        steps = tuple(step for step in plan.steps if step.id in own)
        own_plan = plan.replace(steps=steps, schedule=timing, schedules={}, id=None)
        found.append(TimedPlan(timing, own_plan))
    return found
