"""Finds what the steps of a run did and which calls would take it back."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple, cast

from plansmith.engine.given_values import is_own_result
from plansmith.engine.parts import PartsMaker
from plansmith.engine.units import Unit, Values, named_unit, plan_units, resolved
from plansmith.errors import ReferenceFailed
from plansmith.plan.data import Json, call_mark
from plansmith.plan.events import Event, PlanProposed
from plansmith.plan.fold import fold
from plansmith.plan.plan import Plan
from plansmith.plan.refs import SECRET_MARK, fill, literal
from plansmith.plan.run import Run, StepStatus
from plansmith.plan.steps import Undo

_NEVER: Final = datetime.min.replace(tzinfo=UTC)


class Reversal(NamedTuple):
    """The call that takes back a step or part; `inputs` are None if they cannot be told.

    `left_at` is the event with the plan that left the step out or let it begin anew.
    """

    step: str
    tool: str
    inputs: dict[str, Json] | None
    done_at: datetime
    left_at: int = 0

    @property
    def effect(self) -> str:
        """A name for what was done that nothing else of the run has."""
        return f"{self.step}-{self.left_at}" if self.left_at else self.step


class DoneSteps(NamedTuple):
    """The steps and parts that a run has done under one of its plans, and no longer has later.

    The last plan of a run has all that is done at the end; `left_at` is 0 then.
    """

    run: Run
    names: frozenset[str]
    left_at: int = 0


def done_steps(events: Sequence[Event]) -> list[DoneSteps]:
    """Returns what a run has done, plan by plan: a later plan may leave out what was done."""
    ends = [
        (event.number, place)
        for place, event in enumerate(events)
        if isinstance(event.body, PlanProposed) and place
    ]
    states = [(number, fold(events[:place])) for number, place in ends]
    states = [(number, run) for number, run in states if run.plan is not None]
    last = fold(events)
    later = [*(run for _, run in states[1:]), last]
    found: list[DoneSteps] = []
    for place, (number, run) in enumerate(states):
        gone = {name for name in _done(run) if not _is_kept(run, name, later[place:])}
        found.append(DoneSteps(run, frozenset(gone), number))
    return [*(each for each in found if each.names), DoneSteps(last, _done(last))]


def _done(run: Run) -> frozenset[str]:
    """Returns the steps and parts that a run itself has done; of others it only has the results."""
    return frozenset(
        name
        for name, state in run.steps.items()
        if state.status is StepStatus.DONE and state.reused_from in ("", run.id)
    )


def _is_kept(run: Run, name: str, later: Sequence[Run]) -> bool:
    """Tells whether the next plan has a step as it was, or a later one took its result over."""
    state, following = run.steps[name], later[0].steps.get(name)
    if following is not None and following.finished_at == state.finished_at:
        return following.status is StepStatus.DONE
    return any(
        each.status is StepStatus.DONE
        and each.reused_from == run.id
        and each.result_hash == state.result_hash
        for after in later
        if (each := after.steps.get(name)) is not None
    )


def can_be_undone(run: Run, events: Sequence[Event]) -> bool:
    """Tells whether a run did anything that has a call which takes it back."""
    done = done_steps(events) if run.revisions > 1 else [DoneSteps(run, _done(run))]
    return any(_has_undo(each.run, name) for each in done for name in each.names)


def _has_undo(run: Run, name: str) -> bool:
    unit = named_unit(run.plan, name, run.templates) if run.plan is not None else None
    return unit is not None and not unit.is_group and unit.step.undo_with is not None


def reversals(
    done: DoneSteps, results: Mapping[str, Json], templates: Mapping[str, Plan]
) -> list[Reversal]:
    """Returns the calls that take back what a run has done under one of its plans."""
    if done.run.plan is None:
        return []
    units = plan_units(done.run.plan)
    found = _found(units, done.run, results, PartsMaker(templates))
    return [each._replace(left_at=done.left_at) for each in found if each.step in done.names]


def _found(
    units: Mapping[str, Unit], run: Run, results: Mapping[str, Json], parts: PartsMaker
) -> Iterator[Reversal]:
    for name, unit in units.items():
        state = run.steps.get(name)
        if state is None:
            continue
        if unit.is_group:
            yield from _found(_parts(unit, run, results, parts), run, results, parts)
        elif unit.step.undo_with is not None and state.status is StepStatus.DONE:
            undo = unit.step.undo_with
            # What it would take back may be something else than what a person had sent instead.
            fits = _sent_as_planned(unit, run, results) or is_own_result(undo, unit.step.id)
            inputs = _inputs(unit, undo, results) if fits else None
            yield Reversal(name, undo.tool, inputs, state.finished_at or _NEVER)


def _sent_as_planned(unit: Unit, run: Run, results: Mapping[str, Json]) -> bool:
    """Tells whether a call was made with the values of the plan, and not with a person's own."""
    state = run.steps[unit.name]
    before = (each.call for each in state.made if each.result == state.result_hash)
    sent = state.call or next(before, "")
    try:
        return not sent or sent == call_mark(resolved(unit, results))
    except ReferenceFailed:
        return False


def _parts(
    unit: Unit, run: Run, results: Mapping[str, Json], parts: PartsMaker
) -> Mapping[str, Unit]:
    """Returns the parts that a unit had; none if it never came to have any."""
    known = {
        name: state.item
        for name, state in run.steps.items()
        if name.rpartition("/")[0] == unit.name and (state.item or state.attempts)
    }
    try:
        group = parts.group(unit, resolved(unit, results), results, known)
    except ReferenceFailed:
        return {}
    group.started_parts({name: state.status for name, state in run.steps.items()}, ())
    return group.parts


def _inputs(unit: Unit, undo: Undo, results: Mapping[str, Json]) -> dict[str, Json] | None:
    """Returns the inputs of a call with the recorded values, in which nothing is a reference.

    A value of a tool that looks like a secret would be taken for one that the plan names: then
    the call cannot be told.
    """
    own = {**unit.bound, unit.step.id: results.get(unit.name)}
    here = Unit(unit.name, unit.step, scope=unit.scope, bound=own)
    try:
        filled = cast("dict[str, Json]", fill(dict(undo.inputs), Values(results, here)))
    except ReferenceFailed:
        return None
    mark = SECRET_MARK.decode()
    if json.dumps(filled).count(mark) != json.dumps(undo.inputs).count(mark):
        return None
    return {name: literal(value) for name, value in filled.items()}
