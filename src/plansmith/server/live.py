"""Live agents: agents of other people that can be used the moment their card is approved."""

from __future__ import annotations

from collections.abc import Mapping

from plansmith.adapters.agents.a2a.registry import AgentRegistry
from plansmith.plan.capability import AgentSpec
from plansmith.plan.data import Json
from plansmith.ports import Agent, Call, Closing


class LiveAgent:
    """An agent as the registry has it now; `refresh` after an approval."""

    def __init__(self, registry: AgentRegistry, agent: Agent) -> None:
        self._registry = registry
        self._agent = agent
        self._name = agent.spec.name

    @property
    def spec(self) -> AgentSpec:
        """The card that is approved."""
        return self._agent.spec

    async def work(self, task: str, inputs: Mapping[str, Json], call: Call) -> Json:
        """The task's result."""
        return await self._agent.work(task, inputs, call)

    async def refresh(self) -> None:
        """Take the agent over as it stands now."""
        found = [each for each in self._registry.agents() if each.spec.name == self._name]
        if found:
            old, self._agent = self._agent, found[0]
            if isinstance(old, Closing):
                await old.close()

    async def close(self) -> None:
        """Let go of what the agent holds open."""
        if isinstance(self._agent, Closing):
            await self._agent.close()
