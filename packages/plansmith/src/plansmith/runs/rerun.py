"""Decides which results and steps of a run are kept when its plan is repeated or changed."""

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
    StepWaits,
)
from plansmith.plan.graph import downstream, needs
from plansmith.plan.plan import Plan
from plansmith.plan.run import Run, RunStatus, StepState, StepStatus
from plansmith.plan.sentence import Sentence, joined

_PLAN_CHANGED: Final = Sentence("the plan was changed")
_ENDED: Final = frozenset(
    {StepStatus.DONE, StepStatus.FAILED, StepStatus.SKIPPED, StepStatus.CANCELLED}
)


def carried_over(old: Run, plan: Plan, *, again: Collection[str] = ()) -> list[StepReused]:
    """Returns the steps whose result is reused: done, unchanged, and all before them unchanged.

    `again` names steps that run once more, with all that depend on them.
    """
    if old.plan is None:
        return []
    stale = {step.id for step in plan.steps if _is_new(step.id, old, plan)} | set(again)
    repeated = _with_downstream(stale, plan)
    return [
        _reused(step.id, old)
        for step in plan.steps
        if step.id not in repeated and not step.disabled
        if old.steps[step.id].status is StepStatus.DONE
    ]


def _with_downstream(names: Collection[str], plan: Plan) -> set[str]:
    graph = needs(plan)
    return {*names, *downstream(graph, [name for name in names if name in graph])}


def _reused(name: str, old: Run) -> StepReused:
    """Returns a reused result, with the run that first made it."""
    state = old.steps[name]
    return StepReused(
        step=name,
        result=state.result_hash,
        run=state.reused_from or old.id,
        program=state.program,
        done_at=state.finished_at,
    )


def everything_done(plan: Plan, kept: Collection[StepReused]) -> bool:
    """Tells whether no step of a plan is left to run."""
    return len(kept) == sum(not step.disabled for step in plan.steps)


def done_again(old: Run, plan: Plan, kept: Collection[StepReused]) -> dict[str, str]:
    """Describes each step that was done, in part or perhaps, and would run again."""
    names = plan.by_id.keys() - {each.step for each in kept}
    doubts = unknown_steps(old)
    again: dict[str, str] = {}
    for name in (step.id for step in plan.steps if step.id in names and not step.disabled):
        parts = [state for each, state in old.steps.items() if each.startswith(f"{name}/")]
        done = sum(_has_acted(state) for state in parts)
        if name in old.steps and _has_acted(old.steps[name]) and not _lacks_parts(name, old):
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
    """Tells whether a step is done, or was done before a changed plan reset it."""
    return state.status is StepStatus.DONE or bool(state.made)


def events_to_repeat(run: Run, plan: Plan) -> list[AnyBody]:
    """Returns the events that reset steps and close questions for a person's changed plan.

    A step that made the same call before reuses its result; a step that a person or a rule of the
    plan skipped stays skipped, unless the new plan changes it.
    """
    bodies = events_to_withdraw(run, plan)
    changed = changed_steps(run, plan)
    # A plan that went on without a step goes on without it still, with what it did meanwhile.
    settled = {name for name, state in run.steps.items() if state.settled}
    again = _with_downstream(plan.by_id.keys() - settled, plan) | changed
    opened = {step.id for step in plan.steps if _is_open(step.id, run)} - changed
    # The rounds of a step that is being repeated stay, if nothing changes what they do.
    again -= {name for name in opened if plan.by_id[name].repeat is not None}
    for name, state in run.steps.items():
        root = _root(name)
        left_out = state.status is StepStatus.SKIPPED and state.error_kind == "person"
        if root not in again or (left_out and not _is_changed(root, run, plan)):
            continue
        if root in opened and (name in settled or state.wakes_at is not None):
            continue  # the step goes on where it was, with the parts that it has done
        if state.status in _ENDED:
            bodies.append(StepReset(step=name, reason=_PLAN_CHANGED))
        elif state.wakes_at is not None:
            bodies.append(StepWaits(step=name))
    return bodies


def events_to_withdraw(run: Run, plan: Plan) -> list[AnyBody]:
    """Returns the events that reset open steps which another plan changes or removes.

    Their questions close, also if only an earlier step changes: the question may be about that.
    A question whether a call took effect stays open until a person answers it.
    """
    changed = changed_steps(run, plan)
    bodies: list[AnyBody] = [
        QuestionWithdrawn(question=asked.question, reason=_PLAN_CHANGED)
        for asked in run.questions.values()
        if asked.step is not None and asked.kind != "unknown"
        if _root(asked.step) in changed or _root(asked.step) not in plan.by_id
    ]
    calls = run.calls_open
    for name, state in run.steps.items():
        holds = state.status is StepStatus.RUNNING and name not in calls
        if _root(name) in changed and (holds or state.status is StepStatus.ASKING):
            bodies.append(StepCancelled(step=name, reason=_PLAN_CHANGED))
            bodies.append(StepReset(step=name, reason=_PLAN_CHANGED))
    return bodies


def changed_steps(run: Run, plan: Plan) -> set[str]:
    """Returns the steps of a plan that are new or different, and all steps after them."""
    changed = {name for name in plan.by_id if _is_changed(name, run, plan)}
    return changed | downstream(needs(plan), changed)


def unknown_steps(run: Run) -> dict[str, str]:
    """Returns the steps that may have taken effect, each with the step or part in doubt."""
    found: dict[str, str] = {}
    for name, state in run.steps.items():
        if state.status is StepStatus.UNKNOWN or state.unsure:
            found.setdefault(_root(name), name)
    return found


def check_unknown(run: Run, plan: Plan) -> None:
    """Refuses a plan that changes a step while nobody knows whether it took effect."""
    for root, name in unknown_steps(run).items():
        if root not in plan.by_id or _is_changed(root, run, plan):
            hint = Sentence(
                "answer the question about '{step}' first: done, not_done or retry", step=name
            )
            raise Refused(
                Sentence("it is not known whether '{step}' took effect", step=name), hint=hint
            )


def _is_open(name: str, run: Run) -> bool:
    return name in run.steps and run.steps[name].status is StepStatus.RUNNING


def _root(name: str) -> str:
    return name.split("/", maxsplit=1)[0]


def _is_new(name: str, old: Run, plan: Plan) -> bool:
    """Tells whether a step has no result that could be reused.

    A condition that did not hold is looked at again; what comes after it is not new for that.
    """
    state = old.steps.get(name)
    is_done = state is not None and state.settled and state.rule != "error"
    return not is_done or _lacks_parts(name, old) or _is_changed(name, old, plan)


def _lacks_parts(name: str, old: Run) -> bool:
    """Tells whether a run that is not wholly done went on without a part of a step."""
    return old.status is not RunStatus.DONE and any(
        state.rule == "error" and each.startswith(f"{name}/") for each, state in old.steps.items()
    )


def _is_changed(name: str, old: Run, plan: Plan) -> bool:
    """Tells whether a step of the plan is new or different; titles and reasons do not count."""
    before = old.plan.by_id.get(name) if old.plan else None
    if before is None:
        return True
    prose = {"title", "why"}
    left = {key: each for key, each in before.to_json().items() if key not in prose}
    right = {key: each for key, each in plan.by_id[name].to_json().items() if key not in prose}
    return canonical_json(left) != canonical_json(right)
