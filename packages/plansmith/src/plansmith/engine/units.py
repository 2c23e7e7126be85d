"""The units of execution: steps, and the parts of map and plan steps."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from types import MappingProxyType
from typing import Final, NamedTuple, TypedDict

from plansmith.errors import ReferenceFailed
from plansmith.plan.capability import AgentSpec, ToolSpec
from plansmith.plan.data import Json, content_hash
from plansmith.plan.graph import order
from plansmith.plan.plan import Plan
from plansmith.plan.refs import ITEM, PARAMS, RESERVED, fill, fill_text, lookup
from plansmith.plan.run import StepStatus
from plansmith.plan.sentence import Sentence
from plansmith.plan.steps import AgentStep, AnyStep, AskStep, MapStep, PlanStep, ReplyStep, ToolStep

_UNBOUND: Final[Mapping[str, Json]] = MappingProxyType({})
_NONE_OFF: Final[Mapping[str, frozenset[str]]] = MappingProxyType({})


class Unit:
    """A step or part to execute: its name in the journal, its scope, and its bound values.

    `is_round`: it is one round of a repeated step.
    """

    __slots__ = (
        *("bound", "callee", "depth", "is_round", "name", "off", "parent", "scope", "step"),
    )

    def __init__(
        self,
        name: str,
        step: AnyStep,
        *,
        scope: str = "",
        bound: Mapping[str, Json] = _UNBOUND,
        parent: str | None = None,
        depth: int = 0,
        off: Mapping[str, frozenset[str]] = _NONE_OFF,
        is_round: bool = False,
    ) -> None:
        self.name = name
        self.step = step
        self.scope = scope
        self.bound = bound
        self.parent = parent
        self.depth = depth
        self.off = off
        self.is_round = is_round
        # The tool or agent that it calls, else its kind.
        self.callee = (
            step.tool if step.kind == "tool" else step.agent if step.kind == "agent" else step.kind
        )

    def with_step(self, step: AnyStep) -> Unit:
        """Returns the same unit with a changed step."""
        return Unit(
            self.name,
            step,
            scope=self.scope,
            bound=self.bound,
            parent=self.parent,
            depth=self.depth,
            off=self.off,
            is_round=self.is_round,
        )

    def needs(self) -> frozenset[str]:
        """Returns the names of the units that it waits for.

        A disabled step is replaced by the steps that it would wait for, so that a question before
        it still comes before what follows.
        """
        waits = self.step.needed - RESERVED
        if not self.off and not self.scope:
            return waits
        waits = waits - self.off.keys() | {
            each for need in waits for each in self.off.get(need, ())
        }
        return frozenset(f"{self.scope}{need}" for need in waits)

    @property
    def item(self) -> str:
        """Returns the hash of the map item that a part is for; empty for other units."""
        return content_hash(self.bound[ITEM]) if self.is_item else ""

    @property
    def is_item(self) -> bool:
        """Tells whether it is for one item of a map step."""
        inside = self.parent is not None and self.scope != f"{self.parent}/"
        return inside and not self.is_round

    @property
    def is_group(self) -> bool:
        """Tells whether it has parts: a map, a plan, or a step that is repeated."""
        return self.step.kind in ("map", "plan") or self.step.repeat is not None


class Values(Mapping[str, Json]):
    """The results that a unit's references can use: by step id within its scope."""

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
    """Returns the unit's inputs with every reference filled; may raise `ReferenceFailed`."""
    values = Values(results, unit) if unit.bound or unit.scope else results
    match unit.step:
        case ToolStep(inputs=inputs) | PlanStep(inputs=inputs):
            return {name: fill(each, values) for name, each in inputs.items()}
        case AgentStep(task=task, inputs=inputs):
            return {"task": fill_text(task, values), "inputs": fill(inputs, values)}
        case MapStep(over=over):
            return {"over": fill(over, values)}
        case ReplyStep(instruction=text):
            return {"instruction": fill_text(text, values)}
        case AskStep(question=text):
            return {"question": fill_text(text, values)}


def cited(unit: Unit, results: Mapping[str, Json]) -> dict[str, Json]:
    """Returns the values that a reply refers to, by the text of the reference."""
    values = Values(results, unit)
    return {str(ref): lookup(ref, values) for ref in unit.step.refs()}


def plan_units(plan: Plan) -> dict[str, Unit]:
    """Returns the units of a plan: its steps that are not disabled."""
    off = _disabled_steps(plan)
    return {step.id: Unit(step.id, step, off=off) for step in plan.steps if not step.disabled}


