"""What of a run counts in the next run of the same plan."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from plansmith.errors import Refused
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
from plansmith.plan.run import Run, StepState, StepStatus
from plansmith.plan.sentence import Sentence, joined

_CHANGED: Final = Sentence("step.plan_changed")
_ENDED: Final = frozenset(
    {StepStatus.DONE, StepStatus.FAILED, StepStatus.SKIPPED, StepStatus.CANCELLED}
)


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
        program=state.program,
        done_at=state.finished_at,
    )


def everything_done(plan: Plan, kept: Collection[StepReused]) -> bool:
    """Whether nothing of a plan is left to run."""
    return len(kept) == sum(not step.disabled for step in plan.steps)


def done_again(old: Run, plan: Plan, kept: Collection[StepReused]) -> dict[str, str]:
    """The steps that were done, or in part or perhaps, and would run once more, in words."""
    names = plan.by_id.keys() - {each.step for each in kept}
    doubts = unknown_steps(old)
    again: dict[str, str] = {}
    for name in (step.id for step in plan.steps if step.id in names and not step.disabled):
        parts = [state for each, state in old.steps.items() if each.startswith(f"{name}/")]
        done = sum(_has_acted(state) for state in parts)
        if name in old.steps and _has_acted(old.steps[name]):
            again[name] = Sentence("review.done_again", step=name, run=old.id)
        elif done:
            again[name] = Sentence(
                "review.parts_again", step=name, done=done, total=len(parts), run=old.id
            )
        if name in doubts:
            doubt = Sentence("review.doubt_again", step=doubts[name], run=old.id)
            again[name] = joined([again.get(name, ""), doubt])
    return again


def _has_acted(state: StepState) -> bool:
    """Whether a step is done, or was, before a changed plan had it wait again."""
    return state.status is StepStatus.DONE or bool(state.made)


def to_repeat(run: Run, plan: Plan) -> list[AnyBody]:
    """What a person's changed plan takes back in a run under way: results, and open questions.

    What has made the very same call already takes its result over; what a person left out of
    the plan before stays out, unless he changed it.
    """
    kept = {each.step for each in carried_over(run, plan)}
    bodies = taken_back(run, plan)
    again = plan.by_id.keys() - kept
    for name, state in run.steps.items():
        root = name.split("/")[0]
        left_out = state.status is StepStatus.SKIPPED and state.error_kind == "person"
        if root not in again or (left_out and not _is_changed(root, run, plan)):
            continue
        if state.status in _ENDED:
            bodies.append(StepReset(step=name, reason=_CHANGED))
    return bodies


def taken_back(run: Run, plan: Plan) -> list[AnyBody]:
    """What another plan takes back of steps that it changes or no longer has, and that are open.

    Their questions close, and they wait again, also where only something before them changes: what
    a person is asked may be about that. Not a question about a call that may have taken
    effect: it stays until a person has answered it.
    """
    others = affected(run, plan)
    bodies: list[AnyBody] = [
        QuestionWithdrawn(question=asked.question, reason=_CHANGED)
        for asked in run.questions.values()
        if asked.step is not None and asked.asks != "unknown"
        if _root(asked.step) in others or _root(asked.step) not in plan.by_id
    ]
    calls = run.calls_open
    for name, state in run.steps.items():
        holds = state.status is StepStatus.RUNNING and name not in calls
        if _root(name) in others and (holds or state.status is StepStatus.ASKING):
            bodies.append(StepCancelled(step=name, reason=_CHANGED))
            bodies.append(StepReset(step=name, reason=_CHANGED))
    return bodies


def affected(run: Run, plan: Plan) -> set[str]:
    """The steps of a plan that are new or would do something else, and all behind them."""
    changed = {name for name in plan.by_id if _is_changed(name, run, plan)}
    return changed | downstream(needs(plan), changed)


def unknown_steps(run: Run) -> dict[str, str]:
    """The steps of the plan of which nobody knows whether they, or a part, took effect."""
    found: dict[str, str] = {}
    for name, state in run.steps.items():
        if state.status is StepStatus.UNKNOWN or state.unsure:
            found.setdefault(_root(name), name)
    return found


def check_unknown(run: Run, plan: Plan) -> None:
    """Refuse a plan that changes a step before it is known whether that took effect."""
    for root, name in unknown_steps(run).items():
        if root not in plan.by_id or _is_changed(root, run, plan):
            hint = f"answer the question about {name!r} first: done, not_done or retry"
            raise Refused(f"it is not known whether {name!r} took effect", hint=hint)


def _root(name: str) -> str:
    return name.split("/", maxsplit=1)[0]


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
