"""RemoteConnections: the agents of a Plansmith by their cards, A2A agents of a registry too."""

from __future__ import annotations

from plansmith.app import Plansmith
from plansmith.plan.capability import AgentSpec

NOT_FOUND = "The requested agent could not be found or is not available."


class RemoteConnections:
    """Which agents there are; without a Plansmith, those of the settings on this machine."""

    def __init__(self, smith: Plansmith | None = None) -> None:
        self.smith = smith or Plansmith.from_settings()

    def get_agent_card(self, agent_name: str) -> AgentSpec | None:
        """The card of an enabled agent."""
        return self.get_all_agent_cards().get(agent_name)

    def get_all_agent_cards(self) -> dict[str, AgentSpec]:
        """The cards of all enabled agents."""
        return {card.name: card for card in self.smith.runs.intake.agents() if card.enabled}

    def get_planable_agent_cards(self) -> dict[str, AgentSpec]:
        """The cards that a planner may choose from: neither hidden nor passthrough."""
        return {
            name: card
            for name, card in self.get_all_agent_cards().items()
            if not card.hidden and not card.passthrough
        }

    def is_planner_passthrough(self, agent_name: str) -> bool:
        """Whether an agent takes requests as they are."""
        card = self.get_agent_card(agent_name)
        return card is not None and card.passthrough

    def list_available_agents(self) -> list[str]:
        """The names of all enabled agents."""
        return list(self.get_all_agent_cards())


def agentcard_to_prompt(card: AgentSpec) -> str:
    """A card as Markdown: description, skills, their examples and tags."""
    lines = [f"# Agent: {card.name}", "", f"**Description:** {card.description}"]
    if card.skills:
        lines += ["", "## Available Skills"]
    for number, skill in enumerate(card.skills, start=1):
        lines += ["", f"### {number}. {skill.name}", "", f"**Description:** {skill.description}"]
        if skill.examples:
            lines += ["", "**Examples:**", *(f"- {example}" for example in skill.examples)]
        if skill.tags:
            lines += ["", "**Tags:** " + ", ".join(f"`{tag}`" for tag in skill.tags)]
    return "\n".join(lines)