def map_units(unit: Unit, items: Json, known: Mapping[str, str]) -> dict[str, Unit]:
    """Returns one unit for every item of a map step's list, in order.

    `known` are the parts that have started, with the hashes of their items: an item keeps its
    name when the list changes, and no other item gets that name.
    """
    step = unit.step
    if not isinstance(step, MapStep) or not isinstance(items, list):
        kind = type(items).__name__
        raise ReferenceFailed(
            Sentence("{step} goes over a list, and this is a {kind}", step=unit.name, kind=kind)
        )
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


def _names(step: str, items: list[Json], known: Mapping[str, str]) -> list[str]:
    """Returns a name for each item: the one it has, else its position in the list if free."""
    if not known:
        return [f"{step}/{place}" for place in range(len(items))]
    names_by_item: dict[str, deque[str]] = {}
    for name in sorted(known, key=lambda name: int(name.rpartition("/")[2])):
        names_by_item.setdefault(known[name], deque()).append(name)
    hashes = [content_hash(item) for item in items]
    # Items at their old position keep their name; equal items are matched in order.
    found = {
        place: f"{step}/{place}"
        for place, digest in enumerate(hashes)
        if known.get(f"{step}/{place}") == digest
    }
    for place, name in found.items():
        names_by_item[hashes[place]].remove(name)
    for place, digest in enumerate(hashes):
        if place not in found and names_by_item.get(digest):
            found[place] = names_by_item[digest].popleft()
    taken = {*known, *found.values()}
    later = (f"{step}/{number}" for number in count(len(items)))
    for place in range(len(items)):
        own = f"{step}/{place}"
        if place not in found:
            found[place] = own if own not in taken else next(n for n in later if n not in taken)
            taken.add(found[place])
    return [found[place] for place in range(len(items))]


def _disabled_steps(plan: Plan) -> dict[str, frozenset[str]]:
    """Returns the disabled steps, each with the active steps that come before it."""
    disabled = {step.id: step.needs() - RESERVED for step in plan.steps if step.disabled}
    if not disabled:
        return disabled
    graph = {name: before & disabled.keys() for name, before in disabled.items()}
    found: dict[str, frozenset[str]] = {}
    for name in order(graph):
        before = disabled[name]
        through = {each for need in before & disabled.keys() for each in found[need]}
        found[name] = before - disabled.keys() | through
    return found


def template_units(unit: Unit, plan: Plan, parameters: Mapping[str, Json]) -> dict[str, Unit]:
    """Returns the units of a template's plan, inside the plan step that runs it."""
    scope = f"{unit.name}/"
    off = _disabled_steps(plan)
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


def round_unit(unit: Unit, number: int) -> Unit:
    """Returns one round of a repeated step, which is a part with a name of its own."""
    return Unit(
        f"{unit.name}/{number}",
        round_step(unit.step),
        scope=unit.scope,
        bound=unit.bound,
        parent=unit.name,
        depth=unit.depth + 1,
        off=unit.off,
        is_round=True,
    )


def round_step(step: AnyStep) -> AnyStep:
    """Returns the step that one round runs: the rules for all rounds together are left out."""
    alone: dict[str, object] = {"repeat": None, "when": None, "otherwise": None}
    if step.kind != "map" or step.on_error != "collect":  # which a map says about its items
        alone["on_error"] = "fail"
    return step.model_copy(update=alone)


def named_unit(plan: Plan, name: str, templates: Mapping[str, Plan]) -> Unit | None:
    """Returns the unit named `step`, `map/3`, `plan/step` or `repeated/2`, without bound values."""
    first, *rest = name.split("/")
    step: AnyStep | None = plan.by_id.get(first)
    is_round = False
    for part in rest:
        is_round = step is not None and step.repeat is not None
        if step is not None and is_round:
            step = round_step(step)
            continue
        match step:
            case MapStep(each=each):
                step = each
            case PlanStep(template=template) if template in templates:
                step = templates[template].by_id.get(part)
            case _:
                return None
    return Unit(name, step, is_round=is_round) if step is not None else None


_MOST_ASKING: Final = 100
_LOST = frozenset({StepStatus.FAILED, StepStatus.SKIPPED, StepStatus.CANCELLED})


