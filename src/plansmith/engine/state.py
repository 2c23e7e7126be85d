"""Where every step and part of a run stands while the executor runs it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final, Literal

from plansmith.engine.budget import RunBudget
from plansmith.engine.progress import Batch, spending
from plansmith.engine.ready import ReadyQueue
from plansmith.engine.units import Group, Unit, map_units, plan_units, template_units
from plansmith.errors import ReferenceFailed
from plansmith.plan import events as e
from plansmith.plan.data import Json, content_of
from plansmith.plan.graph import order
from plansmith.plan.plan import Plan
from plansmith.plan.run import Made, Run, StepStatus
from plansmith.plan.sentence import Sentence
from plansmith.plan.steps import MAX_NESTING, PlanStep
from plansmith.ports import Reply

Kind = Literal["tool", "time", "reference", "result"]
_OPEN: Final = frozenset({StepStatus.WAITING, StepStatus.READY, StepStatus.RUNNING})
_PERHAPS_DONE: Final = frozenset({StepStatus.DONE, StepStatus.UNKNOWN})


class State:
    """Counts needs down, opens and closes map and plan steps, and writes ends into batches.

    Every part of an open map or plan step that has begun is a unit, also one that asks or of
    which nobody knows how it ended: only a need that is done is no longer needed.
    """

    def __init__(
        self,
        *,
        run_budget: RunBudget,
        results: Mapping[str, Json],
        replies: Mapping[str, Reply],
        templates: Mapping[str, Plan],
        durations: Mapping[str, float],
    ) -> None:
        self.run_budget = run_budget
        self.results = dict(results)
        self.replies = dict(replies)
        self._templates = templates
        self._durations = durations
        self._contents: dict[str, str] = {}
        self.units: dict[str, Unit] = {}
        self.groups: dict[str, Group] = {}
        self.schedule = ReadyQueue({})
        self.attempts: Counter[str] = Counter()
        self.ended: dict[str, StepStatus] = {}
        self.allowed: dict[str, str] = {}
        self.opened: set[str] = set()
        self.unsure: set[str] = set()
        self.skipped: set[str] = set()
        self.made_values: dict[str, Json] = {}
        self._made: dict[str, tuple[Made, ...]] = {}
        self._items: dict[str, dict[str, str]] = {}

    def enter(self, run: Run) -> None:
        """Take in the plan and all that is known of its steps."""
        if run.plan is None:
            return
        for name, state in run.steps.items():
            if state.reply is not None:
                self.allowed[name] = state.reply.state
            self.attempts[name] = state.attempts
            if state.unsure:
                self.unsure.add(name)
            if state.made:
                self._made[name] = state.made
            if "/" in name and (state.item or state.attempts):
                self._items.setdefault(name.rpartition("/")[0], {})[name] = state.item
            if state.status not in _OPEN:
                self.ended[name] = state.status
        self._add(plan_units(run.plan))

    def _add(self, units: Mapping[str, Unit]) -> None:
        self.units |= units
        graph = self._waits({name: unit.needs() for name, unit in units.items()})
        durations = {name: self._durations.get(unit.callee, 1.0) for name, unit in units.items()}
        done = {name for name in units if self.ended.get(name) is StepStatus.DONE}
        self.schedule.add(graph, durations=durations, done=done)

    def _waits(self, graph: dict[str, frozenset[str]]) -> dict[str, frozenset[str]]:
        """What each unit waits for; behind one that ended early, also what that should wait for.

        A changed plan may put something before a step that is done, or perhaps done: what comes
        behind the step comes behind that, too.
        """
        ended = {name for name in graph if self.ended.get(name) in _PERHAPS_DONE}
        early: set[str] = set()
        if not ended:
            return graph
        for name in order({name: waits & graph.keys() for name, waits in graph.items()}):
            graph[name] |= {each for need in graph[name] & early for each in graph[need]}
            if name in ended and any(
                self.ended.get(need) is not StepStatus.DONE for need in graph[name]
            ):
                early.add(name)
        return graph

    def open(self, unit: Unit, inputs: Mapping[str, Json], batch: Batch, *, key: str) -> None:
        """Put the parts of a map or plan step that may begin into the schedule."""
        if unit.depth >= MAX_NESTING:
            raise ReferenceFailed(Sentence("step.too_deep", step=unit.name, most=MAX_NESTING))
        parts = self._parts(unit, inputs)
        if unit.name not in self.opened:
            batch.open(unit, key=key)
        group = self.groups[unit.name] = Group.of(unit, parts)
        self._add(group.take_up(self.ended, self.opened) | group.let_in())
        self._settle(group, batch)

    def _parts(self, unit: Unit, inputs: Mapping[str, Json]) -> dict[str, Unit]:
        if not isinstance(unit.step, PlanStep):
            return map_units(unit, inputs["over"], self._known(unit.name, inputs["over"]))
        plan = self._templates.get(unit.step.template)
        if plan is None:
            raise ReferenceFailed(Sentence("unknown.template", name=unit.step.template))
        if unit.step.content not in (None, self._content(unit.step.template, plan)):
            raise ReferenceFailed(Sentence("step.other_template", name=unit.step.template))
        parts = template_units(unit, plan, inputs)
        for part in parts.values():
            strange = sorted(part.needs() - parts.keys())
            if strange:
                missing = Sentence("step.need_missing", step=part.name, need=strange[0])
                raise ReferenceFailed(missing)
        return parts

    def _known(self, name: str, items: Json) -> dict[str, str]:
        """The parts that have begun, with their items; earlier releases went by places alone."""
        known = self._items.get(name, {})
        if all(known.values()) or not isinstance(items, list):
            return known
        by_place = {f"{name}/{place}": item for place, item in enumerate(items)}
        return {
            part: item or (content_of(by_place[part]).digest if part in by_place else "")
            for part, item in known.items()
        }

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
        if group.left_out:
            batch.bodies.append(e.StepSkipped(step=group.unit.name, reason=error))
            self._end(group.unit, StepStatus.SKIPPED, batch)
        elif error:
            self.fail(group.unit, error, batch)
        else:
            self.finish(group.unit, group.joined(self.results), batch)

    def finish(self, unit: Unit, value: Json, batch: Batch) -> None:
        """A unit has a result: what waited for it alone becomes ready."""
        content = content_of(value)
        batch.done(unit, content, self.run_budget.settle(unit.name))
        # What is recorded is what later steps get, whatever the callee does to its own.
        self._done(unit.name, content.value(), batch)

    def _done(self, name: str, value: Json, batch: Batch) -> None:
        self.results[name] = value
        self.unsure.discard(name)
        self.ended[name] = StepStatus.DONE
        unit = self.units.get(name)
        if unit is not None:
            self.schedule.finish(name)
            self._leave(unit, batch)

    def made_results(self) -> set[str]:
        """What calls gave that a changed plan has taken back, by content hash."""
        return {each.result for made in self._made.values() for each in made}

    def was_made(self, unit: Unit) -> bool:
        """Whether a unit has made a call of its callee before it went back to waiting."""
        return any(each.callee == unit.callee for each in self._made.get(unit.name, ()))

    def reuse(self, unit: Unit, inputs: str, batch: Batch, *, run: str) -> bool:
        """Take the result of this very call, if it was made already: it is not made again."""
        call = unit.callee, inputs
        made = self._made.get(unit.name, ())
        result = next((each.result for each in made if call == (each.callee, each.inputs)), "")
        if not result:
            return False
        batch.bodies.append(e.StepReused(step=unit.name, result=result, run=run))
        self._done(unit.name, self.made_values[result], batch)
        return True

    def fail(self, unit: Unit, error: str, batch: Batch, kind: Kind = "reference") -> None:
        """A unit has failed for good."""
        batch.bodies.append(self.failure(unit, error, kind))
        self._end(unit, StepStatus.FAILED, batch)

    def failure(
        self, unit: Unit, error: str, kind: Kind, *, again: bool = False, unsure: bool = False
    ) -> e.StepFailed:
        """The event of a failure, with what the call took."""
        spent = spending(self.run_budget.settle(unit.name))
        told = {"step": unit.name, "error": error, "again": again, "kind": kind}
        if unsure:
            self.unsure.add(unit.name)
            told["unsure"] = True
        return e.StepFailed.model_validate(told | spent)

    def park(self, unit: Unit, status: StepStatus) -> None:
        """A unit waits for a person's word."""
        self.run_budget.settle(unit.name)
        self.ended[unit.name] = status

    def _end(self, unit: Unit, status: StepStatus, batch: Batch) -> None:
        self.ended[unit.name] = status
        self._leave(unit, batch)

    def _leave(self, unit: Unit, batch: Batch) -> None:
        """A part has ended: the next one may come in, or the whole step ends."""
        group = self.groups.get(unit.parent or "")
        if group is None:
            return
        group.leave(unit.name, self.ended[unit.name])
        self._add(group.let_in())
        self._settle(group, batch)

    def heed(self, body: e.AnyBody, value: Json, batch: Batch) -> None:
        """Take in what a word from elsewhere, written by another process, did to a step.

        `value` is the result of a step that is done, or the state of a call that asked. A part
        whose step is not open yet is no unit: what is known of it counts when it is opened.
        """
        match body:
            case e.StepDone(step=name):
                self._done(name, value, batch)
            case e.StepFailed(step=name):
                self._ended(name, StepStatus.FAILED, batch)
            case e.StepSkipped(step=name):
                self._skip(name)
                self._ended(name, StepStatus.SKIPPED, batch)
            case e.StepReplied(step=name, answer=answer, state=state, permit=permit):
                if permit:
                    self.allowed[name] = state
                else:
                    self.replies[name] = Reply(answer, value)
                self._again(name)
            case e.StepReset(step=name):
                self.unsure.discard(name)
                self._again(name)
            case _:
                return

    def _ended(self, name: str, status: StepStatus, batch: Batch) -> None:
        self.ended[name] = status
        if name in self.units:
            self._leave(self.units[name], batch)

    def _skip(self, name: str) -> None:
        """What a person left out does not begin, nor does any part of it."""
        self.skipped.add(name)
        self.ended[name] = StepStatus.SKIPPED
        group = self.groups.pop(name, None)
        for part in group.parts if group is not None else ():
            self._skip(part)

    def _again(self, name: str) -> None:
        self.ended.pop(name, None)
        if name in self.units:
            self.schedule.put_back(name)
