"""An agent that reasons on what other agents found; it has no tools and runs no code."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from plansmith.adapters.agents.local import LocalAgent
from plansmith.adapters.agents.local.limits import LocalLimits
from plansmith.plan.capability import AgentSpec, Effect, Skill
from plansmith.ports import ChatModel

CARD: Final = AgentSpec(
    name="analyst",
    description=(
        "Compares, weighs and sums up what earlier steps found, by reasoning alone: it searches "
        "nothing and runs no code. Changes nothing."
    ),
    skills=(
        Skill(
            name="analysis",
            description="Draws conclusions from the results it is given, with their certainty.",
            examples=("Compare the three offers and say which one fits best, and why.",),
        ),
    ),
    tags=("analysis", "reasoning"),
    effect=Effect.READ,
)


def analyst(
    *, model: ChatModel, limits: LocalLimits | None = None, prompts: Path | None = None
) -> LocalAgent:
    """Makes an analyst."""
    return LocalAgent(
        spec=CARD,
        model=model,
        prompt="analyst",
        limits=limits or LocalLimits(),
        prompts=prompts,
        advises=True,
    )
