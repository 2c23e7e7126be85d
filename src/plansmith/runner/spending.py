"""Spending: what all runs of a store have taken together, whichever process ran them."""

from __future__ import annotations

from decimal import Decimal
from typing import NamedTuple

from plansmith.errors import JournalDamaged
from plansmith.plan.run import Run
from plansmith.ports import Clock, PlanStore
from plansmith.runner.budget import Budget, BudgetLimits
from plansmith.runner.journal import Journal


class _Spent(NamedTuple):
    calls: int = 0
    tokens: int = 0
    money: Decimal = Decimal(0)
    grants: int = 0


class Spending:
    """Counts from journals, reading again only those that went on since the last time."""

    def __init__(self, store: PlanStore, clock: Clock, shared: Budget) -> None:
        self._store = store
        self._clock = clock
        self._shared = shared
        self._position = 0
        self._spent: dict[str, _Spent] = {}

    async def count(self) -> None:
        """Bring the shared budget up to what the store knows, where it has a limit at all."""
        if self._shared.limits == BudgetLimits():
            return
        moved: set[str] = set()
        while news := await self._store.news(self._position):
            moved |= {each.run for each in news}
            self._position = news[-1].position
        for run in moved:
            self._spent[run] = await self._of(run)
        every = self._spent.values()
        self._shared.restart(
            calls=sum(each.calls for each in every),
            tokens=sum(each.tokens for each in every),
            money=sum((each.money for each in every), Decimal(0)),
            grants=sum(each.grants for each in every),
        )

    async def _of(self, run_id: str) -> _Spent:
        try:
            journal = await Journal.load(run_id, store=self._store, clock=self._clock)
        except JournalDamaged:
            return self._spent.get(run_id, _Spent())
        run: Run = journal.run
        return _Spent(run.calls, run.tokens, run.money, run.grants.get("shared_budget", 0))
