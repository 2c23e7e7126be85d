"""Rerun: which results of an earlier run still count in a later one, decided purely."""

from __future__ import annotations

from collections.abc import Collection

from plansmith.plan.data import canonical_json
from plansmith.plan.events import StepReused
from plansmith.plan.graph import downstream, needs
from plansmith.plan.plan import Plan
from plansmith.plan.run import Run, StepStatus


def carried_over(old: Run, plan: Plan, *, again: Collection[str] = ()) -> list[StepReused]:
    """The steps of the plan whose result stands: done before, unchanged, nothing new before them.

    `again` names steps that are to run once more, with all that depends on them.
    """
    if old.plan is None:
        return []
    stale = {step.id for step in plan.steps if _is_new(step.id, old, plan)} | set(again)
    graph = needs(plan)
    affected = stale | downstream(graph, [name for name in stale if name in graph])
    return [
        StepReused(step=step.id, result=old.steps[step.id].result_hash, run=old.id)
        for step in plan.steps
        if step.id not in affected and not step.disabled
    ]


def _is_new(name: str, old: Run, plan: Plan) -> bool:
    """Whether a step has no result that could be used again."""
    before = old.plan.by_id.get(name) if old.plan else None
    state = old.steps.get(name)
    if before is None or state is None or state.status is not StepStatus.DONE:
        return True
    prose = {"title", "why"}
    left = {key: each for key, each in before.to_json().items() if key not in prose}
    right = {key: each for key, each in plan.by_id[name].to_json().items() if key not in prose}
    return canonical_json(left) != canonical_json(right)
