"""The semantic difference of two plans, step by step and field by field, and its application."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import cast

from plansmith.errors import PlansmithError
from plansmith.plan.data import Json, Path, Record, same
from plansmith.plan.plan import Plan
from plansmith.plan.steps import AnyStep, Step, Value


class Change(StrEnum):
    """What happened to a field."""

    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"


class FieldChange(Record):
    """One field that differs; `before` means nothing for an added one, `after` for a removed."""

    path: Path
    change: Change
    before: Value = None
    after: Value = None


class PlacedStep(Record):
    """A step that is only in one plan, and its position there."""

    position: int
    step: Step


class StepChange(Record):
    """A step that is in both plans with different content."""

    id: str
    fields: tuple[FieldChange, ...]


class Move(Record):
    """A step that stands elsewhere among the steps both plans have."""

    id: str
    before: int
    after: int


class PlanDiff(Record):
    """All that turns one plan into another; empty, and false, for equal plans."""

    plan: tuple[FieldChange, ...] = ()
    added: tuple[PlacedStep, ...] = ()
    removed: tuple[PlacedStep, ...] = ()
    changed: tuple[StepChange, ...] = ()
    moved: tuple[Move, ...] = ()

    def __bool__(self) -> bool:
        return any((self.plan, self.added, self.removed, self.changed, self.moved))

    def __len__(self) -> int:
        changes = sum(len(step.fields) for step in self.changed)
        return len(self.plan) + len(self.added) + len(self.removed) + changes + len(self.moved)


def diff_plans(before: Plan, after: Plan) -> PlanDiff:
    """What changed from one plan to the other, steps matched by id."""
    old, new = _positions(before), _positions(after)
    both = [step_id for step_id in old if step_id in new]
    changes = {
        step_id: tuple(diff_values(before.by_id[step_id].to_json(), after.by_id[step_id].to_json()))
        for step_id in both
    }
    return PlanDiff(
        plan=tuple(diff_values(_head(before), _head(after))),
        added=tuple(_placed(after, new, old)),
        removed=tuple(_placed(before, old, new)),
        changed=tuple(StepChange(id=key, fields=each) for key, each in changes.items() if each),
        moved=tuple(_moves(both, old, new)),
    )


def apply_diff(plan: Plan, diff: PlanDiff) -> Plan:
    """The plan after the changes; `apply_diff(a, diff_plans(a, b))` equals `b`."""
    steps = dict(plan.by_id)
    for change in diff.changed:
        if change.id not in steps:
            raise PlansmithError(f"the plan has no step {change.id!r} to change")
        changed = apply_changes(steps[change.id].to_json(), change.fields)
        steps[change.id] = parse_step(changed)
    gone = {each.step.id for each in diff.removed} | {move.id for move in diff.moved}
    placed = {each.position: each.step for each in diff.added}
    placed |= {move.after: steps[move.id] for move in diff.moved}
    result = [step for step_id, step in steps.items() if step_id not in gone]
    for position in sorted(placed):
        result.insert(position, placed[position])
    head = apply_changes(_head(plan), diff.plan)
    return Plan.model_validate(head | {"steps": result})


def parse_step(value: Json) -> AnyStep:
    """One step from its JSON form."""
    return Plan.model_validate({"steps": [value]}).steps[0]


def diff_values(before: Json, after: Json, path: Path = ()) -> Iterator[FieldChange]:
    """The fields in which two JSON values differ; lists of other lengths differ as a whole."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in [*before, *(key for key in after if key not in before)]:
            here = (*path, key)
            if key not in after:
                yield FieldChange(path=here, change=Change.REMOVED, before=before[key])
            elif key not in before:
                yield FieldChange(path=here, change=Change.ADDED, after=after[key])
            else:
                yield from diff_values(before[key], after[key], here)
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, (left, right) in enumerate(zip(before, after, strict=True)):
            yield from diff_values(left, right, (*path, index))
    elif not same(before, after):
        yield FieldChange(path=path, change=Change.CHANGED, before=before, after=after)


def apply_changes(value: Json, changes: Sequence[FieldChange]) -> dict[str, Json]:
    """A JSON object with some fields changed; the object itself stays as it was."""
    result = cast("dict[str, Json]", _copy(value))
    for change in changes:
        parent = _parent(result, change.path)
        last = change.path[-1]
        if isinstance(parent, dict) and change.change is Change.REMOVED:
            parent.pop(str(last), None)
        elif isinstance(parent, dict):
            parent[str(last)] = _copy(change.after)
        elif isinstance(parent, list) and isinstance(last, int) and last < len(parent):
            parent[last] = _copy(change.after)
        else:
            place = ".".join(map(str, change.path))
            raise PlansmithError(f"the change at {place} does not fit this plan")
    return result


def _parent(value: Json, path: Path) -> Json:
    for key in path[:-1]:
        if isinstance(value, dict):
            value = value.get(str(key))
        elif isinstance(value, list) and isinstance(key, int) and key < len(value):
            value = value[key]
        else:
            return None
    return value


def _copy(value: Json) -> Json:
    if isinstance(value, dict):
        return {key: _copy(child) for key, child in value.items()}
    return [_copy(child) for child in value] if isinstance(value, list) else value


def _head(plan: Plan) -> dict[str, Json]:
    return {key: value for key, value in plan.to_json().items() if key != "steps"}


def _positions(plan: Plan) -> dict[str, int]:
    positions = {step.id: index for index, step in enumerate(plan.steps)}
    if len(positions) < len(plan.steps):
        raise PlansmithError(
            "a plan in which two steps have the same id cannot be compared",
            hint="give every step an id of its own",
        )
    return positions


def _placed(plan: Plan, here: dict[str, int], there: dict[str, int]) -> Iterator[PlacedStep]:
    for step_id, position in here.items():
        if step_id not in there:
            yield PlacedStep(position=position, step=plan.by_id[step_id])


def _moves(both: list[str], old: dict[str, int], new: dict[str, int]) -> Iterator[Move]:
    """The fewest steps that, taken out, leave the rest in the same order."""
    stay = _longest_rise([new[step_id] for step_id in both])
    for step_id in both:
        if new[step_id] not in stay:
            yield Move(id=step_id, before=old[step_id], after=new[step_id])


def _longest_rise(numbers: list[int]) -> set[int]:
    """The members of a longest increasing subsequence of distinct numbers."""
    ends: list[int] = []
    previous: dict[int, int | None] = {}
    for number in numbers:
        place = bisect_left(ends, number)
        previous[number] = ends[place - 1] if place else None
        ends[place : place + 1] = [number]
    members: set[int] = set()
    member = ends[-1] if ends else None
    while member is not None:
        members.add(member)
        member = previous[member]
    return members
