"""Thinks a plan over after each step: when it is due, and whether the answer changes anything."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from plansmith.plan import events as e
from plansmith.plan.run import Run, StepStatus

if TYPE_CHECKING:
    from plansmith.plan.limits import Limits
    from plansmith.plan.plan import Plan

WORK: Final = frozenset({"tool", "agent", "map", "plan"})
_OPEN: Final = frozenset({StepStatus.WAITING, StepStatus.READY})


class Rethinking(NamedTuple):
    """Where a run stands whose plan is thought over after each step.

    `ended` are the steps that ended since the last time. `left` is false once `max_replans`
    answers have changed the plan: then nobody thinks it over any more.
    """

    left: bool = False
    ended: tuple[str, ...] = ()

    @property
    def is_due(self) -> bool:
        """Whether the plan is thought over before another step starts."""
        return self.left and bool(self.ended)


_NOT_AT_ALL: Final = Rethinking()


def rethinking(run: Run, limits: Limits, events: Sequence[e.Event]) -> Rethinking:
    """Returns where a run stands; a run of a schedule keeps the plan that was approved for it."""
    when = run.options.replan or limits.replan
    if when != "after_each" or run.plan is None or run.origin.kind == "schedule" or run.closing:
        return _NOT_AT_ALL
    names = {step.id for step in run.plan.steps if step.kind in WORK}
    ended: list[str] = []
    changes, thinking = 0, False
    for event in events:
        body = event.body
        if isinstance(body, e.ReplanStarted):
            # One that a crash interrupted is still due: what has ended is not forgotten here.
            thinking = body.kind == "rethink"
        elif isinstance(body, (e.PlanProposed, e.RunStarted)):
            changes += thinking and isinstance(body, e.PlanProposed)
            ended, thinking = [], False
        elif isinstance(body, (e.StepDone, e.StepReused)) and body.step in names:
            ended.append(body.step)
    left = changes < limits.max_replans + run.grants.get("replans", 0)
    return Rethinking(left, tuple(ended) if _is_open(run) else ())


def _is_open(run: Run) -> bool:
    """Tells whether a step has not ended: else there is nothing to think over."""
    steps = run.plan.steps if run.plan else ()
    return any(run.steps[step.id].status in _OPEN for step in steps)


def is_same(before: Plan, after: Plan) -> bool:
    """Tells whether two plans run the same steps, in whatever order they are listed."""
    if before.by_id.keys() != after.by_id.keys():
        return False
    ordered = after.replace(steps=tuple(after.by_id[name] for name in before.by_id))
    # Goal and times are the person's: a new plan does not change them.
    own = {"goal": before.goal, "schedule": before.schedule, "schedules": before.schedules}
    return ordered.replace(**own).hash == before.hash
