"""Rerun: which results of an earlier run still count in a later one, decided purely."""

from __future__ import annotations

from collections.abc import Collection

from plansmith.plan.data import canonical_json
from plansmith.plan.events import (
    AnyBody,
    QuestionWithdrawn,
    StepCancelled,
    StepReset,
    StepReused,
)
from plansmith.plan.graph import downstream, needs
from plansmith.plan.plan import Plan
from plansmith.plan.run import Run, StepStatus

_ENDED = frozenset({StepStatus.DONE, StepStatus.FAILED, StepStatus.SKIPPED, StepStatus.CANCELLED})


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
        _reused(step.id, old)
        for step in plan.steps
        if step.id not in affected and not step.disabled
    ]


def _reused(name: str, old: Run) -> StepReused:
    """A result with the run in which it really was made, also where it was taken over twice."""
    state = old.steps[name]
    return StepReused(
        step=name,
        result=state.result_hash,
        run=state.reused_from or old.id,
        done_at=state.finished_at,
    )


def everything_done(plan: Plan, kept: Collection[StepReused]) -> bool:
    """Whether nothing of a plan is left to run."""
    return len(kept) == sum(not step.disabled for step in plan.steps)


def done_again(old: Run, plan: Plan, kept: Collection[StepReused]) -> dict[str, str]:
    """The steps that were done, or in part, and would run once more: each with how far it was."""
    names = plan.by_id.keys() - {each.step for each in kept}
    again: dict[str, str] = {}
    for name in (step.id for step in plan.steps if step.id in names and not step.disabled):
        parts = [state for each, state in old.steps.items() if each.startswith(f"{name}/")]
        done = sum(state.status is StepStatus.DONE for state in parts)
        if name in old.steps and old.steps[name].status is StepStatus.DONE:
            again[name] = name
        elif done:
            again[name] = f"{name} ({done} of its {len(parts)} parts)"
    return again


def to_repeat(run: Run, plan: Plan) -> list[AnyBody]:
    """What a changed plan takes back in a run under way: results, and questions of old steps."""
    kept = {each.step for each in carried_over(run, plan)}
    bodies: list[AnyBody] = []
    for asked in run.questions.values():
        root = (asked.step or "").split("/")[0]
        if not root or (root in plan.by_id and not _is_changed(root, run, plan)):
            continue
        reason = "the plan was changed"
        bodies.append(QuestionWithdrawn(question=asked.question, reason=reason))
        if root in plan.by_id and run.steps[root].status is StepStatus.ASKING:
            bodies.append(StepCancelled(step=root, reason=reason))
            bodies.append(StepReset(step=root, reason=reason))
    bodies += [
        StepReset(step=name, reason="the plan was changed")
        for name, state in run.steps.items()
        if state.status in _ENDED and name.split("/")[0] in plan.by_id.keys() - kept
    ]
    return bodies


def _is_new(name: str, old: Run, plan: Plan) -> bool:
    """Whether a step has no result that could be used again."""
    state = old.steps.get(name)
    is_done = state is not None and state.status is StepStatus.DONE
    return not is_done or _is_changed(name, old, plan)


def _is_changed(name: str, old: Run, plan: Plan) -> bool:
    """Whether a step of the plan is new or would do something else than before."""
    before = old.plan.by_id.get(name) if old.plan else None
    if before is None:
        return True
    prose = {"title", "why"}
    left = {key: each for key, each in before.to_json().items() if key not in prose}
    right = {key: each for key, each in plan.by_id[name].to_json().items() if key not in prose}
    return canonical_json(left) != canonical_json(right)
