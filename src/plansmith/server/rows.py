"""Rows: what lists tell of runs, read again only when the store has news of them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncIterator
from typing import Final, NamedTuple

from plansmith.app import Plansmith
from plansmith.plan.data import Json
from plansmith.plan.planning_events import PlanningFigures
from plansmith.plan.run import Run
from plansmith.server.telling import run_row

_KEPT: Final = 20_000
Row = dict[str, Json]


class Listed(NamedTuple):
    """A run in a list; the run itself is kept only while it is open, without results."""

    row: Row
    run: Run | None
    metrics: PlanningFigures | None


class Rows:
    """All runs, newest first, as far as lists and sums need them."""

    def __init__(self, smith: Plansmith) -> None:
        self._smith = smith
        self._position = -1
        self._listed: OrderedDict[str, Listed] = OrderedDict()

    async def refresh(self) -> None:
        """Forget whatever has changed since the last time."""
        store = self._smith.store
        if self._position < 0:
            self._position = await store.wait_news(-1)
        while news := await store.news(self._position):
            for each in news:
                self._listed.pop(each.run, None)
            self._position = news[-1].position

    async def listed(self, run_id: str) -> Listed:
        """One run; a damaged one says so and hides no other."""
        known = self._listed.get(run_id)
        if known is not None:
            return known
        before = self._position
        run, events = await self._smith.runs.journals.listed(run_id)
        found = Listed(run_row(run, events), None if run.status.over else run, run.metrics)
        # What was written while this was read may be missing in it: then it is read again.
        if self._position == before:
            self._listed[run_id] = found
            if len(self._listed) > _KEPT:
                self._listed.popitem(last=False)
        return found

    def forget(self, run_id: str) -> None:
        """The run was removed."""
        self._listed.pop(run_id, None)

    async def newest(self, before: str = "") -> AsyncIterator[Listed]:
        """Runs from the newest on, or from the one behind a cursor."""
        await self.refresh()
        ids = list(await self._smith.store.runs())
        # A run that was removed since is no reason to begin anew: ids sort by time.
        end = ids.index(before) if before in ids else None
        for run_id in reversed(ids[:end]):
            if end is not None or not before or run_id < before:
                yield await self.listed(run_id)

    async def open(self) -> list[Listed]:
        """The runs that are not over, oldest first."""
        await self.refresh()
        return [await self.listed(run_id) for run_id in await self._smith.store.open_runs()]
