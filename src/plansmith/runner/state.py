"""State: where every unit of a run stands, kept without a clock, a loop or a store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final, Literal

from plansmith.errors import ReferenceFailed
from plansmith.plan import events as e
from plansmith.plan.data import Json, content_of
from plansmith.plan.plan import Plan
from plansmith.plan.run import Run, StepStatus
from plansmith.plan.steps import PlanStep
from plansmith.ports import Reply
from plansmith.runner.batch import Batch, spending
from plansmith.runner.budget import Purse
from plansmith.runner.groups import Group
from plansmith.runner.schedule import Schedule
from plansmith.runner.units import Unit, map_units, plan_units, template_units

MAX_DEPTH: Final = 5
Kind = Literal["tool", "time", "reference", "result"]
_OPEN: Final = frozenset({StepStatus.WAITING, StepStatus.READY, StepStatus.RUNNING})


class State:
    """Counts needs down, opens and closes map and plan steps, and writes ends into batches."""

    def __init__(
        self,
        *,
        purse: Purse,
        results: Mapping[str, Json],
        replies: Mapping[str, Reply],
        templates: Mapping[str, Plan],
        durations: Mapping[str, float],
    ) -> None:
        self.purse = purse
        self.results = dict(results)
        self.replies = dict(replies)
        self._templates = templates
        self._durations = durations
        self._contents: dict[str, str] = {}
        self.units: dict[str, Unit] = {}
        self.groups: dict[str, Group] = {}
        self.schedule = Schedule({})
        self.attempts: Counter[str] = Counter()
        self.ended: dict[str, StepStatus] = {}
        self.allowed: dict[str, str] = {}
        self.opened: set[str] = set()

    def enter(self, run: Run) -> None:
        """Take in the plan and all that is known of its steps."""
        if run.plan is None:
            return
        for name, state in run.steps.items():
            if state.reply is not None:
                self.allowed[name] = state.reply.state
            self.attempts[name] = state.attempts
            if state.status not in _OPEN:
                self.ended[name] = state.status
        self._add(plan_units(run.plan))

    def _add(self, units: Mapping[str, Unit]) -> None:
        self.units |= units
        graph = {name: unit.needs() & self.units.keys() for name, unit in units.items()}
        durations = {name: self._durations.get(unit.callee, 1.0) for name, unit in units.items()}
        done = {name for name in units if self.ended.get(name) is StepStatus.DONE}
        self.schedule.add(graph, durations=durations, done=done)

    def open(self, unit: Unit, inputs: Mapping[str, Json], batch: Batch, *, key: str) -> None:
        """Put the first parts of a map or plan step into the schedule."""
        if unit.depth >= MAX_DEPTH:
            raise ReferenceFailed(f"{unit.name} is nested more than {MAX_DEPTH} levels deep")
        if isinstance(unit.step, PlanStep):
            plan = self._templates.get(unit.step.template)
            if plan is None:
                raise ReferenceFailed(f"there is no template {unit.step.template!r}")
            if unit.step.content not in (None, self._content(unit.step.template, plan)):
                raise ReferenceFailed(f"{unit.step.template!r} is not what was approved")
            parts = template_units(unit, plan, inputs)
        else:
            parts = map_units(unit, inputs["over"])
        if unit.name not in self.opened:
            batch.bodies.append(e.StepStarted(step=unit.name, key=key))
        group = self.groups[unit.name] = Group.of(unit, parts)
        self._add(group.let_in(group.take_up(self.ended)))
        self._settle(group, batch)

    def _content(self, name: str, plan: Plan) -> str:
        """The hash of a template, made once and not for every item of a map."""
        if name not in self._contents:
            self._contents[name] = plan.hash
        return self._contents[name]

    def _settle(self, group: Group, batch: Batch) -> None:
        """End a map or plan step once none of its parts can change any more."""
        if not group.over or group.unit.name in self.ended:
            return
        error = group.error()
        if error:
            self.fail(group.unit, error, batch)
        else:
            self.finish(group.unit, group.joined(self.results), batch)

    def finish(self, unit: Unit, value: Json, batch: Batch) -> None:
        """A unit has a result: what waited for it alone becomes ready."""
        content = content_of(value)
        batch.done(unit, content, self.purse.settle(unit.name))
        # What is recorded is what later steps get, whatever the callee does to its own.
        self._done(unit, content.value(), batch)

    def _done(self, unit: Unit, value: Json, batch: Batch) -> None:
        self.results[unit.name] = value
        self.ended[unit.name] = StepStatus.DONE
        self.schedule.finish(unit.name)
        self._leave(unit, batch)

    def fail(self, unit: Unit, error: str, batch: Batch, kind: Kind = "reference") -> None:
        """A unit has failed for good."""
        batch.bodies.append(self.failure(unit, error, kind))
        self.ended[unit.name] = StepStatus.FAILED
        self._leave(unit, batch)

    def failure(self, unit: Unit, error: str, kind: Kind, *, again: bool = False) -> e.StepFailed:
        """The event of a failure, with what the call took."""
        spent = spending(self.purse.settle(unit.name))
        told = {"step": unit.name, "error": error, "again": again, "kind": kind}
        return e.StepFailed.model_validate(told | spent)

    def park(self, unit: Unit, status: StepStatus) -> None:
        """A unit waits for a person's word."""
        self.purse.settle(unit.name)
        self.ended[unit.name] = status

    def _leave(self, unit: Unit, batch: Batch) -> None:
        """A part has ended: the next one may come in, or the whole step ends."""
        group = self.groups.get(unit.parent or "")
        if group is None:
            return
        done = self.ended[unit.name] is StepStatus.DONE
        group.done.add(unit.name) if done else group.failed.append(unit.name)
        inside = len(group.parts) - len(group.waiting) - len(group.done) - len(group.failed)
        self._add(group.let_in(inside))
        self._settle(group, batch)

    def heed(self, body: e.AnyBody, value: Json, batch: Batch) -> None:
        """Take in what a person's word, written by another process, did to a step.

        `value` is the result of a step that is done, or the state of a call that asked.
        """
        unit = self.units.get(body.step) if isinstance(body, _ABOUT_STEPS) else None
        if unit is None:
            return
        match body:
            case e.StepDone():
                self._done(unit, value, batch)
            case e.StepFailed():
                self.ended[unit.name] = StepStatus.FAILED
                self._leave(unit, batch)
            case e.StepReplied(answer=answer, state=state, permit=permit):
                if permit:
                    self.allowed[unit.name] = state
                else:
                    self.replies[unit.name] = Reply(answer, value)
                self._again(unit)
            case _:
                self._again(unit)

    def _again(self, unit: Unit) -> None:
        self.ended.pop(unit.name, None)
        self.schedule.put_back(unit.name)


_ABOUT_STEPS = (e.StepDone, e.StepFailed, e.StepReplied, e.StepReset)
