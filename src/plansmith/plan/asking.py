"""What a call has asked the person so far: kept in the state of its next question."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from plansmith.errors import InputNeeded, ToolFailed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from plansmith.plan.data import Json

MOST_QUESTIONS: Final = 20
_ASKED: Final = "plansmith call asked"


def answer_to(
    question: str,
    answers: dict[str, Json],
    *,
    options: Sequence[str] = (),
    schema: dict[str, Any] | None = None,
) -> Json:
    """Returns the known answer to a question, or raises the question."""
    if question in answers:
        return answers[question]
    if len(answers) >= MOST_QUESTIONS:
        raise ToolFailed(f"it asks more than {MOST_QUESTIONS} questions")
    state = {"kind": _ASKED, "question": question, "answers": answers}
    raise InputNeeded(question, options=options, schema=schema, state=state)


def answers_in(state: Json, newest: Json) -> dict[str, Json]:
    """Returns the answers by question; `newest` is the one to the question of this state."""
    if not isinstance(state, dict) or state.get("kind") != _ASKED:
        return {}
    earlier = state.get("answers")
    known = earlier if isinstance(earlier, dict) else {}
    return {**known, str(state.get("question")): newest}
