"""The state of every step and part of a run while it is executed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, TypeVar

from plansmith.engine.budget import CallReservations
from plansmith.engine.groups import PartsMaker, RoundGroup
from plansmith.engine.outcome import instead_of_result, on_error
from plansmith.engine.progress import Batch, StepTimers, spending
from plansmith.engine.ready import ReadyQueue
from plansmith.engine.units import Group, Unit, plan_units
from plansmith.errors import ReferenceFailed
from plansmith.plan import events as e
from plansmith.plan.data import Json, content_of
from plansmith.plan.events import FailureKind, SkipRule
from plansmith.plan.graph import order
from plansmith.plan.plan import Plan
from plansmith.plan.run import Made, Run, StepState, StepStatus
from plansmith.plan.sentence import Sentence
from plansmith.plan.steps import MAX_NESTING, Instead
from plansmith.ports import Reply

_OPEN: Final = frozenset({StepStatus.WAITING, StepStatus.READY, StepStatus.RUNNING})
_AWAITED: Final = frozenset({StepStatus.ASKING, StepStatus.UNKNOWN})
_Passed = TypeVar("_Passed", e.StepSkipped, e.StepFailed)
_NEW: Final = (StepState(), StepState(status=StepStatus.READY))
_PERHAPS_DONE: Final = frozenset({StepStatus.DONE, StepStatus.UNKNOWN})


class State:
    """Tracks which units are ready, opens and closes map and plan steps, adds ends to batches.

    Every part of an open map or plan step that has started is a unit, also one that asks or
    whose end is unknown: units that need it wait until it is done.
    """

    def __init__(
        self,
        *,
        run_budget: CallReservations,
        results: Mapping[str, Json],
        replies: Mapping[str, Reply],
        templates: Mapping[str, Plan],
        durations: Mapping[str, float],
        timers: StepTimers,
    ) -> None:
        self.run_budget = run_budget
        self.results = dict(results)
        self.replies = dict(replies)
        self._parts = PartsMaker(templates)
        self._durations = durations
        self.units: dict[str, Unit] = {}
        self.groups: dict[str, Group] = {}
        self.schedule = ReadyQueue()
        self.attempts: dict[str, int] = {}
        self.asked: dict[str, int] = {}  # consents, so that none has the name of an earlier one
        # How many calls were made when the last question was answered: they do not count as tries.
        self.answered: dict[str, int] = {}
        self.ended: dict[str, StepStatus] = {}
        self.allowed: dict[str, e.StepReplied] = {}
        self.opened: set[str] = set()
        self.unsure: set[str] = set()
        self.skipped: set[str] = set()
        # Steps that the plan itself skipped, those without a result with the reason.
        self.settled: set[str] = set()
        self.passed: dict[str, SkipRule] = {}
        self.timers = timers
        self.made_values: dict[str, Json] = {}
        self.made: dict[str, tuple[Made, ...]] = {}
        self._items: dict[str, dict[str, str]] = {}
        self.has_new_end = False

    def enter(self, run: Run, plan: Plan) -> None:
        """Loads the plan, which nobody else may change, and the state of its steps."""
        for name, state in run.steps.items():
            if state in _NEW:
                self.attempts[name] = 0  # no call for each step of a new run
            else:
                self._enter_step(name, state)
        self._add(plan_units(plan))

    def _enter_step(self, name: str, state: StepState) -> None:
        if state.permit is not None:
            self.allowed[name] = state.permit
        if state.reply is not None:
            self.answered[name] = state.answered
        self.attempts[name] = state.attempts
        self.asked[name] = state.asked
        self.unsure |= {name} if state.unsure else set()
        if state.made:
            self.made[name] = state.made
        if "/" in name and (state.item or state.attempts):
            self._items.setdefault(name.rpartition("/")[0], {})[name] = state.item
        if state.status not in _OPEN:
            self.ended[name] = state.status
        elif state.wakes_at is not None:
            self.timers.know(name, state.wakes_at)
        if state.rule:
            self._enter_settled(name, state, state.rule)

    def _enter_settled(self, name: str, state: StepState, rule: SkipRule) -> None:
        self.settled.add(name)
        if not state.result_hash:
            self.passed[name] = rule

    def _add(self, units: Mapping[str, Unit]) -> None:
        self.units |= units
        done = {name for name in units if self.status(name) is StepStatus.DONE}
        waits = self._waits({name: unit.needs() for name, unit in units.items()})
        lengths = {name: self._durations.get(each.callee, 1.0) for name, each in units.items()}
        self.schedule.add(waits, lengths, done=done)

    def _waits(self, graph: dict[str, frozenset[str]]) -> dict[str, frozenset[str]]:
        """Returns what each unit waits for.

        A changed plan may put a new step before one that is done or perhaps done: the units after
        that one then wait for the new step as well.
        """
        ended = {name for name in graph if self.ended.get(name) in _PERHAPS_DONE}
        early: set[str] = set()
        if not ended:
            return graph
        for name in order({name: waits & graph.keys() for name, waits in graph.items()}):
            graph[name] |= {each for need in graph[name] & early for each in graph[need]}
            if name in ended and any(
                self.status(need) is not StepStatus.DONE for need in graph[name]
            ):
                early.add(name)
        return graph

    def open(self, unit: Unit, inputs: Mapping[str, Json], batch: Batch, *, key: str) -> None:
        """Opens a map or plan step: queues the parts that may start."""
        if unit.depth >= MAX_NESTING:
            raise ReferenceFailed(
                Sentence(
                    "{step} is nested more than {most} levels deep",
                    step=unit.name,
                    most=MAX_NESTING,
                )
            )
        group = self._parts.group(unit, inputs, self.results, self._items.get(unit.name, {}))
        bodies, values = len(batch.bodies), len(batch.values)
        try:
            if unit.name not in self.opened:
                batch.open(unit, key=key)
            self.groups[unit.name] = group
            ended = self.ended | dict.fromkeys(self.settled, StepStatus.DONE)
            self._add(group.started_parts(ended, self.opened))
            for name in group.parts if self.ended else ():
                if self.ended.get(name) is StepStatus.ASKING and not self.attempts.get(name):
                    group.ask(name)
            self._queue_next(group, batch)
            self._settle(group, batch)
        except BaseException:
            batch.cut(bodies, values)
            raise

    def status(self, name: str) -> StepStatus | None:
        """Returns how a unit ended; one that the plan itself skipped counts as done."""
        return StepStatus.DONE if name in self.settled else self.ended.get(name)

    @property
    def is_all_done(self) -> bool:
        """Whether every step of the run is done, none by a rule of the plan, as in most runs."""
        if self.groups or self.settled or self.schedule.ready:
            return False
        return all(self.ended.get(name) is StepStatus.DONE for name in self.attempts)

    def _queue_next(self, group: Group, batch: Batch) -> None:
        """Queues the next parts of a group; a round may have to wait before."""
        parts = group.next_parts()
        if isinstance(group, RoundGroup):
            self._pause(group, parts, batch)
        self._add(parts)

    def _pause(self, group: RoundGroup, rounds: Iterable[str], batch: Batch) -> None:
        for name in rounds:
            seconds = group.pause_s(name)
            if seconds and not self.attempts.get(name) and name not in self.timers.written:
                self.timers.wait(name, seconds, batch)

    def _settle(self, group: Group, batch: Batch) -> None:
        """Ends a map or plan step once none of its parts can change any more."""
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
        """Records a unit's result; units that waited only for it become ready."""
        content = content_of(value)
        batch.done(unit, content, self.run_budget.settle(unit.name))
        # Later steps get the recorded value, even if the callee changes its own.
        self._done(unit.name, content.value(), batch)

    def skip(self, unit: Unit, reason: str, rule: SkipRule, batch: Batch) -> None:
        """Records that the plan itself skips a unit, with what stands in for its result."""
        otherwise = unit.step.otherwise
        body = e.StepSkipped(step=unit.name, reason=reason, rule=rule)
        batch.bodies.append(self._standing_in(unit, body, otherwise, batch))
        self._pass(unit.name, rule, batch)

    def _standing_in(
        self, unit: Unit, body: _Passed, instead: Instead | None, batch: Batch
    ) -> _Passed:
        """Keeps a value that stands in for a unit's result; returns the event with its hash."""
        if instead is None:
            return body
        content = content_of(instead.value)
        self.results[unit.name] = content.value()
        batch.values.append(content)
        return body.replace(result=content.digest)

    def _pass(self, name: str, rule: SkipRule, batch: Batch) -> None:
        """Lets units that waited for this one go on."""
        self.settled.add(name)
        self.ended[name] = StepStatus.SKIPPED
        if name not in self.results:
            self.passed[name] = rule
        if name in self.units:
            self.schedule.finish(name)
            self._leave(self.units[name], batch)

    def _done(self, name: str, value: Json, batch: Batch) -> None:
        self.results[name] = value
        if self.unsure:
            self.unsure.discard(name)
        self.ended[name] = StepStatus.DONE
        if name in self.units:
            self.schedule.finish(name)
            unit = self.units[name]
            if unit.parent is not None:
                self._leave(unit, batch)
            elif unit.step.kind not in ("ask", "reply"):
                self.has_new_end = True

    def release(self, replies: Mapping[str, Unit]) -> None:
        """Makes replies ready although steps they need did not finish."""
        for name, unit in replies.items():
            self.units[name] = unit
            self.schedule.release(name)

    @property
    def waits_for_person(self) -> bool:
        """Whether a step waits for an answer."""
        return any(each in _AWAITED for each in self.ended.values())

    def made_results(self) -> set[str]:
        """Returns the hashes of the results of steps that a changed plan reset."""
        return {each.result for made in self.made.values() for each in made}

    def was_made(self, unit: Unit) -> bool:
        """Tells whether a unit called the same tool or agent before it was reset."""
        return any(each.callee == unit.callee for each in self.made.get(unit.name, ()))

    def reuse(self, unit: Unit, call: str, batch: Batch, *, run: str) -> bool:
        """Reuses the result of an identical earlier call; false if there was none."""
        made = self.made.get(unit.name, ())
        same = (each.result for each in made if (each.callee, each.call) == (unit.callee, call))
        result = next(same, "")
        if not result:
            return False
        batch.bodies.append(e.StepReused(step=unit.name, result=result, run=run))
        self._done(unit.name, self.made_values[result], batch)
        return True

    def fail(self, unit: Unit, error: str, batch: Batch, kind: FailureKind = "reference") -> None:
        """Records that a unit has failed for good; its `on_error` may let the plan go on."""
        whole = self.units[unit.parent].step if unit.is_item and unit.parent else None
        body, wanted = self.failure(unit, error, kind), on_error(unit.step, whole)
        if wanted == "fail":
            batch.bodies.append(body)
            self._end(unit, StepStatus.FAILED, batch)
            return
        instead = instead_of_result(unit.step, wanted, error, kind)
        passed = self._standing_in(unit, body.replace(passed=True), instead, batch)
        batch.bodies.append(passed)
        self._pass(unit.name, "error", batch)

    def failure(
        self,
        unit: Unit,
        error: str,
        kind: FailureKind,
        *,
        again: bool = False,
        unsure: bool = False,
    ) -> e.StepFailed:
        """Returns the event of a failure, with what the call used."""
        spent = spending(self.run_budget.settle(unit.name))
        if unsure:
            self.unsure.add(unit.name)
        return e.StepFailed(
            step=unit.name, error=error, again=again, kind=kind, unsure=unsure, **spent
        )

    def park(self, unit: Unit, status: StepStatus) -> None:
        """Records that a unit waits for a person."""
        self.run_budget.settle(unit.name)
        self.ended[unit.name] = status

    def ask_first(self, unit: Unit, batch: Batch) -> None:
        """Records that a unit asks a person before it begins; the next item may ask meanwhile."""
        self.park(unit, StepStatus.ASKING)
        group = self.groups.get(unit.parent or "") if unit.is_item else None
        if group is not None and group.ask(unit.name):
            self._queue_next(group, batch)

    def _end(self, unit: Unit, status: StepStatus, batch: Batch) -> None:
        self.ended[unit.name] = status
        self._leave(unit, batch)

    def _leave(self, unit: Unit, batch: Batch) -> None:
        """Updates the group of an ended part: queues the next part, or ends the whole step."""
        group = self.groups.get(unit.parent or "")
        if group is None:
            return
        group.end(unit.name, self.status(unit.name) or StepStatus.SKIPPED)
        self._queue_next(group, batch)
        self._settle(group, batch)

    def apply(self, body: e.AnyBody, value: Json, batch: Batch) -> None:
        """Applies an event about a step that another process wrote.

        `value` is the result of a finished step, or the state of a call that asked. A part whose
        step is not open yet is no unit: the event counts when the step is opened.
        """
        match body:
            case e.StepDone(step=name):
                self._done(name, value, batch)
            case e.StepFailed(step=name, passed=True, result=digest):
                self.results |= {name: value} if digest else {}
                self._pass(name, "error", batch)
            case e.StepFailed(step=name):
                self._ended(name, StepStatus.FAILED, batch)
            case e.StepSkipped(step=name):
                self._skip(name)
                self._ended(name, StepStatus.SKIPPED, batch)
            case e.StepReplied(step=name, answer=answer, permit=permit):
                if permit:
                    self.allowed[name] = body
                else:
                    self.replies[name] = Reply(answer, value)
                    self.answered[name] = self.attempts.get(name, 0)
                self._put_back(name, batch)
            case e.StepReset(step=name):
                self.unsure.discard(name)
                self._put_back(name, batch)
            case _:
                return

    def _ended(self, name: str, status: StepStatus, batch: Batch) -> None:
        self.ended[name] = status
        if name in self.units:
            self._leave(self.units[name], batch)

    def _skip(self, name: str) -> None:
        """Skips a step and all its parts."""
        self.skipped.add(name)
        self.ended[name] = StepStatus.SKIPPED
        group = self.groups.pop(name, None)
        for part in group.parts if group is not None else ():
            self._skip(part)

    def _put_back(self, name: str, batch: Batch) -> None:
        self.ended.pop(name, None)
        group = self.groups.get(name.rpartition("/")[0])
        if group is not None and name in group.asking:
            group.asking.remove(name)
            self._queue_next(group, batch)
        elif name in self.units:
            self.schedule.put_back(name)


def is_instruction(event: e.Event) -> bool:
    """Tells whether an event is a decision about this run, not written by another executor."""
    match event.body:
        case e.PlanProposed() | e.ChangesAsked():
            return False
        case e.RunResumed(reason=reason) if reason:
            return False  # taken over by another process
        case e.QuestionAnswered() | e.StepFailed(kind="person" | "refused"):
            return True  # also written when a question expires
        case _:
            return event.by.speaks
