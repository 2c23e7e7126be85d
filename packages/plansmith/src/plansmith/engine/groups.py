"""The parts of map, plan and repeated steps: which may start, and when the whole step is over."""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Mapping
from typing import Final

from plansmith.engine.units import Unit, Values, map_units, round_unit, template_units
from plansmith.errors import ReferenceFailed
from plansmith.plan.conditions import condition_text, holds
from plansmith.plan.data import Json
from plansmith.plan.plan import Plan
from plansmith.plan.run import StepStatus
from plansmith.plan.sentence import Sentence
from plansmith.plan.steps import MapStep, PlanStep, Repeat

_MOST_ASKING: Final = 100
_LOST: Final = (StepStatus.FAILED, StepStatus.SKIPPED, StepStatus.CANCELLED)


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
        self.lost: dict[str, StepStatus] = {}
        self.pause_s = 0.0  # how long its next part waits before it starts

    def started_parts(
        self, resting: Mapping[str, StepStatus], opened: Container[str]
    ) -> dict[str, Unit]:
        """Takes the parts that have started before: ended, open, or waiting for a person.

        Parts that need one of them wait for it.
        """
        known = {name: p for name, p in self.parts.items() if name in resting or name in opened}
        for name in known:
            if name in resting:
                self.end(name, resting[name])
        self.waiting = deque(name for name in self.waiting if name not in known)
        return known

    @property
    def may_step_aside(self) -> bool:
        """Whether a part that asks before it begins leaves its place to the next one."""
        step = self.unit.step
        if not isinstance(step, MapStep) or step.repeat is not None or step.width == 1:
            return False  # one after the other
        return len(self.asking) < _MOST_ASKING

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
        elif status in _LOST:
            self.lost[name] = status

    def next_parts(self) -> dict[str, Unit]:
        """Takes the next parts that may be queued, up to the map's width."""
        step, able = self.unit.step, self.waiting
        inside = len(self.parts) - len(able) - len(self.done) - len(self.lost)
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
        ended = len(self.done) + len(self.lost) == len(self.parts)
        if ended or not self.lost:
            return ended
        lost, size = set(self.lost), 0
        while size != len(lost):
            size = len(lost)
            lost |= {name for name, part in self.parts.items() if part.needs() & lost}
        return len(self.done | lost) == len(self.parts)

    @property
    def left_out(self) -> bool:
        """Whether it is unfinished only because a person skipped parts."""
        return bool(self.lost) and set(self.lost.values()) == {StepStatus.SKIPPED}

    def error(self) -> str:
        """Says why the group is not done; empty if it is."""
        if not self.lost:
            return ""
        fields = {"count": len(self.lost), "total": len(self.parts), "parts": [*self.lost][:5]}
        if self.left_out:
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
        self, resting: Mapping[str, StepStatus], opened: Container[str]
    ) -> dict[str, Unit]:
        """Takes the rounds that have started before, in order."""
        known: dict[str, Unit] = {}
        while self.waiting and (self._last in resting or self._last in opened):
            name = self.waiting.popleft()
            known[name] = self.parts[name]
            if name in resting:
                self.end(name, resting[name])
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
        return self._is_met or bool(self._flaw) or bool(self.lost)

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
