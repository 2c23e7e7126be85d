"""Makes calls within their time limits, and cancels them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from math import inf
from typing import NamedTuple

from plansmith.engine.call import Callees
from plansmith.engine.outcome import Done, Outcome, named
from plansmith.engine.units import Unit
from plansmith.plan.data import Json
from plansmith.plan.sentence import Sentence
from plansmith.ports import Call


class PreparedCall(NamedTuple):
    """A call, made once its start is written; `prefetched` is the hash of a result read before."""

    unit: Unit
    inputs: dict[str, Json]
    call: Call
    prefetched: str = ""


class RunningCalls:
    """Makes calls within their time limits; `ended` gets the outcome of each, unless cancelled.

    One timer watches all calls: a timer for each would cost 5 % of the processor time of a short
    step.
    """

    def __init__(
        self,
        callees: Callees,
        results: Mapping[str, Json],
        ended: Callable[[str, Outcome], None],
        value: Callable[[str], Awaitable[Json]],
    ) -> None:
        self._callees, self._results, self._ended, self._value = callees, results, ended, value
        self._is_cancelled = False
        self.running: dict[str, asyncio.Task[None]] = {}
        # When each call has to end, by the time of the event loop; never, once it took longer.
        self._deadlines: dict[str, float] = {}
        self._timer: asyncio.TimerHandle | None = None

    def launch(self, started: Iterable[PreparedCall]) -> None:
        """Makes calls whose starts are written."""
        loop = asyncio.get_running_loop()
        for ready in started:
            self.running[ready.unit.name] = loop.create_task(self._work(*ready))

    def _set_deadline(self, unit: Unit) -> None:
        """Gives a call its time limit as it begins: what held it up before does not count."""
        limit = asyncio.get_running_loop().time() + self._callees.timeout(unit)
        self._deadlines[unit.name] = limit
        if self._timer is None or limit < self._timer.when():
            self._stop_late()

    def _stop_late(self) -> None:
        """Cancels the calls that take too long, and comes again at the next limit."""
        loop = asyncio.get_running_loop()
        for name, limit in self._deadlines.items():
            if limit <= loop.time():
                self._deadlines[name] = inf
                self.running[name].cancel()
        if self._timer is not None:
            self._timer.cancel()
        limit = min(self._deadlines.values(), default=inf)
        self._timer = loop.call_at(limit, self._stop_late) if limit < inf else None

    async def _work(self, unit: Unit, inputs: dict[str, Json], call: Call, prefetched: str) -> None:
        try:
            if prefetched:
                outcome: Outcome = Done(await self._value(prefetched))
            else:
                self._set_deadline(unit)
                outcome = await self._callees.call(unit, inputs, call, self._results)
        except asyncio.CancelledError:
            if self._is_cancelled:
                raise
            if self._deadlines.get(unit.name) == inf:
                outcome = self._callees.late(unit)
            else:  # the callee cancelled itself: record an end, since the run waits for one
                within = Sentence("the call was cancelled from within")
                outcome = self._callees.failure_after_call(unit, within, again=True)
        except Exception as error:  # noqa: BLE001 - the run would wait for the end for ever
            outcome = self._callees.failure_after_call(unit, named(error), again=True)
        self._deadlines.pop(unit.name, None)
        self._ended(unit.name, outcome)

    async def cancel(self, grace_s: float) -> None:
        """Cancels all calls, and waits for them a little; functions in threads are given up."""
        self._is_cancelled = True
        if self._timer is not None:
            self._timer.cancel()
        for task in self.running.values():
            task.cancel()
        if self.running:
            await asyncio.wait(self.running.values(), timeout=grace_s)