@dataclass(slots=True)
class Group:
    """The parts of a map or plan step; a map runs `width` of them at a time, a template all.

    Parts that ask a person before they begin are `asking`; they wait, and leave their place to
    others, so that a person is asked about many at once.
    """

    unit: Unit
    parts: dict[str, Unit]
    waiting: deque[str] = field(default_factory=deque[str])
    done: set[str] = field(default_factory=set[str])
    failed: dict[str, StepStatus] = field(default_factory=dict[str, StepStatus])
    asking: set[str] = field(default_factory=set[str])

    @classmethod
    def of(cls, unit: Unit, parts: dict[str, Unit]) -> Group:
        """Creates a group whose parts all wait."""
        return cls(unit, parts, deque(parts))

    def started_parts(
        self, ended: Mapping[str, StepStatus], opened: Collection[str]
    ) -> dict[str, Unit]:
        """Takes the parts that have started before: ended, open, or waiting for a person.

        Parts that need one of them wait for it.
        """
        known = [name for name in self.parts if name in ended or name in opened]
        for name in known:
            if name in ended:
                self.end(name, ended[name])
        self.waiting = deque(name for name in self.waiting if name not in known)
        return {name: self.parts[name] for name in known}

    def ask(self, name: str) -> bool:
        """Records that a part asks before it begins; returns whether it leaves its place."""
        step = self.unit.step
        if not isinstance(step, MapStep) or step.repeat is not None:
            return False
        if step.width == 1 or len(self.asking) >= _MOST_ASKING:
            return False  # one after the other, or enough at once
        self.asking.add(name)
        self.waiting.append(name)
        return True

    def end(self, name: str, status: StepStatus) -> None:
        """Records that a part has ended; one that asks or is unknown has not."""
        if name in self.asking:
            self.asking.remove(name)
            self.waiting.remove(name)
        if status is StepStatus.DONE:
            self.done.add(name)
        elif status in _LOST:
            self.failed[name] = status

    def next_parts(self) -> dict[str, Unit]:
        """Returns the next parts that may be queued, up to the map's width."""
        step = self.unit.step
        inside = len(self.parts) - len(self.waiting) - len(self.done) - len(self.failed)
        free = step.width - inside if isinstance(step, MapStep) else len(self.waiting)
        if self.asking:
            able = [name for name in self.waiting if name not in self.asking]
            self.waiting = deque([*able, *(name for name in self.waiting if name in self.asking)])
        able_count = len(self.waiting) - len(self.asking)
        names = [self.waiting.popleft() for _ in range(min(max(free, 0), able_count))]
        return {name: self.parts[name] for name in names}

    def lost(self) -> set[str]:
        """Returns the parts that cannot run any more, since they need one that failed."""
        lost = set(self.failed)
        size = -1
        while size != len(lost):
            size = len(lost)
            lost |= {name for name, part in self.parts.items() if part.needs() & lost}
        return lost

    @property
    def over(self) -> bool:
        """Tells whether no part can change any more."""
        if len(self.done) + len(self.failed) == len(self.parts):
            return True
        return bool(self.failed) and len(self.done | self.lost()) == len(self.parts)

    @property
    def left_out(self) -> bool:
        """Tells whether it is unfinished only because a person skipped parts."""
        return bool(self.failed) and set(self.failed.values()) == {StepStatus.SKIPPED}

    def error(self) -> str:
        """Says why the group is not done; empty if it is."""
        if not self.failed:
            return ""
        count, total, parts = len(self.failed), len(self.parts), [*self.failed][:5]
        if self.left_out:
            return Sentence(
                "{count} of {total} parts were left out: {parts}",
                count=count,
                total=total,
                parts=parts,
            )
        return Sentence(
            "{count} of {total} parts failed: {parts}", count=count, total=total, parts=parts
        )

    def joined(self, results: Mapping[str, Json]) -> Json:
        """The results of all parts: a list for a map, a table by step for a template.

        Parts that the plan itself skipped have none.
        """
        found = {name: part for name, part in self.parts.items() if name in results}
        if isinstance(self.unit.step, MapStep):
            return [results[name] for name in found]
        return {part.step.id: results[name] for name, part in found.items()}


class Known(TypedDict):
    """The tools and agents that steps can call, and the templates that they run."""

    tools: Mapping[str, ToolSpec]
    agents: Mapping[str, AgentSpec]
    templates: Mapping[str, Plan]


class Level(NamedTuple):
    """A plan around a step, and the step of that plan that contains it."""

    plan: Plan
    part: str
    scope: str


def levels(plan: Plan, step: str, known: Known) -> Iterator[Level | None]:
    """Yields every plan around a step, the outermost first; None for a plan that is not known."""
    scope, parts = "", step.split("/")
    while parts:
        part = parts.pop(0)
        if part not in plan.by_id:
            yield None
            return
        yield Level(plan, part, scope)
        scope, inner = f"{scope}{part}/", plan.by_id[part]
        while parts and (inner.repeat is not None or isinstance(inner, MapStep)):
            scope = f"{scope}{parts.pop(0)}/"
            if inner.repeat is not None:
                inner = round_step(inner)
            elif isinstance(inner, MapStep):
                inner = inner.each
        template = inner.template if isinstance(inner, PlanStep) else ""
        plan = known["templates"].get(template, Plan())
