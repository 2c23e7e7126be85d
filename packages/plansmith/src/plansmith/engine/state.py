"""The state of every step and part of a run while it is executed."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final, TypeVar

import msgspec

from plansmith.engine.budget import NOTHING_USED, CallReservations, spending
from plansmith.engine.call import unknown_question
from plansmith.engine.journal import Journal
from plansmith.engine.outcome import Asks, Failed, instead_of_result, on_error
from plansmith.engine.ready import ReadyQueue
from plansmith.engine.units import Group, Unit, Values, group_of, plan_units
from plansmith.errors import InputNeeded, ReferenceFailed
from plansmith.plan import events as e
from plansmith.plan.conditions import condition_text, holds
from plansmith.plan.data import Content, Json, content_of
from plansmith.plan.graph import order
from plansmith.plan.ids import is_part, parent_of, question_name
from plansmith.plan.limits import Bound, Limits
from plansmith.plan.plan import Plan
from plansmith.plan.run import STARTABLE_OR_RUNNING, StepState, StepStatus
from plansmith.plan.sentence import Sentence
from plansmith.plan.steps import MAX_NESTING, MAX_TIMEOUT_S, AskStep, Instead
from plansmith.ports import Clock, Reply

_AWAITED: Final = (StepStatus.ASKING, StepStatus.UNKNOWN)
_PERHAPS_DONE: Final = (StepStatus.DONE, StepStatus.UNKNOWN)
_NEW: Final = StepState()
_LEFT_OUT: Final = Sentence("a person left it out of the approval")
MAX_WAIT_S: Final = 3600.0
SHORT_PAUSE_S: Final = 5.0
_Passed = TypeVar("_Passed", e.StepSkipped, e.StepFailed)


class Batch(msgspec.Struct, eq=False, gc=False):
    """The events and values that are written next, in one append."""

    bodies: list[e.AnyBody] = []
    values: list[Json | Content] = []

    def add(self, body: e.AnyBody, value: Json | Content) -> None:
        """Adds an event with the value that it refers to."""
        self.bodies.append(body)
        self.values.append(value)


class UnitStates:
    """Where every unit stands while a run is executed; fills the next batch.

    A unit is queued, running, or `stopped`: it has ended or waits for a person. One that the plan
    skips counts as done. What is decided here adds its events to `batch`; what is written already
    is read from the journal (`state_of`). Every part of an open map or plan step that has started
    is a unit, also one that asks or whose end is unknown: units that need it wait until it is done.
    """

    def __init__(
        self,
        journal: Journal,
        *,
        budget: CallReservations,
        results: Mapping[str, Json],
        call_answers: Mapping[str, Reply],
        templates: Mapping[str, Plan],
        durations: Mapping[str, float],
        limits: Limits,
        clock: Clock,
    ) -> None:
        self._journal, self._clock, self._limits, self._budget = journal, clock, limits, budget
        self._templates, self._durations = templates, durations
        self.results, self.call_answers = dict(results), dict(call_answers)
        self.batch = Batch()
        self.units: dict[str, Unit] = {}
        self.groups: dict[str, Group] = {}
        self.queue = ReadyQueue()
        # The status of each unit that no longer runs: ended, or waiting for a person.
        self.stopped: dict[str, StepStatus] = {}
        self.skipped_by_plan: dict[str, e.SkipRule] = {}  # by name, with the rule
        self.skipped_by_others: set[str] = set()
        # Until when steps wait; empty in most runs.
        self.wakes: dict[str, datetime] = {}
        # The results of calls that steps made before the plan changed, by their hashes.
        self._past_results: dict[str, Json] = {}
        self._items: dict[str, dict[str, str]] = {}
        self._touched: dict[str, str] = {}  # the last call that changed something, by its name
        self._not_started: set[str] = set()  # open steps of a preview
        self.may_collide = False  # some calls are known to change the same
        self.has_new_end = False  # a step has ended since the plan was last thought over

    async def enter(self, plan: Plan) -> None:
        """Loads the plan and the state of its steps."""
        self.may_collide = any(each.touches for each in self._journal.run.permits.values())
        for name, item in self._journal.run.items_seen.items():
            self._items.setdefault(parent_of(name), {})[name] = item
        for name, step in self._journal.run.steps.items():
            self._enter_step(name, step)
            for past in step.past_calls:
                self._past_results[past.result] = await self._journal.value(past.result)
        self._queue_units(plan_units(plan))

    def _enter_step(self, name: str, step: StepState) -> None:
        permit = step.permit or self._journal.run.permits.get(name)
        if permit is not None and permit.touches:
            self.may_collide = True
            if step.attempts:
                self._touched |= dict.fromkeys(permit.touches, name)
        if step.status not in STARTABLE_OR_RUNNING:
            self.stopped[name] = step.status
        elif step.wakes_at is not None:
            self.wakes[name] = step.wakes_at
        if step.rule:
            self.skipped_by_plan[name] = step.rule
        if is_part(name) and (step.item or step.attempts):
            self._items.setdefault(parent_of(name), {})[name] = step.item

    def state_of(self, name: str) -> StepState:
        """Returns what is written of a step or part."""
        return self._journal.run.steps.get(name, _NEW)

    def touches(self, name: str) -> frozenset[str]:
        """Returns the names of what a call changes, as a person saw it."""
        permit = self.permit(self.units[name])
        return frozenset(permit.touches if permit is not None else ())

    def was_touched(self, name: str) -> bool:
        """Tells whether an approved call has changed the same: then it is not as it was seen."""
        return any(self._touched.get(each, name) != name for each in self.touches(name))

    def note_touched(self, name: str) -> None:
        for each in self.touches(name):
            self._touched[each] = name

    @property
    def bounds(self) -> Mapping[str, Bound]:
        """What the approval allows of the calls of a tool or agent, whatever their values."""
        return self._journal.run.bounds

    def calls_of(self, callee: str) -> int:
        """Counts the steps and parts that have called a tool or agent."""
        starting = (each for each in self.batch.bodies if isinstance(each, e.StepStarted))
        begun = {each.step for each in starting if each.callee == callee}
        run = self._journal.run
        steps = {**run.removed_steps, **run.steps}
        begun |= {name for name, each in steps.items() if each.callee == callee}
        return len(begun) + sum(len(steps[name].past_calls) for name in begun if name in steps)

    def permit(self, unit: Unit) -> e.StepReplied | None:
        """Returns a person's consent to a unit's call, perhaps to another one than it makes now."""
        # Agreeing to a repeated call is agreeing to each of its rounds.
        name = unit.parent if unit.parent and unit.is_round else unit.name
        return self.state_of(name).permit or self._journal.run.permits.get(name)

    def _queue_units(self, units: Mapping[str, Unit]) -> None:
        """Adds units to the queue.

        A changed plan may put a new step before one that is done or perhaps done: the units after
        that one then wait for the new step as well.
        """
        self.units |= units
        graph = {name: unit.needs() for name, unit in units.items()}
        rested = units.keys() & self.stopped.keys()
        done = {name for name in rested if self.stopped_status(name) is StepStatus.DONE}
        if any(self.stopped[name] in _PERHAPS_DONE for name in rested):
            early: set[str] = set()
            for name in order({name: waits & graph.keys() for name, waits in graph.items()}):
                graph[name] |= {each for need in graph[name] & early for each in graph[need]}
                late = (self.stopped_status(need) is not StepStatus.DONE for need in graph[name])
                if self.stopped.get(name) in _PERHAPS_DONE and any(late):
                    early.add(name)
        lengths = {name: self._durations.get(each.callee, 1.0) for name, each in units.items()}
        self.queue.add(graph, lengths, done=done)

    def stopped_status(self, name: str) -> StepStatus | None:
        """Returns the status of a unit that rests; one that the plan skipped counts as done."""
        return StepStatus.DONE if name in self.skipped_by_plan else self.stopped.get(name)

    def take_batch(self) -> Batch:
        """Returns what is to be written next, and begins anew."""
        batch, self.batch = self.batch, Batch()
        return batch

    @property
    def wakes_at(self) -> datetime | None:
        """The earliest time for which a step waits, if any does."""
        return min(self.wakes.values(), default=None)

    def drop_past_wakes(self) -> None:
        """Lets steps go on that have waited long enough."""
        if self.wakes:
            now = self._clock.now()
            self.wakes = {name: until for name, until in self.wakes.items() if until > now}

    def drop_wakes_of_stopped(self) -> None:
        """Waits no more for steps that a person has skipped."""
        self.wakes = {name: at for name, at in self.wakes.items() if name not in self.stopped}

    @property
    def is_all_done(self) -> bool:
        """Whether every step of the run is done, none by a rule of the plan, as in most runs."""
        if self.groups or self.skipped_by_plan or self.queue.ready:
            return False
        return all(self.stopped.get(name) is StepStatus.DONE for name in self._journal.run.steps)

    @property
    def waits_for_person(self) -> bool:
        return any(each in _AWAITED for each in self.stopped.values())

    def skipped_without_result(self, scope: str = "") -> dict[str, e.SkipRule]:
        """Returns the steps of a scope that the plan skipped without a result, and why."""
        return {
            name.removeprefix(scope): rule
            for name, rule in self.skipped_by_plan.items()
            if name not in self.results and name.startswith(scope)
        }

    def release(self, units: Mapping[str, Unit]) -> None:
        """Makes units ready although steps they need did not finish."""
        self.units |= units
        for name in units:
            self.queue.release(name)

    # Before a unit starts.

    def skip_by_plan(self, unit: Unit) -> bool:
        """Skips a unit, or lets it fail, where its plan or a person says so; false if it runs."""
        if unit.name in self._journal.run.left_out:
            self._skip_by_rule(unit, _LEFT_OUT, "left_out")
            return True
        if self.skipped_by_plan and not (unit.is_item or unit.is_round):
            skipped = self.skipped_without_result(unit.scope)
            through = (
                each for need in unit.step.needed for each in unit.through_disabled.get(need, ())
            )
            because = unit.step.blocked_by(skipped) if skipped else ""
            because = because or next((each for each in through if each in skipped), "")
            if because:
                # After a failure, what follows counts as failed too: an approved call is missing.
                rule: e.SkipRule = "error" if skipped[because] == "error" else "need"
                reason = Sentence("'{step}', which it needs, was skipped", step=because)
                self._skip_by_rule(unit, reason, rule)
                return True
        condition = unit.step.when
        if condition is None:
            return False
        try:
            if holds(condition, Values(self.results, unit)):
                return False
        except ReferenceFailed as error:
            why = Sentence("its condition cannot be decided: {reason}", reason=str(error))
            self.fail(unit, why)
            return True
        only = Sentence("it runs only if {condition}", condition=condition_text(condition))
        self._skip_by_rule(unit, only, "when")
        return True

    def _skip_by_rule(self, unit: Unit, reason: str, rule: e.SkipRule) -> None:
        body = e.StepSkipped(step=unit.name, reason=reason, rule=rule)
        instead = unit.step.otherwise if rule != "left_out" else None
        self.batch.bodies.append(self._standing_in(unit, body, instead))
        self._mark_passed(unit.name, rule)

    def reuse(self, unit: Unit, mark: str) -> bool:
        """Reuses the result of the first identical earlier call; false if there was none."""
        for made in self.state_of(unit.name).past_calls:
            if (made.callee, made.call_mark) == (unit.callee, mark):
                reused = e.StepReused(step=unit.name, result=made.result, run=self._journal.id)
                self.batch.bodies.append(reused)
                self._mark_done(unit.name, self._past_results[made.result])
                return True
        return False

    def open(self, unit: Unit, inputs: Mapping[str, Json], *, is_preview: bool = False) -> None:
        """Opens a map, plan or repeated step: queues the parts that may start.

        In a preview it has not started before all its parts are done.
        """
        if unit.depth >= MAX_NESTING:
            why = Sentence(
                "{step} is nested more than {most} levels deep", step=unit.name, most=MAX_NESTING
            )
            raise ReferenceFailed(why)
        item_hashes = self._items.get(unit.name, {})
        group = group_of(unit, inputs, self.results, item_hashes, self._templates)
        is_started = self.state_of(unit.name).status is StepStatus.RUNNING
        if is_preview and not is_started:
            self._not_started.add(unit.name)
        elif not is_started:
            self.batch.bodies.append(e.StepStarted(step=unit.name, item=unit.item))
        self.groups[unit.name] = group
        stopped = self.stopped | dict.fromkeys(self.skipped_by_plan, StepStatus.DONE)
        opened = {each for each in group.parts if self.state_of(each).status is StepStatus.RUNNING}
        started = group.started_parts(stopped, opened)
        self.units |= started
        # Parts that ask before they begin leave their place to others, and come later.
        asking = [name for name in started if self.stopped.get(name) is StepStatus.ASKING]
        for name in asking:
            if not self.state_of(name).attempts and group.may_step_aside:
                group.step_aside(name)
        self._queue_units(
            {name: part for name, part in started.items() if name not in group.asking}
        )
        self._queue_next(group)
        self._end_if_over(group)

    def _queue_next(self, group: Group) -> None:
        """Queues the next parts of a group; a round may have to wait before."""
        parts = group.next_parts()
        for name in parts:
            before = self.state_of(name)
            if group.pause_s and not before.attempts and before.wakes_at is None:
                self._wait(name, group.pause_s)
        self._queue_units(parts)

    def _wait(self, name: str, seconds: float) -> None:
        self.wakes[name] = self._clock.now() + timedelta(seconds=seconds)
        self.batch.bodies.append(e.StepWaits(step=name, seconds=seconds))

    def ask(self, unit: Unit, text: str) -> None:
        """Asks the question of an ask step; it expires after the step's time limit, if any."""
        step, expires = unit.step, None
        assert isinstance(step, AskStep)  # noqa: S101
        if step.timeout_s is not None:
            limit = timedelta(seconds=min(step.timeout_s, MAX_TIMEOUT_S))
            expires = self._clock.now() + limit
        self.ask_before_start(
            unit,
            e.QuestionAsked(
                question=unit.name,
                text=text,
                options=step.options,
                answer_schema=step.answer_schema,
                step=unit.name,
                expires_at=expires,
                kind="step",
            ),
        )

    def ask_before_start(self, unit: Unit, question: e.QuestionAsked) -> None:
        """Asks a person before a unit begins; the next item of a map may ask meanwhile."""
        self.batch.bodies.append(question)
        self._park(unit, StepStatus.ASKING)
        group = self.groups.get(unit.parent or "") if unit.is_item else None
        if group is not None and group.may_step_aside:
            group.step_aside(unit.name)
            self._queue_next(group)

    def ask_during_call(self, unit: Unit, question: e.QuestionAsked) -> None:
        """Asks a person about a call that was not made after all."""
        self._park(unit, StepStatus.ASKING)
        self.batch.bodies.append(question)

    def set_aside(self, unit: Unit) -> None:
        """Goes on as if a unit were done, which is not executed now."""
        self._budget.settle(unit.name)
        self.queue.finish(unit.name)
        group = self.groups.get(unit.parent or "")
        if group is not None:
            group.held += 1
            self._queue_next(group)

    # When a call has ended.

    def record(self, unit: Unit, outcome: Failed | Asks) -> None:
        """Adds how a call ended without a result; it may be made again after a pause."""
        before = self.state_of(unit.name)
        tries = before.attempts - before.attempts_answered
        match outcome:
            case Failed(error, kind=kind) if self._is_repeated(unit, tries, outcome):
                body = self._failure(unit, error, kind, again=True)
                self.batch.bodies.append(body.replace(unsure=True) if outcome.unsure else body)
                self._pause(unit, tries, outcome.wait)
            case Failed(error, kind=kind, unsure=False) if not before.unsure:
                self.fail(unit, error, kind)
            case Asks(need):
                self._park(unit, StepStatus.ASKING)
                self.batch.add(_call_question(unit, need, before.attempts), need.state)
            case Failed(reason):  # this try or one before it may have taken effect
                self._park(unit, StepStatus.UNKNOWN)
                unknown = e.StepUnknown(step=unit.name, reason=reason)
                asked = unknown_question(unit.name, reason, callee=unit.callee)
                self.batch.bodies += [unknown, asked]

    def _is_repeated(self, unit: Unit, tries: int, failed: Failed) -> bool:
        """Tells whether a failed call is made again.

        A step's own rule replaces the limit, and repeats even what seems pointless to repeat, but
        nothing that may have taken effect. The limit counts all tries, the rule those after one.
        """
        retry = unit.step.retry
        if retry is None:
            return failed.again and tries < self._limits.tries
        is_sure = not (failed.unsure or self.state_of(unit.name).unsure)
        return tries <= retry.at_most and (failed.again or is_sure)

    def _pause(self, unit: Unit, tries: int, wait: float | None) -> None:
        """Tries a call again after the pause of its rule or of the limits, or a longer one.

        A long pause is written, so that nothing is held in memory.
        """
        retry = unit.step.retry
        usual = self._limits.first_wait_s * 2 ** min(tries - 1, 32)
        asked = min(max(wait or 0.0, 0.0 if retry else usual), MAX_WAIT_S)
        seconds = max(asked, retry.every if retry else 0.0)
        if seconds > SHORT_PAUSE_S:
            self._wait(unit.name, seconds)
        elif seconds:
            self.wakes[unit.name] = self._clock.now() + timedelta(seconds=seconds)
        self.queue.put_back(unit.name)

    def finish(self, unit: Unit, value: Json) -> None:
        """Records a unit's result; units that waited only for it become ready."""
        content, usage = content_of(value), self._budget.settle(unit.name)
        body = e.StepDone(step=unit.name, result=content.digest)
        if usage is not NOTHING_USED:
            body = body.replace(**spending(usage))
        self.batch.add(body, content)
        # Later steps get the recorded value, even if the callee changes its own.
        self._mark_done(unit.name, content.value())

    def fail(self, unit: Unit, error: str, kind: e.FailureKind = "reference") -> None:
        """Records that a unit has failed for good; its `on_error` may let the plan go on."""
        whole = self.units[unit.parent].step if unit.is_item and unit.parent else None
        body, rule = self._failure(unit, error, kind), on_error(unit.step, whole)
        if rule == "fail":
            self.batch.bodies.append(body)
            self._mark_ended(unit.name, StepStatus.FAILED)
            return
        instead = instead_of_result(unit.step, rule, error, kind)
        self.batch.bodies.append(self._standing_in(unit, body.replace(passed=True), instead))
        self._mark_passed(unit.name, "error")

    def _failure(
        self, unit: Unit, error: str, kind: e.FailureKind, *, again: bool = False
    ) -> e.StepFailed:
        """Returns the event of a failure, with what the call used."""
        spent = spending(self._budget.settle(unit.name))
        return e.StepFailed(step=unit.name, error=error, again=again, kind=kind, **spent)

    def _standing_in(self, unit: Unit, body: _Passed, instead: Instead | None) -> _Passed:
        """Keeps a value that stands in for a unit's result; returns the event with its hash."""
        if instead is None:
            return body
        content = content_of(instead.value)
        self.results[unit.name] = content.value()
        self.batch.values.append(content)
        return body.replace(result=content.digest)

    def _park(self, unit: Unit, status: StepStatus) -> None:
        """Records that a unit waits for a person."""
        self._budget.settle(unit.name)
        self.stopped[unit.name] = status

    def _mark_done(self, name: str, value: Json) -> None:
        self.results[name] = value
        self.stopped[name] = StepStatus.DONE
        unit = self.units.get(name)
        if unit is None:
            return
        self.queue.finish(name)
        if unit.parent is not None:
            self._end_part(unit)
        elif unit.step.kind not in ("ask", "reply"):
            self.has_new_end = True

    def _mark_passed(self, name: str, rule: e.SkipRule) -> None:
        """Lets units that waited for this one go on."""
        self.skipped_by_plan[name] = rule
        if name in self.units:
            self.queue.finish(name)
        self._mark_ended(name, StepStatus.SKIPPED)

    def _mark_ended(self, name: str, status: StepStatus) -> None:
        self.stopped[name] = status
        if name in self.units:
            self._end_part(self.units[name])

    def _end_part(self, unit: Unit) -> None:
        """Updates the group of an ended part: queues the next part, or ends the whole step."""
        group = self.groups.get(unit.parent or "")
        if group is not None:
            group.end(unit.name, self.stopped_status(unit.name) or StepStatus.SKIPPED)
            self._queue_next(group)
            self._end_if_over(group)

    def _end_if_over(self, group: Group) -> None:
        """Ends a map or plan step once none of its parts can change any more."""
        unit = group.unit
        if not group.over or unit.name in self.stopped:
            return
        if unit.name in self._not_started:
            self.batch.bodies.append(e.StepStarted(step=unit.name, item=unit.item))
        error = group.error()
        if group.only_skipped:
            self.batch.bodies.append(e.StepSkipped(step=unit.name, reason=error))
            self._mark_ended(unit.name, StepStatus.SKIPPED)
        elif error:
            self.fail(unit, error)
        else:
            self.finish(unit, group.joined(self.results))

    # When others have written.

    def apply(self, body: e.AnyBody, value: Json) -> None:
        """Applies an event about a step that another process wrote.

        `value` is the result of a finished step, or the state of a call that asked. A part whose
        step is not open yet is no unit: the event counts when the step is opened.
        """
        match body:
            case e.StepDone(step=name):
                self._mark_done(name, value)
            case e.StepFailed(step=name, passed=True, result=digest):
                self.results |= {name: value} if digest else {}
                self._mark_passed(name, "error")
            case e.StepFailed(step=name):
                self._mark_ended(name, StepStatus.FAILED)
            case e.StepSkipped(step=name):
                self._mark_skipped(name)
                self._mark_ended(name, StepStatus.SKIPPED)
            case e.StepReplied(step=name, answer=answer, permit=False):
                self.call_answers[name] = Reply(answer, value)
                self._put_back(name)
            case e.StepReplied(step=name, touches=touches):
                self.may_collide = self.may_collide or bool(touches)
                self._put_back(name)
            case e.StepReset(step=name):
                self._put_back(name)
            case _:
                return

    def _mark_skipped(self, name: str) -> None:
        """Skips a step and all its parts."""
        self.skipped_by_others.add(name)
        self.stopped[name] = StepStatus.SKIPPED
        group = self.groups.pop(name, None)
        for part in group.parts if group is not None else ():
            self._mark_skipped(part)

    def _put_back(self, name: str) -> None:
        self.stopped.pop(name, None)
        group = self.groups.get(parent_of(name))
        if group is not None and name in group.asking:
            group.asking.remove(name)
            self._queue_next(group)
        elif name in self.units:
            self.queue.put_back(name)


def _call_question(unit: Unit, need: InputNeeded, attempt: int) -> e.QuestionAsked:
    """Returns the question of a call, with its state for when the call is made again."""
    return e.QuestionAsked(
        question=question_name("call", unit.name, attempt),
        text=need.message,
        options=tuple(need.options),
        answer_schema=need.schema,
        step=unit.name,
        state=content_of(need.state).digest,
        link=need.link,
        kind="call",
    )
