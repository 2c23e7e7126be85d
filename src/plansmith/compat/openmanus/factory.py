"""FlowFactory: how OpenManus' programs make their flows, by type."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from plansmith.compat.openmanus.flow import PlanningFlow, Workers
from plansmith.errors import Misconfigured


class FlowType(StrEnum):
    """The flows there are."""

    PLANNING = "planning"


class FlowFactory:
    """Makes flows; whatever else is given is the flow's own."""

    @staticmethod
    def create_flow(flow_type: FlowType | str, agents: Workers, **options: Any) -> PlanningFlow:
        """A flow of a type over one agent, a list or a table of them."""
        if flow_type != FlowType.PLANNING:
            hint = f"known: {', '.join(FlowType)}"
            raise Misconfigured(f"there is no flow of the type {flow_type!r}", hint=hint)
        return PlanningFlow(agents, **options)
