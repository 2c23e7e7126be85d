"""The units of execution: steps, and the parts of map, plan and repeated steps."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from itertools import count
from types import MappingProxyType
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from plansmith.errors import ReferenceFailed
from plansmith.plan.data import Json, content_hash, kind_of_value
from plansmith.plan.plan import Plan
from plansmith.plan.refs import ITEM, PARAMS, RESERVED, fill, fill_text, lookup
from plansmith.plan.sentence import Sentence
from plansmith.plan.steps import AgentStep, AnyStep, AskStep, MapStep, PlanStep, ReplyStep, ToolStep

_UNBOUND: Final[Mapping[str, Json]] = MappingProxyType({})
_NONE_OFF: Final[Mapping[str, frozenset[str]]] = MappingProxyType({})


class Unit(msgspec.Struct, eq=False):
    """A step or part to execute: its name in the journal, its scope, and its bound values.

    `off` are the disabled steps around it, each with the active steps that come before. `is_round`:
    it is one round of a repeated step. `callee` is the tool or agent that it calls, else its kind.
    """

    name: str
    step: AnyStep
    scope: str = ""
    bound: Mapping[str, Json] = _UNBOUND
    parent: str | None = None
    depth: int = 0
    off: Mapping[str, frozenset[str]] = _NONE_OFF
    is_round: bool = False
    callee: str = ""

    def __post_init__(self) -> None:
        self.callee = self.step.callee or self.step.kind

    def with_step(self, step: AnyStep) -> Unit:
        """Returns the same unit with a changed step."""
        return replace(self, step=step)

    def part(self, name: str, step: AnyStep) -> Unit:
        """Returns a part of this unit, which sees what this unit sees; it is no round."""
        parent, depth = self.name, self.depth + 1
        return replace(self, name=name, step=step, parent=parent, depth=depth, is_round=False)

    def needs(self) -> frozenset[str]:
        """Returns the names of the units that it waits for.

        A disabled step is replaced by the steps that it would wait for, so that a question before
        it still comes before what follows.
        """
        waits = self.step.needed - RESERVED
        if not self.off and not self.scope:
            return waits
        through = {each for need in waits for each in self.off.get(need, ())}
        return frozenset(f"{self.scope}{need}" for need in waits - self.off.keys() | through)

    @property
    def item(self) -> str:
        """Returns the hash of the map item that a part is for; empty for other units."""
        return content_hash(self.bound[ITEM]) if self.is_item else ""

    @property
    def is_item(self) -> bool:
        """Whether it is for one item of a map step."""
        return not self.is_round and self.parent is not None and self.scope != f"{self.parent}/"

    @property
    def is_group(self) -> bool:
        """Whether it has parts: a map, a plan, or a step that is repeated."""
        return self.step.kind in ("map", "plan") or self.step.repeat is not None


class Values(Mapping[str, Json]):
    """The results that a unit's references can use, by step id; only bound values are listed."""

    def __init__(self, results: Mapping[str, Json], unit: Unit) -> None:
        self._results, self._unit = results, unit

    def __getitem__(self, name: str) -> Json:
        if name in self._unit.bound or name in RESERVED:
            return self._unit.bound[name]
        return self._results[f"{self._unit.scope}{name}"]

    def __iter__(self) -> Iterator[str]:
        yield from self._unit.bound

    def __len__(self) -> int:
        return len(self._unit.bound)

    def __contains__(self, name: object) -> bool:
        is_step = name not in RESERVED and f"{self._unit.scope}{name}" in self._results
        return is_step or name in self._unit.bound


def resolved(unit: Unit, results: Mapping[str, Json]) -> dict[str, Json]:
    """Returns the inputs, filled as the one value that is checked; may raise `ReferenceFailed`."""
    values = Values(results, unit) if unit.bound or unit.scope else results
    match unit.step:
        case ToolStep(inputs=inputs) | PlanStep(inputs=inputs):
            return _filled(inputs, values)
        case AgentStep(task=task, inputs=inputs):
            return {"task": fill_text(task, values), "inputs": _filled(inputs, values)}
        case MapStep(over=over):
            return {"over": fill(over, values)}
        case ReplyStep(instruction=text):
            return {"instruction": fill_text(text, values)}
        case AskStep(question=text):
            return {"question": fill_text(text, values)}


def _filled(inputs: dict[str, Json], values: Mapping[str, Json]) -> dict[str, Json]:
    """Fills the inputs as one value, which a reference may make something else than an object."""
    filled = fill(inputs, values)
    if not isinstance(filled, dict):
        kind = kind_of_value(filled)
        raise ReferenceFailed(Sentence("inputs have to be an object, not {kind}", kind=kind))
    return filled


def cited(unit: Unit, results: Mapping[str, Json]) -> dict[str, Json]:
    """Returns the values that a reply refers to, by the text of the reference."""
    values = Values(results, unit)
    return {str(ref): lookup(ref, values) for ref in unit.step.input_refs()}


