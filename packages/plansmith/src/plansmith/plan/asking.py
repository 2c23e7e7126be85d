"""What a call has asked the person so far: kept in the state of its next question."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, cast

from plansmith.errors import InputNeeded, ToolFailed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from plansmith.plan.data import Json

MOST_QUESTIONS: Final = 20
_ASKED: Final = "plansmith call asked"


def answer_to(
    question: str,
    answers: list[tuple[str, Json]],
    *,
    before: list[str],
    options: Sequence[str] = (),
    schema: dict[str, Any] | None = None,
) -> Json:
    """Returns the known answer to a question, or raises the question.

    `before` are the questions of this call so far, by hash; this one is added. One that is asked
    twice has two answers: the person may mean only the first by "yes".
    """
    # By its hash: secrets are hidden in a state that is stored, and it would be another text.
    mark = sha256(str(question).encode(errors="surrogatepass")).hexdigest()
    known = [answer for asked, answer in answers if asked == mark]
    place = before.count(mark)
    before.append(mark)
    if place < len(known):
        return known[place]
    if len(answers) >= MOST_QUESTIONS:
        raise ToolFailed(f"it asks more than {MOST_QUESTIONS} questions")
    kept: Json = [[asked, answer] for asked, answer in answers]
    state: Json = {"kind": _ASKED, "question": mark, "answers": kept}
    raise InputNeeded(question, options=options, schema=schema, state=state)


def answers_in(state: Json, newest: Json) -> list[tuple[str, Json]]:
    """Returns the hashes of questions with their answers; `newest` is that to the last one."""
    if not isinstance(state, dict) or state.get("kind") != _ASKED:
        return []
    earlier = cast("list[tuple[str, Json]]", state.get("answers"))
    return [*((asked, answer) for asked, answer in earlier), (str(state.get("question")), newest)]
