"""An agent that searches with several questions, reads what it finds, and cites it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from plansmith.ports import ChatModel, ToolSource
from plansmith_desk.agents.local import LocalAgent, LocalLimits
from plansmith_desk.agents.toolbox import Choice
from plansmith_planner.agent_cards import RESEARCHER

READERS: Final = ("files.*", "*fetch*", "*search*", "*read_*file*")


def researcher(
    *,
    model: ChatModel,
    sources: Sequence[ToolSource],
    limits: LocalLimits | None = None,
    prompts: Path | None = None,
    asks: bool = False,
) -> LocalAgent:
    """Makes a researcher that uses the searching and reading tools of some sources."""
    return LocalAgent(
        spec=RESEARCHER,
        model=model,
        prompt="researcher",
        sources=sources,
        tools=Choice(READERS, searching=True),
        limits=limits or LocalLimits(),
        prompts=prompts,
        advises=True,
        asks=asks,
    )
