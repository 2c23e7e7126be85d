"""Computes what a run may still spend, by its own limits and by limits that all runs share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plansmith.engine.budget import Budget, Spending
from plansmith.plan.limits import BudgetLimits

if TYPE_CHECKING:
    from plansmith.plan.run import Run
    from plansmith.runs.intake import PlanIntake


class RunBudgets:
    """Returns the budget of each run, and counts what all runs of the store have spent."""

    def __init__(
        self,
        intake: PlanIntake,
        *,
        limits: BudgetLimits | None = None,
        shared: BudgetLimits | None = None,
    ) -> None:
        self.limits = limits or BudgetLimits()
        self._price = intake.price_per_million
        self._shared = Budget(shared or BudgetLimits())
        self._has_shared = self._shared.limits != BudgetLimits()
        self._spending = Spending(intake.store, intake.clock, self._shared)

    async def count(self) -> None:
        """Updates the shared budget from the store."""
        if self._has_shared:
            await self._spending.count()

    def of(self, run: Run) -> Budget:
        """Returns the budget of a run: by its own limits if it has some, else by the default."""
        limits = run.options.budget or self.limits
        return Budget.of_run(limits, run, parent=self._shared, price_per_million=self._price)
