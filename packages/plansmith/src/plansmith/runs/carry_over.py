"""Decides which results and steps of a run are kept when its plan is repeated or changed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice
from typing import Final, NamedTuple

from plansmith.engine.units import (
    Unit,
    map_units,
    named_unit,
    plan_units,
    resolved,
    round_step,
    template_units,
)
from plansmith.errors import ReferenceFailed, Refused
from plansmith.plan import events as e
from plansmith.plan.data import Json, call_mark, canonical_json
from plansmith.plan.graph import downstream, needs
from plansmith.plan.plan import Plan
from plansmith.plan.run import Run, RunStatus, StepState, StepStatus
from plansmith.plan.sentence import Sentence, joined
from plansmith.plan.steps import MAX_NESTING, AgentStep, AnyStep, MapStep, PlanStep, ToolStep
from plansmith.review.coverage import PlanCalls

_PLAN_CHANGED: Final = Sentence("the plan was changed")
_ENDED: Final = frozenset(
    {StepStatus.DONE, StepStatus.FAILED, StepStatus.SKIPPED, StepStatus.CANCELLED}
)
_MAX_ITEMS: Final = 1000
SKIPPED_BY_PERSON: Final = (StepStatus.SKIPPED, "person")
CallKey = tuple[str, str]  # what is called, and the mark of its arguments


def root_of(name: str) -> str:
    """Returns the step of the plan to which a step or part belongs."""
    return name.split("/", maxsplit=1)[0]


def is_in_doubt(state: StepState) -> bool:
    """Tells whether a call is running, or nobody knows whether it took effect."""
    in_flight = state.status is StepStatus.RUNNING and bool(state.inputs)
    return in_flight or state.status is StepStatus.UNKNOWN


def unknown_steps(run: Run) -> dict[str, str]:
    """Returns the steps that may have taken effect, each with the step or part in doubt."""
    found: dict[str, str] = {}
    for name, state in run.steps.items():
        if state.status is StepStatus.UNKNOWN or state.unsure:
            found.setdefault(root_of(name), name)
    return found


def check_unknown(run: Run, plan: Plan) -> None:
    """Refuses a plan that changes a step while nobody knows whether it took effect."""
    for root, name in unknown_steps(run).items():
        if root not in plan.by_id or _is_changed(root, run, plan):
            why = Sentence("it is not known whether '{step}' took effect", step=name)
            hint = Sentence(
                "answer the question about '{step}' first: done, not_done or retry", step=name
            )
            raise Refused(why, hint=hint)


def carried_over(old: Run, plan: Plan, *, again: Collection[str] = ()) -> list[e.StepReused]:
    """Returns the steps whose result is reused: done, unchanged, and all before them unchanged.

    `again` names steps that run once more, with all that depend on them.
    """
    if old.plan is None:
        return []
    stale = {*again}
    for name in plan.by_id:
        # A condition that did not hold is looked at again; what comes after it is not new for that.
        state = old.steps.get(name)
        is_done = state is not None and state.settled and state.rule != "error"
        if not is_done or _lacks_parts(name, old) or _is_changed(name, old, plan):
            stale.add(name)
    repeated = _with_downstream(stale, plan)
    return [
        e.StepReused(
            step=step.id,
            result=state.result_hash,
            run=state.reused_from or old.id,  # the run that first made it
            program=state.program,
            done_at=state.finished_at,
        )
        for step in plan.steps
        if step.id not in repeated and not step.disabled
        if (state := old.steps[step.id]).status is StepStatus.DONE
    ]


def everything_done(plan: Plan, kept: Collection[e.StepReused]) -> bool:
    """Tells whether no step of a plan is left to run."""
    return len(kept) == sum(not step.disabled for step in plan.steps)


def done_again(old: Run, plan: Plan, kept: Collection[e.StepReused]) -> dict[str, str]:
    """Describes each step that was done, in part or perhaps, and would run again."""
    names, doubts = {each.step for each in kept}, unknown_steps(old)
    again: dict[str, str] = {}
    for name in (step.id for step in plan.steps if step.id not in names and not step.disabled):
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


def _lacks_parts(name: str, old: Run) -> bool:
    """Tells whether a run that is not wholly done went on without a part of a step."""
    return old.status is not RunStatus.DONE and any(
        state.rule == "error" and each.startswith(f"{name}/") for each, state in old.steps.items()
    )


def _with_downstream(names: Collection[str], plan: Plan) -> set[str]:
    graph = needs(plan)
    return {*names, *downstream(graph, [name for name in names if name in graph])}


def changed_steps(run: Run, plan: Plan) -> set[str]:
    """Returns the steps of a plan that are new or different, and all steps after them."""
    return _with_downstream({name for name in plan.by_id if _is_changed(name, run, plan)}, plan)


def _is_changed(name: str, old: Run, plan: Plan) -> bool:
    """Tells whether a step of the plan is new or different; titles and reasons do not count."""
    before = old.plan.by_id.get(name) if old.plan else None
    if before is None:
        return True
    left, right = before.to_json(), plan.by_id[name].to_json()
    for prose in ("title", "why"):
        left.pop(prose, None)
        right.pop(prose, None)
    return canonical_json(left) != canonical_json(right)


def events_to_repeat(run: Run, plan: Plan) -> list[e.AnyBody]:
    """Returns the events that reset steps and close questions for a person's changed plan.

    A step that made the same call before reuses its result; a step that a person or a rule of the
    plan skipped stays skipped, unless the new plan changes it.
    """
    bodies = events_to_withdraw(run, plan)
    changed = changed_steps(run, plan)
    # A plan that went on without a step goes on without it still, with what it did meanwhile.
    settled = {name for name, state in run.steps.items() if state.settled}
    again = _with_downstream(plan.by_id.keys() - settled, plan) | changed
    opened = {
        name
        for name in plan.by_id.keys() - changed
        if name in run.steps and run.steps[name].status is StepStatus.RUNNING
    }
    # The rounds of a step that is being repeated stay, if nothing changes what they do.
    again -= {name for name in opened if plan.by_id[name].repeat is not None}
    for name, state in run.steps.items():
        root = root_of(name)
        left_out = (state.status, state.error_kind) == SKIPPED_BY_PERSON
        if root not in again or (left_out and not _is_changed(root, run, plan)):
            continue
        if root in opened and (name in settled or state.wakes_at is not None):
            continue  # the step goes on where it was, with the parts that it has done
        if state.status in _ENDED:
            bodies.append(e.StepReset(step=name, reason=_PLAN_CHANGED))
        elif state.wakes_at is not None:
            bodies.append(e.StepWaits(step=name))
    return bodies


def events_to_withdraw(run: Run, plan: Plan) -> list[e.AnyBody]:
    """Returns the events that reset open steps which another plan changes or removes.

    Their questions close, also if only an earlier step changes: the question may be about that.
    A question whether a call took effect stays open until a person answers it.
    """
    changed = changed_steps(run, plan)
    bodies: list[e.AnyBody] = [
        e.QuestionWithdrawn(question=asked.question, reason=_PLAN_CHANGED)
        for asked in run.questions.values()
        if asked.step is not None and asked.kind != "unknown"
        if root_of(asked.step) in changed or root_of(asked.step) not in plan.by_id
    ]
    calls = run.calls_open
    for name, state in run.steps.items():
        holds = state.status is StepStatus.RUNNING and name not in calls
        if root_of(name) in changed and (holds or state.status is StepStatus.ASKING):
            bodies.append(e.StepCancelled(step=name, reason=_PLAN_CHANGED))
            bodies.append(e.StepReset(step=name, reason=_PLAN_CHANGED))
    return bodies


class MadeCall(NamedTuple):
    """A call that a run made under one of its plans, and how it ended; None if nobody knows."""

    revision: int
    call: CallKey
    end: e.StepDone | e.StepFailed | None


def calls_made(events: Iterable[e.Event], templates: Mapping[str, Plan]) -> Iterator[MadeCall]:
    """Yields every call of a run as it ended; those that did not end come last."""
    plan: Plan | None = None
    revision, known = 0, dict(templates)
    under_way: dict[str, CallKey] = {}
    for event in events:
        match event.body:
            case e.PlanProposed(plan=plan, templates=more):
                known |= more
                revision += 1
            case e.StepStarted(step=name) as started if started.inputs and plan is not None:
                unit = named_unit(plan, name, known)
                under_way[name] = (unit.callee if unit else "", started.call)
            case e.StepDone(step=name) | e.StepFailed(step=name) as end if name in under_way:
                yield MadeCall(revision, under_way.pop(name), end)
            case _:
                pass
    for call in under_way.values():
        yield MadeCall(revision, call, None)


def repeated_calls(  # noqa: PLR0913 - all but the first two by name
    run: Run,
    events: Iterable[e.Event],
    *,
    before: PlanCalls,
    after: PlanCalls,
    revision: Plan,
    results: Mapping[str, Json],
    templates: Mapping[str, Plan],
    approved: PlanCalls | None = None,
    names: bool = False,
) -> tuple[str, ...]:
    """Returns a reason for each call that a revision repeats in a step that has not made it.

    `before`, `after` and `approved` are the calls of the previous plan, of the revision, and of
    the plan approved last: whoever approved two equal calls wants both. Calls are compared by
    their arguments if these are known by now, else by how the plan writes them. A step that now
    makes a different call counts too, unless `names` is set.
    """
    assert run.plan is not None  # noqa: S101
    old = {call.place: call.key for call in before.acting}
    begun = {
        place
        for name, state in run.steps.items()
        if state.status is StepStatus.DONE or state.made or is_in_doubt(state)
        if (place := _place(run.plan, name, templates)) in old
    }
    keys = {old[place] for place in begun}
    wanted = {(call.place, call.key) for call in approved.acting} if approved else set[CallKey]()
    made = {
        each.call
        for each in calls_made(events, templates)
        if not isinstance(each.end, e.StepFailed)
    }
    planned = _resolved_calls(revision, results, templates)
    return tuple(
        Sentence("review.repeats", call=call.text)
        for call in after.acting
        if (call.place, call.key) not in wanted
        if call.place not in begun or (old[call.place] != call.key and not names)
        if call.key in keys or planned.get(call.place, set[CallKey]()) & made
    )


def calls_left_out(run: Run, *, before: PlanCalls, after: PlanCalls) -> tuple[str, ...]:
    """Returns a reason for each call that a person skipped and that a revision makes elsewhere.

    The skipped step itself stays skipped.
    """
    assert run.plan is not None  # noqa: S101
    out = {
        _place(run.plan, name, run.templates)
        for name, state in run.steps.items()
        if (state.status, state.error_kind) == SKIPPED_BY_PERSON
    }

    def is_out(place: str) -> bool:
        return any(place == step or place.startswith(f"{step}/") for step in out if step)

    keys = {call.key for call in before.acting if is_out(call.place)}
    return tuple(
        Sentence("review.left_out", call=call.text)
        for call in after.acting
        if call.key in keys and not is_out(call.place)
    )


def _place(plan: Plan, name: str, templates: Mapping[str, Plan]) -> str:
    """Returns the place in the plan of a run's step or part: `map/inner` for `map/3`."""
    first, *rest = name.split("/")
    step: AnyStep | None = plan.by_id.get(first)
    place = first
    for part in rest:
        if step is not None and step.repeat is not None:
            step = round_step(step)  # all rounds are made by the same place of the plan
            continue
        match step:
            case MapStep(each=each):
                step, part = each, each.id  # noqa: PLW2901 - the name of the part in the plan
            case PlanStep(template=template) if template in templates:
                step = templates[template].by_id.get(part)
            case _:
                return ""
        place = f"{place}/{part}"
    return place


def _resolved_calls(
    plan: Plan, results: Mapping[str, Json], templates: Mapping[str, Plan]
) -> dict[str, set[CallKey]]:
    """Returns the calls of a plan whose arguments are known by now, by place."""
    found: dict[str, set[CallKey]] = {}
    pending = [(unit, unit.name) for unit in plan_units(plan).values()]
    while pending:
        unit, place = pending.pop()
        try:
            inputs = resolved(unit, results)
            parts = _parts(unit, inputs, templates)
        except ReferenceFailed:
            continue
        if isinstance(unit.step, (ToolStep, AgentStep)):
            found.setdefault(place, set()).add((unit.callee, call_mark(inputs)))
        pending += [(part, f"{place}/{part.step.id}") for part in islice(parts, _MAX_ITEMS)]
    return found


def _parts(unit: Unit, inputs: Mapping[str, Json], templates: Mapping[str, Plan]) -> Iterable[Unit]:
    """Returns the parts of a map or plan step."""
    match unit.step:
        case MapStep() if unit.depth < MAX_NESTING:
            return map_units(unit, inputs["over"], {}).values()
        case PlanStep(template=name) if name in templates and unit.depth < MAX_NESTING:
            return template_units(unit, templates[name], inputs).values()
        case _:
            return ()
