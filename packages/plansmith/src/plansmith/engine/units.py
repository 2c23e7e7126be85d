"""What is executed: steps and their parts, and when a step with parts is over."""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Iterator, Mapping
from itertools import count
from types import MappingProxyType
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from plansmith.errors import ReferenceFailed
from plansmith.plan.conditions import condition_text, holds
from plansmith.plan.data import Json, canonical_hash, kind_of_value
from plansmith.plan.plan import Plan
from plansmith.plan.refs import ITEM, PARAMS, RESERVED, fill, fill_text, lookup
from plansmith.plan.run import UNSUCCESSFUL, StepStatus
from plansmith.plan.sentence import Sentence
from plansmith.plan.steps import (
    AgentStep,
    AnyStep,
    AskStep,
    MapStep,
    PlanStep,
    Repeat,
    ReplyStep,
    ToolStep,
)

_UNBOUND: Final[Mapping[str, Json]] = MappingProxyType({})
_NONE_OFF: Final[Mapping[str, frozenset[str]]] = MappingProxyType({})
_MAX_ASKING: Final = 100


class Unit(msgspec.Struct, eq=False):
    """A step or part to execute: its name in the journal, its scope, and its bound values.

    `through_disabled` are the disabled steps around it, each with the active steps that come
    before. `is_round`: it is one round of a repeated step. `callee` is the tool or agent that it
    calls, else its kind.
    """

    name: str
    step: AnyStep
    scope: str = ""
    bound: Mapping[str, Json] = _UNBOUND
    parent: str | None = None
    depth: int = 0
    through_disabled: Mapping[str, frozenset[str]] = _NONE_OFF
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

        A disabled step is replaced by the steps that it would wait for: a question before it is
        still asked first.
        """
        waits = self.step.needed - RESERVED
        if not self.through_disabled and not self.scope:
            return waits
        through = {each for need in waits for each in self.through_disabled.get(need, ())}
        return frozenset(
            f"{self.scope}{need}" for need in waits - self.through_disabled.keys() | through
        )

    @property
    def item(self) -> str:
        """Returns the hash of the map item that a part is for; empty for other units."""
        return canonical_hash(self.bound[ITEM]) if self.is_item else ""

    @property
    def is_item(self) -> bool:
        """Whether it is for one item of a map step."""
        # Parts of a template have their parent's name as scope; items and rounds have not.
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
    return {step.id: Unit(step.id, step, through_disabled=off) for step in active}


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
    own = [f"{step}/{position}" for position in range(len(items))]
    if not started:
        return own
    free: dict[str, deque[str]] = {}
    for name in sorted(started, key=lambda name: int(name.rpartition("/")[2])):
        free.setdefault(started[name], deque()).append(name)
    hashes = [canonical_hash(item) for item in items]
    # Items at their old position keep their name; equal items are matched in order.
    pairs = enumerate(zip(own, hashes, strict=True))
    names = {position: name for position, (name, digest) in pairs if started.get(name) == digest}
    for position, name in names.items():
        free[hashes[position]].remove(name)
    for position, digest in enumerate(hashes):
        if position not in names and free.get(digest):
            names[position] = free[digest].popleft()
    taken = {*started, *names.values()}
    later = (name for number in count(len(items)) if (name := f"{step}/{number}") not in taken)
    for position, name in enumerate(own):
        if position not in names:
            names[position] = name if name not in taken else next(later)
            taken.add(names[position])
    return [names[position] for position in range(len(items))]


def template_units(unit: Unit, plan: Plan, parameters: Mapping[str, Json]) -> dict[str, Unit]:
    """Returns the units of a template's plan, inside the plan step that runs it."""
    scope, off, bound = f"{unit.name}/", plan.through_disabled, {PARAMS: dict(parameters)}
    around = replace(unit, scope=scope, bound=bound, through_disabled=off)
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


