"""Groups: the parts of a map or plan step, let in as there is room, and ended together."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from plansmith.plan.data import Json
from plansmith.plan.run import StepStatus
from plansmith.plan.sentence import Sentence
from plansmith.plan.steps import MapStep
from plansmith.runner.units import Unit

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
