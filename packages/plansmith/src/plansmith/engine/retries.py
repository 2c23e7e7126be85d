"""Records how calls ended, and makes those again that failed and may be repeated."""

from __future__ import annotations

from functools import partial
from typing import Final

from plansmith.engine.outcome import Asks, Done, Failed, Outcome, Unsure
from plansmith.engine.progress import Batch, Wakeups
from plansmith.engine.recover import unknown_question
from plansmith.engine.state import State
from plansmith.engine.units import Unit
from plansmith.plan import events as e
from plansmith.plan.limits import Limits
from plansmith.plan.run import StepStatus
from plansmith.ports import Clock

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
