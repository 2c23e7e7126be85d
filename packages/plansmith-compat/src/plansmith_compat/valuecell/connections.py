"""ValueCell's agents: which there are, and their cards as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from plansmith import plugins
from plansmith.app import Plansmith
from plansmith.plan.capability import AgentSpec
from plansmith.ports import Agent, ChatModel
from plansmith_connect.a2a.cards import NAMESPACE
from plansmith_planner.make import model_of


class RemoteConnections:
    """The available agents, and the Plansmith that calls them.

    Give a Plansmith, or a model (itself or its name) and agents of your own. With neither, it is
    the one of this machine's settings, with its agents and the model that it finds.
    """

    def __init__(
        self,
        smith: Plansmith | None = None,
        *,
        model: ChatModel | str | None = None,
        agents: Sequence[Agent] = (),
    ) -> None:
        if smith is None and (model is not None or agents):
            smith = Plansmith(model=model_of(model), agents=agents)
        self.smith = smith or plugins.load("settings", "smith")()

    def get_agent_card(self, agent_name: str) -> AgentSpec | None:
        """Returns the card of an enabled agent; one over A2A also by its name in ValueCell."""
        # A name that is taken, also by an agent that is off, never means another agent.
        names = [card.name for card in self.smith.runs.intake.agents()]
        remote = f"{NAMESPACE}{agent_name}".lower()
        same = [name for name in names if name.lower() == remote and agent_name not in names]
        return self.get_all_agent_cards().get(next(iter(same), agent_name))

    def get_all_agent_cards(self) -> dict[str, AgentSpec]:
        return {card.name: card for card in self.smith.runs.intake.agents() if card.enabled}

    def get_planable_agent_cards(self) -> dict[str, AgentSpec]:
        """Returns the cards a planner may use: neither hidden nor passthrough."""
        cards = self.get_all_agent_cards().values()
        return {card.name: card for card in cards if not card.hidden and not card.passthrough}

    def is_planner_passthrough(self, agent_name: str) -> bool:
        card = self.get_agent_card(agent_name)
        return card is not None and card.passthrough

    def list_available_agents(self) -> list[str]:
        return list(self.get_all_agent_cards())


# Ours, or connections of a program's own, with `get_all_agent_cards` and `get_agent_card`.
Connections = Any


def smith_of(connections: Connections) -> Plansmith:
    """Returns the Plansmith of the connections; for foreign ones, one without model and agents."""
    found = getattr(connections, "smith", None)
    return found if isinstance(found, Plansmith) else Plansmith()


def planable(connections: Connections) -> Mapping[str, Any]:
    """Returns the cards a planner may use; older connections do not tell them apart."""
    everything = getattr(connections, "get_all_agent_cards", dict)
    return cast("Mapping[str, Any]", getattr(connections, "get_planable_agent_cards", everything)())


def agentcard_to_prompt(card: Any) -> str:
    """Returns a card as Markdown: description, skills, examples and tags."""
    if isinstance(card, Mapping):
        return str(cast("object", card))
    lines = [f"# Agent: {card.name}", "", f"**Description:** {card.description}"]
    skills = getattr(card, "skills", None) or ()
    if skills:
        lines += ["", "## Available Skills"]
    for number, skill in enumerate(skills, start=1):
        lines += ["", *_skill(number, skill)]
    return "\n".join(lines)


def _skill(number: int, skill: Any) -> Iterator[str]:
    name = getattr(skill, "id", "")
    yield f"### {number}. {skill.name}" + (f" (`{name}`)" if name else "")
    yield from ("", f"**Description:** {skill.description}")
    if skill.examples:
        yield from ("", "**Examples:**", *(f"- {example}" for example in skill.examples))
    if skill.tags:
        yield from ("", "**Tags:** " + ", ".join(f"`{tag}`" for tag in skill.tags))
