"""An agent that searches with several questions, reads what it finds, and cites it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from plansmith.adapters.agents.local import LocalAgent
from plansmith.adapters.agents.local.limits import LocalLimits
from plansmith.adapters.agents.local.toolbox import Choice
from plansmith.plan.capability import AgentSpec, Effect, Skill
from plansmith.ports import ChatModel, ToolSource

READERS: Final = ("files.*", "*fetch*", "*search*", "*read_*file*")

CARD: Final = AgentSpec(
    name="researcher",
    description=(
        "Finds things out by searching and reading, on the web or in files, whatever tools there "
        "are, and reports findings with citations. Changes nothing."
    ),
    skills=(
        Skill(
            name="research",
            description="Answers a question from several sources, each cited.",
            examples=("What do our notes say about the supplier's delivery times?",),
        ),
    ),
    tags=("research", "search"),
    effect=Effect.READ,
)


def researcher(
    *,
    model: ChatModel,
    sources: Sequence[ToolSource],
    tools: Choice | None = None,
    limits: LocalLimits | None = None,
    prompts: Path | None = None,
    asks: bool = False,
) -> LocalAgent:
    """Makes a researcher that uses the searching and reading tools of some sources."""
    return LocalAgent(
        spec=CARD,
        model=model,
        prompt="researcher",
        sources=sources,
        tools=tools or Choice(READERS, searching=True),
        limits=limits or LocalLimits(),
        prompts=prompts,
        advises=True,
        asks=asks,
    )
