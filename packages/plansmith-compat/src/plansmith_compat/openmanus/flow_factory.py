"""OpenManus' factory of flows."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from plansmith.errors import Misconfigured
from plansmith_compat.openmanus.agents import Workers
from plansmith_compat.openmanus.flow import PlanningFlow


class FlowType(StrEnum):
    """The types of flows."""

    PLANNING = "planning"


class UnknownFlowType(Misconfigured, ValueError):
    """There is no flow of this type."""


class FlowFactory:
    """Makes flows; passes other options on to the flow."""

    @staticmethod
    def create_flow(flow_type: FlowType | str, agents: Workers, **options: Any) -> PlanningFlow:
        """Makes a flow with one agent, a list or a table of agents."""
        if flow_type != FlowType.PLANNING:
            hint = f"known: {', '.join(FlowType)}"
            raise UnknownFlowType(f"there is no flow of the type {flow_type!r}", hint=hint)
        return PlanningFlow(agents, **options)
