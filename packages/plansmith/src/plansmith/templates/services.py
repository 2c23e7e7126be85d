"""What templates need of the services for plans and runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from plansmith.engine.call import Callees
from plansmith.plan import events as e
from plansmith.plan.capability import AgentSpec
from plansmith.plan.plan import Plan
from plansmith.plan.run import Run
from plansmith.plan.run_options import Origin
from plansmith.ports import Clock, PlanStore


class Intake(Protocol):
    """What templates need of `PlanIntake`."""

    store: PlanStore
    clock: Clock
    templates: dict[str, Plan]

    async def callees(self) -> Callees:
        """Returns what can be called."""
        ...

    def agents(self) -> list[AgentSpec]:
        """Returns the cards of all agents."""
        ...


class Submit(Protocol):
    """The signature of `RunService.submit`; `about` are more fields of the plan's event."""

    async def __call__(
        self, plan: Plan, *, request: str, origin: Origin, about: Mapping[str, Any], by: e.Who
    ) -> Run:
        """Creates a run with this plan."""
        ...


class Runs(Protocol):
    """What templates need of `RunService`."""

    @property
    def intake(self) -> Intake:
        """Returns the plan intake."""
        ...

    @property
    def submit(self) -> Submit:
        """Returns the function that makes runs of finished plans."""
        ...


class HasRuns(Protocol):
    """A Plansmith."""

    @property
    def runs(self) -> Runs:
        """Returns the service for runs."""
        ...
