"""The options of Plansmith's own questions, which only persons may answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from plansmith.plan.data import Json
    from plansmith.plan.events import QuestionAsked, QuestionKind

ALLOW: Final = "allow"
REFUSE: Final = "refuse"
CONSENT_OPTIONS: Final = (ALLOW, REFUSE)
CHANGE: Final = "change"  # how the journal calls an answer that allows a call with other values
GO_ON: Final = "go_on"
STOP: Final = "stop"
LIMIT_OPTIONS: Final = (GO_ON, STOP)
DONE: Final = "done"
NOT_DONE: Final = "not_done"
UNKNOWN_OPTIONS: Final = (DONE, NOT_DONE, "retry")
# The answers that permit nothing.
_REFUSALS: Final = {"consent": REFUSE, "limit": STOP, "unknown": NOT_DONE}
# Programs may answer the plan's and the planner's questions.
FOR_PROGRAMS: Final[frozenset[QuestionKind]] = frozenset({"step", "request"})


def permits(asked: QuestionAsked, answer: Json) -> bool:
    """Tells whether an answer to one of Plansmith's own questions permits something."""
    return asked.kind in _REFUSALS and answer != _REFUSALS[asked.kind]
