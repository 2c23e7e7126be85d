"""What may begin before and after an approval: looks of a preview, and the consent it gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, cast

from msgspec.structs import replace

from plansmith.plan.data import CALL_MARK_DIGITS, Json, canonical_hash
from plansmith.plan.events import PlanApproved, StepReplied, StepStarted
from plansmith.plan.ids import is_part, parent_of
from plansmith.plan.run import UNSUCCESSFUL, PastCall, Run, RunStatus, Steps, StepState, StepStatus

_UNDER_WAY: Final = (RunStatus.RUNNING, RunStatus.REPLANNING)
Which = Callable[[str, StepState], bool]


def without_looks(steps: Steps, which: Which) -> Steps:
    """Lets some of the steps wait again that ran for a preview; parts of them go."""
    looks = {k: each for k, each in steps.items() if each.looked_at and which(k, each)}
    if not looks:
        return steps
    later = dict(steps)
    for name, state in looks.items():
        # A change that was made before its plan changed is known as long as the run.
        later[name] = replace(StepState(), item=state.item, past_calls=state.past_calls)
        if is_part(name) and not state.past_calls:
            del later[name]
    return Steps(later)


def failed_looks(steps: Steps) -> Which:
    """Tells of steps whether they failed in a preview, or were passed over for that."""
    failed = {
        name
        for name, state in steps.items()
        if state.rule in ("error", "need") or state.status in UNSUCCESSFUL
    }
    lacking = {parent_of(name) for name in failed}

    def fails(name: str, _: StepState) -> bool:
        # Of rounds, none of which failed, all are made again.
        whole = parent_of(name)
        return name in failed or (whole in failed and whole not in lacking)

    return fails


def permits_of(run: Run, steps: Steps, approved: PlanApproved) -> dict[str, StepReplied]:
    """Returns the consent to each call of an approved preview; raises `ValueError` if it has none.

    `steps` are those of the run by now.
    """
    seen = run.previewed
    if seen is None or seen.approval != approved.preview:
        raise ValueError("its preview is not the last one of this plan")
    if not {*approved.left_out, *approved.changed} <= seen.covers.keys():
        raise ValueError("the preview does not show all calls that it names")
    if approved.changed and run.options.second_person != "never":
        raise ValueError("nobody else has seen these values")
    permits: dict[str, StepReplied] = {}
    for name, digest in seen.covers.items():
        step, mark = steps.get(name, StepState()), seen.seen.get(name)
        before = step.permit or run.permits.get(name)
        answer: Json = {"allow": mark} if mark is not None else "allow"
        state, instead_of = digest, ""
        if before is not None and before.state == digest and before.instead_of:
            # It was shown with the values that a person had given before.
            instead_of, own = before.instead_of, cast("dict[str, Json]", before.answer)
            answer = {"allow": own["allow"], **({"seen": mark} if mark is not None else {})}
        if name in approved.changed:
            values = approved.changed[name]
            answer, state = {"allow": values}, canonical_hash(values)
            instead_of = instead_of or digest
        permits[name] = StepReplied(
            step=name,
            answer=answer,
            state=state,
            permit=True,
            instead_of=instead_of,
            touches=seen.touches.get(name, ()),
        )
    return permits


def waiting_again(step: StepState) -> StepState:
    """Returns a step that waits again or left the plan; the calls that it made are kept."""
    calls = [*step.past_calls]
    if step.status is StepStatus.DONE and step.callee:
        calls.append(PastCall(step.callee, step.call_mark, step.result_hash))
        permit = step.permit
        if permit and permit.instead_of and permit.state[:CALL_MARK_DIGITS] == step.call_mark:
            # A person replaced that call by this one: that one is not to be made either.
            calls.append(calls[-1]._replace(call_mark=permit.instead_of[:CALL_MARK_DIGITS]))
    return StepState(item=step.item, past_calls=tuple(calls), consents_asked=step.consents_asked)


def why_not_begun(run: Run, steps: Steps, begun: StepStarted) -> str:
    """Says why a call may not begin; empty if it may, or if nothing is called.

    Before the approval it has to be a read, later somebody has to have agreed to its inputs. What a
    step of the plan does by itself is known here; of its parts, only their consent.
    """
    acts = begun.step in run.acts
    if not begun.inputs:
        return ""
    if run.phase not in _UNDER_WAY:
        is_read = run.previewing and not acts and begun.basis == "read"
        return "" if is_read else "nothing but reads may run before the approval"
    if not begun.basis and acts and _uses_data(run, begun.step):
        return "values from tools reach a change, and nobody agreed to it"
    if begun.basis == "consent":
        names = (begun.step, parent_of(begun.step))
        permits = (steps.get(name, StepState()).permit or run.permits.get(name) for name in names)
        permit = next((each for each in permits if each is not None), None)
        if permit is None or not permit.state.startswith(begun.call_mark):
            return "nobody agreed to these values"
    return ""


def _uses_data(run: Run, name: str) -> bool:
    """Tells whether the inputs of a step come from others than the plan and a person."""
    by_id = run.plan.by_id if run.plan is not None else {}
    refs = by_id[name].input_refs() if name in by_id else ()
    return any(each.step not in by_id or by_id[each.step].kind != "ask" for each in refs)
