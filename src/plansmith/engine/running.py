"""The calls of a run that are being made: in tasks, and plain functions in threads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from plansmith.engine.call import Callees
from plansmith.engine.event_loops import Deadline, Deadlines
from plansmith.engine.outcome import Outcome, named
from plansmith.engine.progress import Ready
from plansmith.engine.units import Unit
from plansmith.plan.data import Json
from plansmith.ports import Call, GivenUp, LocalFunction

_FROM_WITHIN = "the call was cancelled from within"


class RunningCalls:
    """Makes calls; `ended` gets the outcome of each, unless it is cancelled."""

    def __init__(
        self,
        callees: Callees,
        results: Mapping[str, Json],
        *,
        call_of: Callable[[Ready], Call],
        ended: Callable[[str, Outcome], None],
    ) -> None:
        self.callees = callees
        self.ended = ended
        self._results = results
        self._call_of = call_of
        self._deadlines: Deadlines | None = None
        self._calls: dict[str, asyncio.Task[None] | _ThreadCall] = {}

    def open(self) -> Deadlines:
        """Binds it to the event loop that runs now; returns the deadlines of that loop."""
        self._deadlines = self.callees.deadlines.here()
        return self._deadlines

    def __len__(self) -> int:
        return len(self._calls)

    def __iter__(self) -> Iterator[str]:
        return iter(self._calls)

    def __contains__(self, name: object) -> bool:
        return name in self._calls

    def forget(self, name: str) -> None:
        """Forgets a call whose outcome was taken."""
        del self._calls[name]

    def launch(self, ready: Ready) -> None:
        """Makes a call whose start is written."""
        unit = ready.unit
        function = None if ready.prefetched else self.callees.function(unit)
        if function is not None and not function.is_async:
            assert self._deadlines is not None  # noqa: S101
            call = self._calls[unit.name] = _ThreadCall(self, unit, function, self._deadlines)
            call.start(ready.inputs, self._call_of(ready) if function.takes_call else None)
        else:
            work = self._work(ready, function)
            self._calls[unit.name] = asyncio.create_task(work, name=unit.name)

    async def _work(self, ready: Ready, function: LocalFunction | None) -> None:
        unit = ready.unit
        try:
            if function is None:
                outcome = await self.callees.call(
                    unit, ready.inputs, self._call_of(ready), self._results
                )
            else:
                call = self._call_of(ready) if function.takes_call else None
                outcome = await self.callees.call_function(unit, function, ready.inputs, call)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            # The callee cancelled itself: record an end, since the run waits for one.
            outcome = self.callees.lost(unit, _FROM_WITHIN)
        except Exception as error:  # noqa: BLE001 - the run would wait for the end for ever
            outcome = self.callees.lost(unit, named(error))
        self.ended(unit.name, outcome)

    async def cancel(self, grace_s: float) -> None:
        """Cancels all calls, and waits for them a little; functions in threads are given up."""
        tasks = [each for each in self._calls.values() if isinstance(each, asyncio.Task)]
        for each in self._calls.values():
            each.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=grace_s)


class _ThreadCall:
    """The call of a plain function in a thread, without a task that waits for it."""

    __slots__ = ("_calls", "_deadline", "_deadlines", "_function", "_job", "_unit")

    def __init__(
        self, calls: RunningCalls, unit: Unit, function: LocalFunction, deadlines: Deadlines
    ) -> None:
        self._calls = calls
        self._unit = unit
        self._function = function
        self._deadlines = deadlines
        self._deadline: Deadline | None = None
        self._job: GivenUp | None = None

    def start(self, inputs: dict[str, Json], call: Call | None) -> None:
        """Starts the function; a failure to start is its outcome."""
        try:
            work = self._function.bind(inputs, call)
            self._job = self._function.start(work, self._end)
        except BaseException as error:  # noqa: BLE001 - a tool's types may raise anything
            self._end(None, error)
        else:
            seconds = self._calls.callees.timeout(self._unit)
            self._deadline = self._deadlines.add(seconds, self._expire)

    def cancel(self) -> None:
        """Gives the function up: nobody waits for its end."""
        if self._job is not None:
            self._job.given_up = True
        if self._deadline is not None:
            self._deadlines.remove(self._deadline)

    def _expire(self) -> None:
        self.cancel()
        self._end(None, TimeoutError())

    def _end(self, result: Any, error: BaseException | None) -> None:
        if self._deadline is not None:
            self._deadlines.remove(self._deadline)
        self._calls.ended(self._unit.name, self._outcome(result, error))

    def _outcome(self, result: Any, error: BaseException | None) -> Outcome:
        callees, unit = self._calls.callees, self._unit
        try:
            if error is not None:
                return callees.failed(unit, error)
            try:
                value = self._function.to_json(result)
            except BaseException as failure:  # noqa: BLE001 - a result may raise anything
                return callees.failed(unit, failure)
            return callees.ended(unit, value)
        except asyncio.CancelledError:
            return callees.lost(unit, _FROM_WITHIN)
        except Exception as failure:  # noqa: BLE001 - the run would wait for the end for ever
            return callees.lost(unit, named(failure))