class Group:
    """The parts of a map or plan step; a map runs `width` of them at a time, a template all.

    Parts that ask a person before they begin are `asking`; they wait, and leave their place to
    others, so that a person is asked about many at once.
    """

    def __init__(self, unit: Unit, parts: dict[str, Unit]) -> None:
        self.unit, self.parts = unit, parts
        self.waiting = deque(parts)
        self.asking: set[str] = set()
        self.done: set[str] = set()
        self.not_done: dict[str, StepStatus] = {}
        self.held = 0  # parts that are not executed now, and leave their place to others
        self.pause_s = 0.0  # how long its next part waits before it starts

    def started_parts(
        self, stopped: Mapping[str, StepStatus], opened: Container[str]
    ) -> dict[str, Unit]:
        """Takes the parts that have started before: ended, open, or waiting for a person.

        Parts that need one of them wait for it.
        """
        known = {name: p for name, p in self.parts.items() if name in stopped or name in opened}
        for name in known:
            if name in stopped:
                self.end(name, stopped[name])
        self.waiting = deque(name for name in self.waiting if name not in known)
        return known

    @property
    def may_step_aside(self) -> bool:
        """Whether a part that asks before it begins leaves its place to the next one."""
        step = self.unit.step
        if not isinstance(step, MapStep) or step.repeat is not None or step.width == 1:
            return False  # one after the other
        return len(self.asking) < _MAX_ASKING

    def step_aside(self, name: str) -> None:
        """Moves a part that asks before it begins behind the others."""
        self.asking.add(name)
        self.waiting.append(name)

    def end(self, name: str, status: StepStatus) -> None:
        """Records that a part has ended; one that asks or is unknown has not."""
        if name in self.asking:
            self.asking.remove(name)
            self.waiting.remove(name)
        if status is StepStatus.DONE:
            self.done.add(name)
        elif status in UNSUCCESSFUL:
            self.not_done[name] = status

    def next_parts(self) -> dict[str, Unit]:
        """Takes the next parts that may be queued, up to the map's width."""
        step, able = self.unit.step, self.waiting
        inside = len(self.parts) - len(able) - len(self.done) - len(self.not_done) - self.held
        free = max(step.width - inside, 0) if isinstance(step, MapStep) else len(able)
        if self.asking:
            able = deque(name for name in able if name not in self.asking)
        names = [able.popleft() for _ in range(min(free, len(able)))]
        if self.asking:
            self.waiting = deque([*able, *(each for each in self.waiting if each in self.asking)])
        return {name: self.parts[name] for name in names}

    @property
    def over(self) -> bool:
        """Whether no part can change any more: the others need one that failed."""
        ended = len(self.done) + len(self.not_done) == len(self.parts)
        if ended or not self.not_done:
            return ended
        lost, size = set(self.not_done), 0
        while size != len(lost):
            size = len(lost)
            lost |= {name for name, part in self.parts.items() if part.needs() & lost}
        return len(self.done | lost) == len(self.parts)

    @property
    def only_skipped(self) -> bool:
        """Whether it is unfinished only because a person skipped parts."""
        return bool(self.not_done) and set(self.not_done.values()) == {StepStatus.SKIPPED}

    def error(self) -> str:
        """Says why the group is not done; empty if it is."""
        if not self.not_done:
            return ""
        fields = {
            "count": len(self.not_done),
            "total": len(self.parts),
            "parts": [*self.not_done][:5],
        }
        if self.only_skipped:
            return Sentence("{count} of {total} parts were left out: {parts}", **fields)
        return Sentence("{count} of {total} parts failed: {parts}", **fields)

    def joined(self, results: Mapping[str, Json]) -> Json:
        """The results of all parts: a list for a map, a table by step for a template.

        Parts that the plan itself skipped have none.
        """
        found = {name: part for name, part in self.parts.items() if name in results}
        if isinstance(self.unit.step, MapStep):
            return [results[name] for name in found]
        return {part.step.id: results[name] for name, part in found.items()}


class RoundGroup(Group):
    """The rounds of a step; the next one is added when the last has ended and more are needed."""

    def __init__(self, unit: Unit, repeat: Repeat, results: Mapping[str, Json]) -> None:
        super().__init__(unit, {})
        self._repeat, self._results = repeat, results
        self._is_met, self._flaw = False, ""
        self._add_round()

    def _add_round(self) -> None:
        part = round_unit(self.unit, len(self.parts) + 1)
        self._last, self.pause_s = part.name, self._repeat.every if self.parts else 0.0
        self.parts[part.name] = part
        self.waiting.append(part.name)

    def started_parts(
        self, stopped: Mapping[str, StepStatus], opened: Container[str]
    ) -> dict[str, Unit]:
        """Takes the rounds that have started before, in order."""
        known: dict[str, Unit] = {}
        while self.waiting and (self._last in stopped or self._last in opened):
            name = self.waiting.popleft()
            known[name] = self.parts[name]
            if name in stopped:
                self.end(name, stopped[name])
        return known

    def end(self, name: str, status: StepStatus) -> None:
        """Records that a round has ended, and decides whether another one follows."""
        super().end(name, status)
        if status is not StepStatus.DONE or name != self._last or self._is_met or self._flaw:
            return
        own = {**self.unit.bound, self.unit.step.id: self._results[name]}
        here = Unit("", self.unit.step, scope=self.unit.scope, bound=own)
        try:
            self._is_met = holds(self._repeat.until, Values(self._results, here))
        except ReferenceFailed as error:
            self._flaw = str(error)
            return
        if not self._is_met and len(self.parts) < self._repeat.at_most:
            self._add_round()
        elif not self._is_met:
            self._flaw = Sentence(
                "after {count} rounds it is still not so that {condition}",
                count=len(self.parts),
                condition=condition_text(self._repeat.until),
            )

    @property
    def over(self) -> bool:
        """Whether no round follows."""
        return self._is_met or bool(self._flaw) or bool(self.not_done)

    def error(self) -> str:
        """Says why the step is not done; empty if it is."""
        return self._flaw or super().error()

    def joined(self, results: Mapping[str, Json]) -> Json:
        """The result of the last round."""
        return results[self._last]


def group_of(
    unit: Unit,
    inputs: Mapping[str, Json],
    results: Mapping[str, Json],
    started: Mapping[str, str],
    templates: Mapping[str, Plan],
) -> Group:
    """Returns the parts of a unit; `started` are those that began before, with their items."""
    step = unit.step
    if step.repeat is not None:
        return RoundGroup(unit, step.repeat, results)
    if not isinstance(step, PlanStep):
        return Group(unit, map_units(unit, inputs["over"], started))
    plan = templates.get(step.template)
    if plan is None:
        raise ReferenceFailed(Sentence("unknown.template", name=step.template))
    if step.content not in (None, plan.hash):
        raise ReferenceFailed(Sentence("'{name}' is not what was approved", name=step.template))
    parts = template_units(unit, plan, inputs)
    for name, part in parts.items():
        if unknown := min(part.needs() - parts.keys(), default=""):
            why = Sentence("{step} waits for {need}, which does not exist", step=name, need=unknown)
            raise ReferenceFailed(why)
    return Group(unit, parts)
