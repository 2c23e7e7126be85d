"""The units of execution: steps, and the parts of map and plan steps."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import cast

from plansmith.errors import ReferenceFailed
from plansmith.plan.data import Json, content_hash
from plansmith.plan.graph import order
from plansmith.plan.plan import Plan
from plansmith.plan.refs import ITEM, PARAMS, RESERVED, fill, fill_text, lookup
from plansmith.plan.run import StepStatus
from plansmith.plan.sentence import Sentence
from plansmith.plan.steps import AgentStep, AnyStep, MapStep, PlanStep, ReplyStep, ToolStep


@dataclass(frozen=True, slots=True)
class Unit:
    """A step with its place: its name in the journal, its scope, and what is bound in it."""

    name: str
    step: AnyStep
    scope: str = ""
    bound: Mapping[str, Json] = field(default_factory=dict[str, Json])
    parent: str | None = None
    depth: int = 0
    off: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])

    @property
    def callee(self) -> str:
        """The tool or agent it calls, for limits per tool; else its kind."""
        match self.step:
            case ToolStep():
                return self.step.tool
            case AgentStep():
                return self.step.agent
            case _:
                return self.step.kind

    def needs(self) -> frozenset[str]:
        """The names of the units it waits for, whatever is known of them.

        For a step that is switched off, those that this one would wait for: a question in front
        of it still comes before what is behind it.
        """
        waits = self.step.needs() - RESERVED
        waits = waits - self.off.keys() | {
            each for need in waits for each in self.off.get(need, ())
        }
        return frozenset(f"{self.scope}{need}" for need in waits)

    @property
    def item(self) -> str:
        """By which item of its map step a part is known, wherever that stands in the list."""
        return content_hash(self.bound[ITEM]) if self.is_item else ""

    @property
    def is_item(self) -> bool:
        """Whether it is there for one item of a map step."""
        return self.parent is not None and self.scope != f"{self.parent}/"


class Values(Mapping[str, Json]):
    """Results as a unit's references see them: by step id within its scope."""

    def __init__(self, results: Mapping[str, Json], unit: Unit) -> None:
        self._results = results
        self._unit = unit

    def __getitem__(self, name: str) -> Json:
        if name in self._unit.bound:
            return self._unit.bound[name]
        return self._results[f"{self._unit.scope}{name}"]

    def __iter__(self) -> Iterator[str]:
        yield from self._unit.bound

    def __len__(self) -> int:
        return len(self._unit.bound)

    def __contains__(self, name: object) -> bool:
        return name in self._unit.bound or f"{self._unit.scope}{name}" in self._results


def resolved(unit: Unit, results: Mapping[str, Json]) -> dict[str, Json]:
    """The unit's inputs with every reference filled; fails with `ReferenceFailed`."""
    values = Values(results, unit)
    match unit.step:
        case ToolStep() | PlanStep():
            return cast("dict[str, Json]", fill(unit.step.inputs, values))
        case AgentStep():
            inputs = fill(unit.step.inputs, values)
            return {"task": fill_text(unit.step.task, values), "inputs": inputs}
        case ReplyStep():
            return {"instruction": fill_text(unit.step.instruction, values)}
        case MapStep():
            return {"over": fill(unit.step.over, values)}
        case _:
            return {"question": fill_text(unit.step.question, values)}


def cited(unit: Unit, results: Mapping[str, Json]) -> dict[str, Json]:
    """The values that a reply refers to, by how it writes them."""
    values = Values(results, unit)
    return {str(ref): lookup(ref, values) for ref in unit.step.refs()}


def plan_units(plan: Plan) -> dict[str, Unit]:
    """The units of a plan: its steps that are not switched off."""
    off = _switched_off(plan)
    return {step.id: Unit(step.id, step, off=off) for step in plan.steps if not step.disabled}


def map_units(unit: Unit, items: Json, known: Mapping[str, str]) -> dict[str, Unit]:
    """One unit for every item of a map step's list, in its order.

    `known` are parts of which the journal tells already, with the items they are for: an item
    keeps its name in another list, and no other item ever gets that name.
    """
    step = unit.step
    if not isinstance(step, MapStep) or not isinstance(items, list):
        kind = type(items).__name__
        raise ReferenceFailed(Sentence("step.no_list", step=unit.name, kind=kind))
    return {
        name: Unit(
            name,
            step.each,
            scope=unit.scope,
            bound={**unit.bound, ITEM: item},
            parent=unit.name,
            depth=unit.depth + 1,
            off=unit.off,
        )
        for name, item in zip(_names(unit.name, items, known), items, strict=True)
    }


def _names(whole: str, items: list[Json], known: Mapping[str, str]) -> list[str]:
    """A name for each item: its own if it has one, else its place in the list, if that is free."""
    if not known:
        return [f"{whole}/{place}" for place in range(len(items))]
    owned: dict[str, deque[str]] = {}
    for name in sorted(known, key=lambda name: int(name.rpartition("/")[2])):
        owned.setdefault(known[name], deque()).append(name)
    hashes = [content_hash(item) for item in items]
    # Who stands where it stood stays; equal items go by the order in which they occur.
    found = {
        place: f"{whole}/{place}"
        for place, digest in enumerate(hashes)
        if known.get(f"{whole}/{place}") == digest
    }
    for place, name in found.items():
        owned[hashes[place]].remove(name)
    for place, digest in enumerate(hashes):
        if place not in found and owned.get(digest):
            found[place] = owned[digest].popleft()
    taken = {*known, *found.values()}
    later = (f"{whole}/{number}" for number in count(len(items)))
    for place in range(len(items)):
        own = f"{whole}/{place}"
        if place not in found:
            found[place] = own if own not in taken else next(n for n in later if n not in taken)
            taken.add(found[place])
    return [found[place] for place in range(len(items))]


