"""Makes a team for research: a researcher, a coder and an analyst."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from plansmith.ports import Agent, ChatModel, ToolSource
from plansmith_desk.agents.coder import coder
from plansmith_desk.agents.local import LocalAgent, LocalLimits
from plansmith_desk.agents.researcher import researcher
from plansmith_planner.agent_cards import ANALYST


def research_team(
    *, model: ChatModel, sources: Sequence[ToolSource], folder: Path, turns: int
) -> list[Agent]:
    """Returns agents that search `sources`, run code on the files of `folder`, and reason."""
    limits = LocalLimits(turns=turns)
    return [
        researcher(model=model, sources=sources, limits=limits),
        coder(model=model, folder=folder, limits=limits),
        analyst(model=model, limits=limits),
    ]


def analyst(*, model: ChatModel, limits: LocalLimits | None = None) -> LocalAgent:
    """Makes an analyst: it reasons on what others found, has no tools and runs no code."""
    return LocalAgent(
        spec=ANALYST,
        model=model,
        prompt="analyst",
        limits=limits or LocalLimits(),
        advises=True,
    )
