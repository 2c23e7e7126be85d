"""Finds what the steps of a run did and which calls would take it back."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Final, NamedTuple, cast

from plansmith.engine.parts import PartsMaker
from plansmith.engine.units import Unit, Values, plan_units, resolved
from plansmith.errors import ReferenceFailed
from plansmith.plan.data import Json
from plansmith.plan.plan import Plan
from plansmith.plan.refs import SECRET_MARK, fill, literal
from plansmith.plan.run import Run, StepStatus
from plansmith.plan.step_rules import Undo

_NEVER: Final = datetime.min.replace(tzinfo=UTC)


class Reversal(NamedTuple):
    """The call that takes back a step or part; `inputs` are None if they cannot be told."""

    step: str
    tool: str
    inputs: dict[str, Json] | None
    done_at: datetime


def reversals(
    run: Run, results: Mapping[str, Json], templates: Mapping[str, Plan]
) -> list[Reversal]:
    """Returns the calls that take back what the steps of a run did, newest first."""
    if run.plan is None:
        return []
    found = [*_found(plan_units(run.plan), run, results, PartsMaker(templates))]
    return sorted(found, key=lambda each: each.done_at, reverse=True)


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
            inputs = _inputs(unit, unit.step.undo_with, results)
            done_at = state.finished_at or _NEVER
            yield Reversal(name, unit.step.undo_with.tool, inputs, done_at)


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
