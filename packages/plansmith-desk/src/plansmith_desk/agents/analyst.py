"""An agent that reasons on what other agents found; it has no tools and runs no code."""

from __future__ import annotations

from pathlib import Path

from plansmith.ports import ChatModel
from plansmith_desk.agents.local import LocalAgent
from plansmith_desk.agents.local.limits import LocalLimits
from plansmith_planner.agent_cards import ANALYST


def analyst(
    *, model: ChatModel, limits: LocalLimits | None = None, prompts: Path | None = None
) -> LocalAgent:
    """Makes an analyst."""
    return LocalAgent(
        spec=ANALYST,
        model=model,
        prompt="analyst",
        limits=limits or LocalLimits(),
        prompts=prompts,
        advises=True,
    )
