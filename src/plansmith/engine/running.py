"""The calls of a run that are being made: in tasks, and plain functions in threads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from plansmith.engine.call import Callees
from plansmith.engine.event_loops import Deadline, Deadlines
from plansmith.engine.local_function import LocalFunction
from plansmith.engine.outcome import Outcome, named
from plansmith.engine.plain import is_plain
from plansmith.engine.progress import Ready
from plansmith.engine.threads import Job
from plansmith.engine.units import Unit
from plansmith.plan.data import Json
from plansmith.plan.sentence import Sentence
from plansmith.ports import Call

_FROM_WITHIN = Sentence("step.cancelled_within")


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
        self.is_cancelled = False
        self.running: dict[str, asyncio.Task[None] | _FunctionInThread | _AwaitedFunction] = {}

    def open(self) -> Deadlines:
        """Binds it to the event loop that runs now; returns the deadlines of that loop."""
        self.deadlines = self.callees.deadlines.here()
        return self.deadlines

    def launch(self, started: Iterable[Ready]) -> None:
        """Makes calls whose starts are written."""
        for ready in started:
            unit = ready.unit
            function = None if ready.prefetched else self.callees.function(unit)
            if function is None:
                work = self._work(ready)
                self.running[unit.name] = asyncio.create_task(work, name=unit.name)
                continue
            kind = _AwaitedFunction if function.is_async else _FunctionInThread
            call = self.running[unit.name] = kind(self, unit, function)
            call.start(ready.inputs, self._call_of(ready) if function.takes_call else None)

    async def _work(self, ready: Ready) -> None:
        unit, call = ready.unit, self._call_of(ready)
        try:
            outcome = await self.callees.call(unit, ready.inputs, call, self._results)
        except asyncio.CancelledError:
            if self.is_cancelled:
                raise
            # The callee cancelled itself: record an end, since the run waits for one.
            outcome = self.callees.lost(unit, _FROM_WITHIN, again=True)
        except Exception as error:  # noqa: BLE001 - the run would wait for the end for ever
            outcome = self.callees.lost(unit, named(error), again=True)
        self.ended(unit.name, outcome)

    async def cancel(self, grace_s: float) -> None:
        """Cancels all calls, and waits for them a little; functions in threads are given up."""
        self.is_cancelled = True
        tasks = [
            each if isinstance(each, asyncio.Task) else each.task
            for each in self.running.values()
            if not isinstance(each, _FunctionInThread)
        ]
        for each in self.running.values():
            each.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=grace_s)


class _FunctionCall(Deadline):
    """The call of a Python function, without the layers of its source; expires by itself."""

    __slots__ = ("calls", "function", "unit")

    def __init__(self, calls: RunningCalls, unit: Unit, function: LocalFunction) -> None:
        self.calls = calls
        self.unit = unit
        self.function = function
        self.seconds = calls.callees.timeout(unit)

    def end(self, result: Any, error: BaseException | None) -> None:
        """Reports how the function ended."""
        self.calls.deadlines.remove(self)
        self.calls.ended(self.unit.name, self._outcome(result, error))

    def _outcome(self, result: Any, error: BaseException | None) -> Outcome:
        callees, unit = self.calls.callees, self.unit
        try:
            if error is not None:
                return callees.failed(unit, error)
            if is_plain(result):
                return callees.ended(unit, result, is_sound=True)
            try:
                value = self.function.to_json(result)
            except BaseException as failure:  # noqa: BLE001 - a result may raise anything
                return callees.failed(unit, failure)
            return callees.ended(unit, value)
        except asyncio.CancelledError:
            return callees.lost(unit, _FROM_WITHIN, again=True)
        except Exception as failure:  # noqa: BLE001 - the run would wait for the end for ever
            return callees.lost(unit, named(failure), again=True)


class _FunctionInThread(_FunctionCall):
    """The call of a plain function in a thread; no task waits for it."""

    __slots__ = ("_job",)

    def start(self, inputs: dict[str, Json], call: Call | None) -> None:
        """Starts the function; a failure to start is its outcome."""
        self._job: Job | None = None
        try:
            self._job = self.function.start(self.function.bind(inputs, call), self.end)
        except BaseException as error:  # noqa: BLE001 - a tool's types may raise anything
            self.end(None, error)
        else:
            self.calls.deadlines.add(self)

    def cancel(self) -> None:
        """Gives the function up: nobody waits for its end."""
        if self._job is not None:
            self._job.given_up = True
        self.calls.deadlines.remove(self)

    def expire(self) -> None:
        """Gives the function up, since its time is over."""
        self.cancel()
        self.end(None, TimeoutError())


class _AwaitedFunction(_FunctionCall):
    """The call of an async function, in a task of its own that begins at once."""

    __slots__ = ("_is_over_time", "task")

    task: asyncio.Task[None]

    def start(self, inputs: dict[str, Json], call: Call | None) -> None:
        """Starts the task and its time limit."""
        self._is_over_time = False
        self.task = asyncio.create_task(self._run(inputs, call), name=self.unit.name)
        self.calls.deadlines.add(self)

    async def _run(self, inputs: dict[str, Json], call: Call | None) -> None:
        try:
            result = await self.function.bind(inputs, call)()
        except asyncio.CancelledError as error:
            # As `asyncio.timeout` does it: another cancellation is stronger than the time limit.
            if self._is_over_time and self.task.uncancel() == 0:
                self.end(None, TimeoutError())
            elif self.calls.is_cancelled:
                self.calls.deadlines.remove(self)
                raise
            else:
                self.end(None, error)
        except BaseException as error:  # noqa: BLE001 - whatever a tool raises is its own
            self.end(None, error)
        else:
            self.end(result, None)

    def cancel(self) -> None:
        """Cancels the task, which no time limit has to end any more."""
        self.task.cancel()
        self.calls.deadlines.remove(self)

    def expire(self) -> None:
        """Cancels the task, since its time is over."""
        self._is_over_time = True
        self.task.cancel()
