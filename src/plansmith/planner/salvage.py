"""Salvage: what stands of a plan that as a whole cannot be used, for callers who want that much."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from plansmith.plan.graph import downstream, needs
from plansmith.plan.plan import Plan
from plansmith.plan.problem import Problem, Severity
from plansmith.plan.steps import AnyStep, MapStep, ReplyStep

_UNREADABLE: Final = "PS014"


def salvage(plan: Plan, problems: Sequence[Problem], *, max_steps: int) -> Plan | None:
    """The plan without steps that have errors, what uses them, and replies that tell of them.

    Of too many steps the first are kept, and the last reply. None when nothing is left.
    """
    errors = [each for each in problems if each.severity is Severity.ERROR]
    inner = {step.each.id: step.id for step in plan.steps if isinstance(step, MapStep)}
    bad = {inner.get(each.step, each.step) for each in errors if each.step is not None}
    using = {step.id: frozenset(ref.step for ref in step.refs()) for step in plan.steps}
    known = {name: used & using.keys() for name, used in using.items()}
    gone = bad | downstream(known, [name for name in bad if name in known])
    # An unreadable step has no id any more: nobody knows which reply was to tell of it.
    lost = any(each.code == _UNREADABLE and each.step is None for each in errors)
    behind = downstream(needs(plan), [name for name in gone if name in using])
    kept = [
        step
        for step in plan.steps
        if step.id not in gone and not (isinstance(step, ReplyStep) and (lost or step.id in behind))
    ]
    steps = _cut(kept, max_steps)
    names = {step.id for step in steps}
    loose = [step.replace(after=tuple(n for n in step.after if n in names)) for step in steps]
    return plan.replace(steps=tuple(loose)) if steps else None


def _cut(steps: Sequence[AnyStep], most: int) -> list[AnyStep]:
    """The first steps, and the last reply in place of what would have been the last of them."""
    if len(steps) <= most:
        return list(steps)
    last = steps[-1]
    # Alone, a reply would have nothing to tell of.
    ends = isinstance(last, ReplyStep) and most > 1
    return [*steps[: most - 1], last] if ends else list(steps[:most])
