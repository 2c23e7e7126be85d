"""Finds the calls that a changed plan would make again although the run has made them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice
from typing import Final

from plansmith.engine.units import (
    Unit,
    map_units,
    named_unit,
    plan_units,
    resolved,
    round_step,
    template_units,
)
from plansmith.errors import ReferenceFailed
from plansmith.plan import events as e
from plansmith.plan.data import Json, call_mark
from plansmith.plan.plan import Plan
from plansmith.plan.run import Run, StepStatus
from plansmith.plan.sentence import Sentence
from plansmith.plan.steps import MAX_NESTING, AgentStep, AnyStep, MapStep, PlanStep, ToolStep
from plansmith.review.calls import PlanCalls
from plansmith.runs.replan import SKIPPED_BY_PERSON, is_in_doubt

_MAX_ITEMS: Final = 1000
CallKey = tuple[str, str]


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
    made = set(_effective_calls(events, templates))
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
    keys = {call.key for call in before.acting if _is_in(call.place, out)}
    return tuple(
        Sentence("review.left_out", call=call.text)
        for call in after.acting
        if call.key in keys and not _is_in(call.place, out)
    )


def _is_in(place: str, steps: Collection[str]) -> bool:
    return any(place == step or place.startswith(f"{step}/") for step in steps if step)


def _effective_calls(events: Iterable[e.Event], templates: Mapping[str, Plan]) -> Iterator[CallKey]:
    """Yields every call that took effect or may have taken effect."""
    plan: Plan | None = None
    known = dict(templates)
    under_way: dict[str, CallKey] = {}
    for event in events:
        match event.body:
            case e.PlanProposed(plan=plan, templates=more):
                known |= more
            case e.StepStarted(step=name) as started if started.inputs and plan is not None:
                unit = named_unit(plan, name, known)
                under_way[name] = (unit.callee if unit else "", started.call)
            case e.StepDone(step=name) if name in under_way:
                yield under_way.pop(name)
            case e.StepFailed(step=name):
                under_way.pop(name, None)
            case _:
                pass
    yield from under_way.values()


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
            parts = list(islice(_parts(unit, inputs, templates), _MAX_ITEMS))
        except ReferenceFailed:
            continue
        if isinstance(unit.step, (ToolStep, AgentStep)):
            found.setdefault(place, set()).add((unit.callee, call_mark(inputs)))
        pending += [(part, f"{place}/{part.step.id}") for part in parts]
    return found


def _parts(unit: Unit, inputs: Mapping[str, Json], templates: Mapping[str, Plan]) -> Iterator[Unit]:
    """Yields the parts of a map or plan step."""
    if unit.depth >= MAX_NESTING:
        return
    match unit.step:
        case MapStep():
            yield from map_units(unit, inputs["over"], {}).values()
        case PlanStep(template=name) if name in templates:
            yield from template_units(unit, templates[name], inputs).values()
        case _:
            return
