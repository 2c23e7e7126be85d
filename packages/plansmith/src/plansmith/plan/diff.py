"""Compares two plans, applies differences, and finds which edits a new plan undoes."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from enum import StrEnum
from itertools import takewhile
from typing import Any, Final, cast

from plansmith.errors import PlansmithError, ReferenceFailed
from plansmith.plan.data import Json, Path, Record, Value, same
from plansmith.plan.plan import Plan
from plansmith.plan.refs import Ref, lookup, rename_refs
from plansmith.plan.sentence import Sentence
from plansmith.plan.steps import REF_FIELDS, RULES, AnyStep, Step

_WHOLE: Final = frozenset(place for rule in RULES for place in ((rule,), ("each", rule)))


class ChangeKind(StrEnum):
    """What happened to a field."""

    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"


class FieldChange(Record):
    """A field that differs; `before` is unused for an added field, `after` for a removed one."""

    path: Path
    change: ChangeKind
    before: Value = None
    after: Value = None


class PlacedStep(Record):
    """A step that only one of the two plans has, and its position there."""

    position: int
    step: Step


class StepChange(Record):
    """A step that is in both plans with different content."""

    id: str
    fields: tuple[FieldChange, ...]


class MovedStep(Record):
    """A step that has another position among the steps that both plans have."""

    id: str
    before: int
    after: int


class PlanDiff(Record):
    """Everything that turns one plan into another; empty and false for equal plans."""

    plan: tuple[FieldChange, ...] = ()
    added: tuple[PlacedStep, ...] = ()
    removed: tuple[PlacedStep, ...] = ()
    changed: tuple[StepChange, ...] = ()
    moved: tuple[MovedStep, ...] = ()

    def __bool__(self) -> bool:
        return any((self.plan, self.added, self.removed, self.changed, self.moved))

    def __len__(self) -> int:
        changes = sum(len(step.fields) for step in self.changed)
        return len(self.plan) + len(self.added) + len(self.removed) + changes + len(self.moved)


def diff_plans(before: Plan, after: Plan) -> PlanDiff:
    """Returns what changed from one plan to the other; steps are matched by id.

    Args:
        before: The earlier plan.
        after: The later plan.

    Raises:
        PlansmithError: Two steps of a plan have the same id.

    Examples:
        >>> from plansmith import diff_plans, read_plan
        >>> before = read_plan({"steps": [{"id": "hello", "say": "Hello"}]})
        >>> after = read_plan({"steps": [{"id": "hello", "say": "Good day"}]})
        >>> [(step.id, step.fields[0].after) for step in diff_plans(before, after).changed]
        [('hello', 'Good day')]
    """
    old, new = _positions(before), _positions(after)
    both = [name for name in old if name in new]
    # The fewest steps that, when removed, leave the rest in the same order.
    stay = _longest_rise([new[name] for name in both])
    changed: list[StepChange] = []
    for name in both:
        fields = tuple(diff_values(before.by_id[name].to_json(), after.by_id[name].to_json()))
        changed += [StepChange(id=name, fields=fields)] if fields else []
    added = [(at, step) for at, step in enumerate(after.steps) if step.id not in old]
    removed = [(at, step) for at, step in enumerate(before.steps) if step.id not in new]
    moved = [name for name in both if new[name] not in stay]
    return PlanDiff(
        plan=tuple(diff_values(_head(before), _head(after))),
        added=tuple(PlacedStep(position=at, step=step) for at, step in added),
        removed=tuple(PlacedStep(position=at, step=step) for at, step in removed),
        changed=tuple(changed),
        moved=tuple(MovedStep(id=name, before=old[name], after=new[name]) for name in moved),
    )


def apply_diff(plan: Plan, diff: PlanDiff) -> Plan:
    """Returns the changed plan; `apply_diff(a, diff_plans(a, b))` equals `b`.

    Args:
        plan: The plan to change.
        diff: The changes.

    Raises:
        PlansmithError: The changes do not fit the plan.

    Examples:
        >>> from plansmith import Plan, apply_diff, diff_plans
        >>> before, after = Plan(goal="Greet"), Plan(goal="Greet everyone")
        >>> apply_diff(before, diff_plans(before, after)) == after
        True
    """
    steps = dict(plan.by_id)
    for change in diff.changed:
        if change.id not in steps:
            raise PlansmithError(
                Sentence("the plan has no step '{step}' to change", step=change.id)
            )
        steps[change.id] = parse_step(apply_changes(steps[change.id].to_json(), change.fields))
    gone = {each.step.id for each in diff.removed} | {move.id for move in diff.moved}
    placed = {each.position: each.step for each in diff.added}
    placed |= {move.after: steps[move.id] for move in diff.moved}
    result = [step for step_id, step in steps.items() if step_id not in gone]
    for position in sorted(placed):
        result.insert(position, placed[position])
    head = apply_changes(_head(plan), diff.plan)
    return Plan.model_validate(head | {"steps": result})


def parse_step(value: Json) -> AnyStep:
    """Reads one step from its JSON form."""
    return Plan.model_validate({"steps": [value]}).steps[0]


def diff_values(before: Json, after: Json, path: Path = ()) -> Iterator[FieldChange]:
    """Returns the fields in which two JSON values differ.

    Lists of other lengths and rules of steps differ whole: a half of one condition with a half of
    another is one that nobody wrote.
    """
    if isinstance(before, dict) and isinstance(after, dict) and not is_rule(path):
        for key in before | after:
            here = (*path, key)
            if key not in after:
                yield FieldChange(path=here, change=ChangeKind.REMOVED, before=before[key])
            elif key not in before:
                yield FieldChange(path=here, change=ChangeKind.ADDED, after=after[key])
            else:
                yield from diff_values(before[key], after[key], here)
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, (left, right) in enumerate(zip(before, after, strict=True)):
            yield from diff_values(left, right, (*path, index))
    elif not same(before, after):
        yield FieldChange(path=path, change=ChangeKind.CHANGED, before=before, after=after)


def is_rule(path: Path) -> bool:
    """Tells whether a path in a step leads to a whole rule, its own or that of its inner step."""
    return path in _WHOLE


def apply_changes(value: Json, changes: Sequence[FieldChange]) -> dict[str, Json]:
    """Returns a copy of a JSON object with some fields changed."""
    result = cast("dict[str, Json]", deepcopy(value))
    for change in changes:
        last, parent = change.path[-1], None
        with suppress(ReferenceFailed):
            parent = lookup(Ref("plan", change.path[:-1]), {"plan": result})
        if isinstance(parent, dict) and change.change is ChangeKind.REMOVED:
            parent.pop(str(last), None)
        elif isinstance(parent, dict):
            parent[str(last)] = deepcopy(change.after)
        elif isinstance(parent, list) and isinstance(last, int) and last < len(parent):
            parent[last] = deepcopy(change.after)
        else:
            place = ".".join(map(str, change.path))
            why = Sentence("the change at {place} does not fit this plan", place=place)
            raise PlansmithError(why)
    return result


def _head(plan: Plan) -> dict[str, Json]:
    return {key: value for key, value in plan.to_json().items() if key != "steps"}


def _positions(plan: Plan) -> dict[str, int]:
    positions = {step.id: index for index, step in enumerate(plan.steps)}
    if len(positions) < len(plan.steps):
        raise PlansmithError(
            Sentence("a plan in which two steps have the same id cannot be compared"),
            hint=Sentence("give every step an id of its own"),
        )
    return positions


def _longest_rise(numbers: list[int]) -> set[int]:
    """Returns the members of a longest increasing subsequence of distinct numbers."""
    tails: list[int] = []
    previous: dict[int, int | None] = {}
    for number in numbers:
        place = bisect_left(tails, number)
        previous[number] = tails[place - 1] if place else None
        tails[place : place + 1] = [number]
    members: set[int] = set()
    member = tails[-1] if tails else None
    while member is not None:
        members.add(member)
        member = previous[member]
    return members


def undone_edits(base: Plan, person: Plan, replan: Plan) -> list[str]:
    """Returns the steps that a person changed by hand and that a new plan has otherwise.

    Args:
        base: The plan that both started from.
        person: The plan as the person changed it.
        replan: The new plan that a planner made.

    Examples:
        >>> from plansmith import read_plan
        >>> from plansmith.plan.diff import undone_edits
        >>> base = read_plan({"steps": [{"id": "mail", "tool": "send", "inputs": {"to": "bob"}}]})
        >>> undone_edits(base, base.replace(steps=()), base)
        ['mail']
    """
    edits = diff_plans(base, person)
    undone = [gone.step.id for gone in edits.removed if gone.step.id in replan.by_id]
    undone += [
        added.step.id for added in edits.added if replan.by_id.get(added.step.id) != added.step
    ]
    for step in edits.changed:
        theirs, mine = replan.by_id.get(step.id), person.by_id[step.id]
        if theirs is None or any(
            not same(_found(theirs, field.path), _found(mine, field.path)) for field in step.fields
        ):
            undone.append(step.id)
    return undone


def _found(step: AnyStep, path: Path) -> list[Json]:
    """Returns the value at a place, if there is one; of a list all: places in it shift."""
    whole = tuple(takewhile(lambda key: isinstance(key, str), path))
    try:
        return [lookup(Ref("step", whole), {"step": step.to_json()})]
    except ReferenceFailed:
        return []


def rename_steps(plan: Plan, names: Mapping[str, str]) -> Plan:
    """Returns the plan with some steps renamed; references and `after` are updated."""
    return plan.replace(steps=[_renamed(step.to_json(), names, own=True) for step in plan.steps])


def point_elsewhere(plan: Plan, sources: Mapping[str, str]) -> Plan:
    """Returns the plan with references to other sources; nothing waits for these any more."""
    return plan.replace(steps=[_renamed(step.to_json(), sources, own=False) for step in plan.steps])


def _renamed(step: dict[str, Any], names: Mapping[str, str], *, own: bool) -> dict[str, Any]:
    made = {
        key: rename_refs(each, names) if key in REF_FIELDS else each for key, each in step.items()
    }
    after = step.get("after", [])
    if own:
        made |= {"id": names.get(step["id"], step["id"])}
        after = [names.get(each, each) for each in after]
    made["after"] = [each for each in after if own or each not in names]
    if "each" in step:
        made["each"] = _renamed(step["each"], names, own=own)
    return made