def _switched_off(plan: Plan) -> dict[str, frozenset[str]]:
    """The steps that are switched off, each with the active ones that come before it."""
    disabled = {step.id: step.needs() - RESERVED for step in plan.steps if step.disabled}
    graph = {name: before & disabled.keys() for name, before in disabled.items()}
    found: dict[str, frozenset[str]] = {}
    for name in order(graph) if disabled else ():
        before = disabled[name]
        through = {each for need in before & disabled.keys() for each in found[need]}
        found[name] = before - disabled.keys() | through
    return found


def template_units(unit: Unit, plan: Plan, parameters: Mapping[str, Json]) -> dict[str, Unit]:
    """The units of a template's plan, inside the plan step that runs it."""
    scope = f"{unit.name}/"
    off = _switched_off(plan)
    return {
        f"{scope}{step.id}": Unit(
            f"{scope}{step.id}",
            step,
            scope=scope,
            bound={PARAMS: dict(parameters)},
            parent=unit.name,
            depth=unit.depth + 1,
            off=off,
        )
        for step in plan.steps
        if not step.disabled
    }


def named_unit(plan: Plan, name: str, templates: Mapping[str, Plan]) -> Unit | None:
    """The unit of a name such as `step`, `map/3` or `plan/step`, unbound: for what it is."""
    first, *rest = name.split("/")
    step: AnyStep | None = plan.by_id.get(first)
    for part in rest:
        match step:
            case MapStep(each=each):
                step = each
            case PlanStep(template=template) if template in templates:
                step = templates[template].by_id.get(part)
            case _:
                return None
    return Unit(name, step) if step is not None else None


_LOST = frozenset({StepStatus.FAILED, StepStatus.SKIPPED, StepStatus.CANCELLED})


@dataclass(slots=True)
class Group:
    """The parts of one unit; a map lets in `width` of them at a time, a template all."""

    unit: Unit
    parts: dict[str, Unit]
    waiting: deque[str] = field(default_factory=deque[str])
    done: set[str] = field(default_factory=set[str])
    failed: dict[str, StepStatus] = field(default_factory=dict[str, StepStatus])

    @classmethod
    def of(cls, unit: Unit, parts: dict[str, Unit]) -> Group:
        """A group none of whose parts has been let in."""
        return cls(unit, parts, deque(parts))

    def take_up(self, ended: Mapping[str, StepStatus], opened: Collection[str]) -> dict[str, Unit]:
        """The parts of which something is known: ended, open, or waiting for a person's word.

        They are inside, whatever became of them: what needs one of them waits for it.
        """
        known = [name for name in self.parts if name in ended or name in opened]
        for name in known:
            if name in ended:
                self.leave(name, ended[name])
        self.waiting = deque(name for name in self.waiting if name not in known)
        return {name: self.parts[name] for name in known}

    def leave(self, name: str, status: StepStatus) -> None:
        """A part has ended; one that asks or is unknown has not."""
        if status is StepStatus.DONE:
            self.done.add(name)
        elif status in _LOST:
            self.failed[name] = status

    def let_in(self) -> dict[str, Unit]:
        """The next parts that may go into the schedule, as far as there is room."""
        step = self.unit.step
        inside = len(self.parts) - len(self.waiting) - len(self.done) - len(self.failed)
        room = step.width - inside if isinstance(step, MapStep) else len(self.waiting)
        names = [self.waiting.popleft() for _ in range(min(max(room, 0), len(self.waiting)))]
        return {name: self.parts[name] for name in names}

    def lost(self) -> set[str]:
        """Parts that can no longer run, since they need one that failed."""
        lost = set(self.failed)
        size = -1
        while size != len(lost):
            size = len(lost)
            lost |= {name for name, part in self.parts.items() if part.needs() & lost}
        return lost

    @property
    def over(self) -> bool:
        """Whether no part can change any more."""
        if len(self.done) + len(self.failed) == len(self.parts):
            return True
        return bool(self.failed) and len(self.done | self.lost()) == len(self.parts)

    @property
    def left_out(self) -> bool:
        """Whether nothing but a person's word keeps it from being done."""
        return bool(self.failed) and set(self.failed.values()) == {StepStatus.SKIPPED}

    def error(self) -> str:
        """Why the group is not done, or nothing."""
        if not self.failed:
            return ""
        count, total, parts = len(self.failed), len(self.parts), [*self.failed][:5]
        if self.left_out:
            return Sentence("step.parts_left_out", count=count, total=total, parts=parts)
        return Sentence("step.parts_failed", count=count, total=total, parts=parts)

    def joined(self, results: Mapping[str, Json]) -> Json:
        """The results of all parts: a list for a map, a table by step for a template."""
        if isinstance(self.unit.step, MapStep):
            return [results[name] for name in self.parts]
        return {part.step.id: results[name] for name, part in self.parts.items()}
