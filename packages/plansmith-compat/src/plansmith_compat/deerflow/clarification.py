"""The clarification of a topic before research: what was asked, and what the person said to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from plansmith_compat.deerflow.messages import get_message_content, is_user_message

ROUNDS = 3


def needs_clarification(state: Mapping[str, Any]) -> bool:
    """Whether a question to the person is still open; the last one may be answered too."""
    rounds = state.get("clarification_rounds", 0)
    asked = 0 < rounds <= state.get("max_clarification_rounds", ROUNDS)
    done = state.get("is_clarification_complete", False)
    return bool(state.get("enable_clarification", False) and asked and not done)


def reconstruct_clarification_history(
    messages: Sequence[object], fallback_history: Sequence[str] = (), base_topic: str = ""
) -> list[str]:
    """Returns what the person said, in order; what was kept before, if the messages are gone."""
    found: list[str] = []
    for message in messages:
        text = get_message_content(message) if is_user_message(message) else ""
        if text and found[-1:] != [text]:
            found.append(text)
    return (
        found
        or [each for each in fallback_history if each]
        or [each for each in [base_topic] if each]
    )


def build_clarified_topic_from_history(history: Sequence[str]) -> tuple[str, list[str]]:
    """Returns the topic with everything that was said to make it clear."""
    said = [each for each in history if each]
    if len(said) < 2:
        return "".join(said), said
    return f"{said[0]} - {', '.join(said[1:])}", said
