"""What a run may still spend, by its own limits and by those that all runs share."""

from __future__ import annotations

from plansmith.engine.budget import Budget, Spending
from plansmith.plan.limits import BudgetLimits
from plansmith.plan.run import Run
from plansmith.runs.intake import PlanIntake


class RunBudgets:
    """Gives every run its budget, and counts what all runs of the store have taken."""

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
        self._spending = Spending(intake.store, intake.clock, self._shared)

    async def count(self) -> None:
        """Bring the shared budget up to what the store knows."""
        await self._spending.count()

    def of(self, run: Run) -> Budget:
        """What a run may still take, by limits of its own where it was given some."""
        limits = self.limits
        own = run.options.budget
        if own is not None:
            limits = BudgetLimits(
                money=own.dollars, tokens=own.tokens, steps=own.steps, seconds=own.seconds
            )
        return Budget.of_run(limits, run, parent=self._shared, price_per_million=self._price)
