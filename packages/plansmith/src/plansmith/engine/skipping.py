"""Decides by the plan's own rules whether a step runs: its condition, and what it needs."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from plansmith.engine.outcome import Asks, Done, Failed, Outcome, Unsure
from plansmith.engine.progress import Batch, Wakeups
from plansmith.engine.recover import unknown_question
from plansmith.engine.state import State
from plansmith.engine.units import Unit, Values
from plansmith.errors import ReferenceFailed
from plansmith.plan import events as e
from plansmith.plan.conditions import condition_text, holds
from plansmith.plan.events import SkipRule
from plansmith.plan.limits import Limits
from plansmith.plan.refs import with_words
from plansmith.plan.run import StepStatus
from plansmith.plan.sentence import Sentence, in_language
from plansmith.plan.steps import ReplyStep
from plansmith.ports import Advice, Clock


def settle_by_rules(unit: Unit, state: State, batch: Batch) -> bool:
    """Skips a unit, or lets it fail, if its plan says so; false if it runs."""
    because = "" if unit.is_item or unit.is_round else _skipped_need(unit, state.passed)
    if because:
        # A need that was skipped because of a failure passes that on: what was approved is missing.
        rule: SkipRule = "error" if state.passed[f"{unit.scope}{because}"] == "error" else "need"
        state.skip(
            unit, Sentence("'{step}', which it needs, was skipped", step=because), rule, batch
        )
        return True
    condition = unit.step.when
    if condition is None:
        return False
    try:
        if holds(condition, Values(state.results, unit)):
            return False
    except ReferenceFailed as error:
        state.fail(
            unit, Sentence("its condition cannot be decided: {reason}", reason=str(error)), batch
        )
        return True
    reason = Sentence("it runs only if {condition}", condition=condition_text(condition))
    state.skip(unit, reason, "when", batch)
    return True


def _skipped_need(unit: Unit, passed: Mapping[str, SkipRule]) -> str:
    """Returns the step because of which a unit is skipped; empty if it is not."""
    here = {name.removeprefix(unit.scope) for name in passed if name.startswith(unit.scope)}
    if not here:
        return ""
    through = (each for need in unit.step.needed for each in unit.off.get(need, ()))
    return unit.step.skipped_with(here) or next((each for each in through if each in here), "")


def told_without(unit: Unit, passed: Mapping[str, SkipRule], locale: str) -> Unit:
    """Returns a reply that tells which of its steps were skipped, in place of their results."""
    step = unit.step
    missing = [name for name in step.needed if f"{unit.scope}{name}" in passed]
    if not isinstance(step, ReplyStep) or not missing:
        return unit
    said = {name: in_language(Sentence("reply.skipped", step=name), locale) for name in missing}
    told = step.model_copy(update={"instruction": with_words(step.instruction, said)})
    return unit.with_step(told)


def starts_after(advice: Advice, unit: Unit) -> bool:
    """Tells whether a unit still starts after advice: parts of open steps, and the reply."""
    return unit.parent is not None or (advice == "finish" and unit.step.kind == "reply")


LONGEST_WAIT_S: Final = 3600.0
# A longer pause that a plan or a tool asks for is written, so that nothing is held in memory.
SHORT_PAUSE_S: Final = 5.0


class Outcomes:
    """Adds the ends of calls to batches; a failed call is made again as limits and rules say."""

    def __init__(self, state: State, limits: Limits, wakeups: Wakeups, clock: Clock) -> None:
        self._state, self._limits, self._wakeups, self._clock = state, limits, wakeups, clock

    def record(self, unit: Unit, outcome: Outcome, batch: Batch) -> None:
        """Adds how a call ended."""
        state, attempt = self._state, self._state.attempts[unit.name]
        tries = attempt - state.answered.get(unit.name, 0)
        match outcome:
            case Failed(error, again, kind, wait) if self._is_repeated(unit, tries, again=again):
                batch.bodies.append(state.failure(unit, error, kind, again=True))
                self._retry_later(unit, tries, wait, batch)
            case Unsure(reason, True, kind, wait) if self._is_repeated(unit, tries, again=True):
                batch.bodies.append(state.failure(unit, reason, kind, again=True, unsure=True))
                self._retry_later(unit, tries, wait, batch)
            case Failed(error, _, kind) if unit.name not in state.unsure:
                state.fail(unit, error, batch, kind)
            case Asks(need):
                state.park(unit, StepStatus.ASKING)
                batch.ask_for(unit, need, attempt)
            case Done(value):
                state.finish(unit, value, batch)
            case Unsure(reason) | Failed(reason):
                state.park(unit, StepStatus.UNKNOWN)
                unknown = e.StepUnknown(step=unit.name, reason=reason)
                batch.bodies += [unknown, unknown_question(unit.name, reason, callee=unit.callee)]

    def _is_repeated(self, unit: Unit, tries: int, *, again: bool) -> bool:
        """Tells whether a failed call is made again; `again`: another try is harmless and may help.

        A step's own rule counts instead of the limit, also where another try seemed pointless; but
        never after a try that may have taken effect.
        """
        retry = unit.step.retry
        if retry is None:
            return again and tries < self._limits.tries
        return tries <= retry.at_most and (again or unit.name not in self._state.unsure)

    def _retry_later(self, unit: Unit, tries: int, wait: float | None, batch: Batch) -> None:
        """Makes the call again after the pause of its rule or limits, or a longer one it wants."""
        retry = unit.step.retry
        usual = self._limits.first_wait_s * 2 ** min(tries - 1, 32)
        asked = min(max(wait or 0.0, 0.0 if retry else usual), LONGEST_WAIT_S)
        seconds = max(asked, retry.every if retry else 0.0)
        if seconds > SHORT_PAUSE_S and (retry is not None or wait is not None):
            self._state.timers.wait(unit.name, seconds, batch)
            self._state.schedule.put_back(unit.name)
        else:
            again = partial(self._state.schedule.put_back, unit.name)
            self._wakeups.later(partial(self._clock.sleep, seconds), again)
