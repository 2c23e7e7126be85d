"""The cards of the agents that planners know by heart: what each does, and what it is good for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from plansmith.plan.capability import AgentSpec, Effect, Skill

_CARDS: Final[dict[str, Any]] = json.loads(
    Path(__file__).with_name("agent_cards.json").read_text(encoding="utf-8")
)


def _card(name: str) -> AgentSpec:
    """Returns the card of an agent that changes nothing outside its sandbox."""
    card = _CARDS[name]
    skill = Skill(name=card["skill"], description=card["about"], examples=(card["example"],))
    tags: tuple[str, ...] = tuple(card["tags"])
    about: str = card["does"]
    return AgentSpec(name=name, description=about, skills=(skill,), tags=tags, effect=Effect.READ)


ANALYST: Final = _card("analyst")
CODER: Final = _card("coder")
RESEARCHER: Final = _card("researcher")
SQL_WRITER: Final = _card("sql_writer")
