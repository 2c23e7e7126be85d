"""The calls of a run that are being made, each in a task of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping

from plansmith.engine.call import Callees
from plansmith.engine.outcome import Outcome, named
from plansmith.engine.progress import Ready
from plansmith.plan.data import Json
from plansmith.plan.sentence import Sentence
from plansmith.ports import Call


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
        self._callees = callees
        self._ended = ended
        self._results = results
        self._call_of = call_of
        self._is_cancelled = False
        self.running: dict[str, asyncio.Task[None]] = {}

    def launch(self, started: Iterable[Ready]) -> None:
        """Makes calls whose starts are written."""
        for ready in started:
            name = ready.unit.name
            self.running[name] = asyncio.create_task(self._work(ready), name=name)

    async def _work(self, ready: Ready) -> None:
        unit, call = ready.unit, self._call_of(ready)
        try:
            outcome = await self._callees.call(unit, ready.inputs, call, self._results)
        except asyncio.CancelledError:
            if self._is_cancelled:
                raise
            # The callee cancelled itself: record an end, since the run waits for one.
            within = Sentence("the call was cancelled from within")
            outcome = self._callees.lost(unit, within, again=True)
        except Exception as error:  # noqa: BLE001 - the run would wait for the end for ever
            outcome = self._callees.lost(unit, named(error), again=True)
        self._ended(unit.name, outcome)

    async def cancel(self, grace_s: float) -> None:
        """Cancels all calls, and waits for them a little; functions in threads are given up."""
        self._is_cancelled = True
        for task in self.running.values():
            task.cancel()
        if self.running:
            await asyncio.wait(self.running.values(), timeout=grace_s)