def plan_units(plan: Plan) -> dict[str, Unit]:
    """Returns the units of a plan: its steps that are not disabled."""
    active = [step for step in plan.steps if not step.disabled]
    off = plan.through_disabled if len(active) < len(plan.steps) else _NONE_OFF
    return {step.id: Unit(step.id, step, off=off) for step in active}


def map_units(unit: Unit, items: Json, started: Mapping[str, str]) -> dict[str, Unit]:
    """Returns one unit for every item of a map step's list, in order.

    `started` are the parts that began before, with the hashes of their items: an item keeps its
    name when the list changes, and no other item gets that name.
    """
    step = unit.step
    if not isinstance(step, MapStep) or not isinstance(items, list):
        kind = type(items).__name__
        raise ReferenceFailed(
            Sentence("{step} goes over a list, and this is a {kind}", step=unit.name, kind=kind)
        )
    names = _item_names(unit.name, items, started)
    parts = [unit.part(name, step.each) for name in names]
    for part, item in zip(parts, items, strict=True):
        part.bound = {**unit.bound, ITEM: item}
    return dict(zip(names, parts, strict=True))


def _item_names(step: str, items: list[Json], started: Mapping[str, str]) -> list[str]:
    """Returns a name for each item: the one it has, else its position in the list if free."""
    own = [f"{step}/{place}" for place in range(len(items))]
    if not started:
        return own
    free: dict[str, deque[str]] = {}
    for name in sorted(started, key=lambda name: int(name.rpartition("/")[2])):
        free.setdefault(started[name], deque()).append(name)
    hashes = [content_hash(item) for item in items]
    # Items at their old position keep their name; equal items are matched in order.
    names = {place: name for place, name in enumerate(own) if started.get(name) == hashes[place]}
    for place, name in names.items():
        free[hashes[place]].remove(name)
    for place, digest in enumerate(hashes):
        if place not in names and free.get(digest):
            names[place] = free[digest].popleft()
    taken = {*started, *names.values()}
    later = (name for number in count(len(items)) if (name := f"{step}/{number}") not in taken)
    for place, name in enumerate(own):
        if place not in names:
            names[place] = name if name not in taken else next(later)
            taken.add(names[place])
    return [names[place] for place in range(len(items))]


def template_units(unit: Unit, plan: Plan, parameters: Mapping[str, Json]) -> dict[str, Unit]:
    """Returns the units of a template's plan, inside the plan step that runs it."""
    scope, off, bound = f"{unit.name}/", plan.through_disabled, {PARAMS: dict(parameters)}
    around = replace(unit, scope=scope, bound=bound, off=off)
    steps = {f"{scope}{step.id}": step for step in plan.steps if not step.disabled}
    return {name: around.part(name, step) for name, step in steps.items()}


def round_unit(unit: Unit, number: int) -> Unit:
    """Returns one round of a repeated step, which is a part with a name of its own."""
    part = unit.part(f"{unit.name}/{number}", round_step(unit.step))
    part.is_round = True
    return part


def round_step(step: AnyStep) -> AnyStep:
    """Returns the step that one round runs: the rules for all rounds together are left out."""
    alone: dict[str, object] = {"repeat": None, "when": None, "otherwise": None}
    if step.kind != "map" or step.on_error != "collect":  # 'collect' is about items
        alone["on_error"] = "fail"
    return step.model_copy(update=alone)


class Level(NamedTuple):
    """Where a step or part stands in one of the plans around it.

    `root` is the step of that plan that contains it, `inner` what runs there: a round of that step,
    or the inner step of a map. `place` is the same for all items and rounds: `map/inner`.
    """

    plan: Plan
    root: str
    scope: str
    inner: AnyStep
    place: str
    is_round: bool


def levels(plan: Plan, name: str, templates: Mapping[str, Plan]) -> Iterator[Level | None]:
    """Yields every plan around a step, the outermost first; None for a plan that is not known."""
    scope, place, parts = "", "", name.split("/")
    while parts:
        part = parts.pop(0)
        if part not in plan.by_id:
            yield None
            return
        step, around, is_round = plan.by_id[part], scope, False
        scope, place = f"{scope}{part}/", f"{place}{part}"
        while parts and (step.repeat is not None or isinstance(step, MapStep)):
            scope, is_round = f"{scope}{parts.pop(0)}/", step.repeat is not None
            if isinstance(step, MapStep) and not is_round:
                step = step.each
                place = f"{place}/{step.id}"
            else:
                step = round_step(step)
        yield Level(plan, part, around, step, place, is_round)
        template = step.template if isinstance(step, PlanStep) else ""
        plan, place = templates.get(template, Plan()), f"{place}/"


def named_unit(plan: Plan, name: str, templates: Mapping[str, Plan]) -> Unit | None:
    """Returns the unit named `step`, `map/3`, `plan/step` or `repeated/2`, without bound values."""
    *_, level = levels(plan, name, templates)
    return Unit(name, level.inner, is_round=level.is_round) if level is not None else None


def place_of(plan: Plan, name: str, templates: Mapping[str, Plan]) -> str:
    """Returns the place in the plan of a run's step or part: `map/inner` for `map/3`."""
    *_, level = levels(plan, name, templates)
    return level.place if level is not None else ""
