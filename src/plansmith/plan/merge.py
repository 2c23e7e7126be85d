"""Three-way merge: a person's edits of a plan, kept on top of what a replan made of it."""

from __future__ import annotations

from typing import NamedTuple

from plansmith.errors import PlansmithError
from plansmith.plan.data import Json, same
from plansmith.plan.diff import (
    FieldChange,
    apply_changes,
    diff_plans,
    diff_values,
    parse_step,
)
from plansmith.plan.plan import Plan
from plansmith.plan.problem import Problem, problem
from plansmith.plan.sentence import Sentence
from plansmith.plan.steps import AnyStep


class Merge(NamedTuple):
    """The merged plan, and a note for each place where the replan had to give way."""

    plan: Plan
    notes: list[Problem]


def merge_plans(base: Plan, person: Plan, replan: Plan) -> Merge:
    """The replan with every edit the person made to the base; the person always wins."""
    edits = diff_plans(base, person)
    notes: list[Problem] = []
    steps = dict(replan.by_id)
    notes += [
        _note(gone.step.id, Sentence("ps.merge_removed"))
        for gone in edits.removed
        if steps.pop(gone.step.id, gone.step) != gone.step
    ]
    for added in edits.added:
        rival = steps.get(added.step.id)
        if rival is not None and rival != added.step:
            notes.append(_note(added.step.id, Sentence("ps.merge_added")))
        steps[added.step.id] = added.step
    for change in edits.changed:
        mine = person.by_id[change.id]
        steps[change.id] = _edited(base, mine, steps.get(change.id), change.fields, notes)
    head = _merged_head(base, person, replan)
    ordered = [steps[step_id] for step_id in _merged_order(base, person, replan, steps)]
    return Merge(Plan.model_validate(head | {"steps": ordered}), notes)


def _edited(
    base: Plan,
    mine: AnyStep,
    theirs: AnyStep | None,
    edits: tuple[FieldChange, ...],
    notes: list[Problem],
) -> AnyStep:
    if theirs is None:
        notes.append(_note(mine.id, Sentence("ps.merge_kept")))
        return mine
    original, wish = base.by_id[mine.id].to_json(), theirs.to_json()
    replanned = {each.path[0] for each in diff_values(original, wish)}
    edited = {each.path[0] for each in edits}
    notes += [
        _note(mine.id, Sentence("ps.merge_field", field=field))
        for field in sorted(map(str, replanned & edited))
    ]
    if "kind" in replanned | edited:
        return mine
    try:
        return parse_step(_overlay(original, wish, mine.to_json(), edits))
    except (PlansmithError, ValueError):
        return mine


def _overlay(
    original: dict[str, Json],
    wish: dict[str, Json],
    mine: dict[str, Json],
    edits: tuple[FieldChange, ...],
) -> dict[str, Json]:
    """The replan's step with the person's edits; a field that lost its shape is the person's."""
    for edit in edits:
        field = str(edit.path[0])
        through_list = any(isinstance(key, int) for key in edit.path)
        moved_on = through_list and not same(original.get(field), wish.get(field))
        try:
            wish = apply_changes(wish, [edit]) if not moved_on else wish | {field: mine[field]}
        except PlansmithError:
            wish = wish | {field: mine[field]}
    return wish


def _merged_head(base: Plan, person: Plan, replan: Plan) -> dict[str, Json]:
    def head(plan: Plan) -> dict[str, Json]:
        return {key: value for key, value in plan.to_json().items() if key != "steps"}

    wish = head(replan)
    for edit in diff_values(head(base), head(person)):
        field = str(edit.path[0])
        wish.pop(field, None)
        if field in head(person):
            wish[field] = head(person)[field]
    return wish


def _merged_order(base: Plan, person: Plan, replan: Plan, steps: dict[str, AnyStep]) -> list[str]:
    """The person's order if he changed it, else the replan's; others follow their neighbour."""
    old = [step.id for step in base.steps if step.id in person.by_id]
    mine = [step.id for step in person.steps if step.id in base.by_id]
    leader, other = (replan, person) if old == mine else (person, replan)
    result = [step.id for step in leader.steps if step.id in steps]
    placed = set(result)
    before: str | None = None
    for step in other.steps:
        if step.id in steps and step.id not in placed:
            result.insert(result.index(before) + 1 if before in placed else 0, step.id)
            placed.add(step.id)
        before = step.id if step.id in placed else before
    return result


def _note(step_id: str, what: str) -> Problem:
    hint = Sentence("hint.look_before_approving")
    return problem("PS312", what, hint=hint, step=step_id)
