"""The options of a planning flow beyond those of OpenManus."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from plansmith.plan.events import QuestionAsked
from plansmith.plan.run import Run
from plansmith.plan.steps import LONGEST_TIMEOUT_S

Review = Callable[[Run], bool | Awaitable[bool]]


class Ask(Protocol):
    """Answers a question of a run, at once or later; None leaves it open."""

    def __call__(self, question: QuestionAsked) -> Any:
        """Returns the answer, or an awaitable of it."""
        ...


@dataclass(frozen=True, slots=True)
class FlowOptions:
    """How a flow runs its plan, beyond what OpenManus offers."""

    review: Review = lambda _: True
    ask: Ask | None = None
    tries: int = 3
    replans: int = 1
    replan: Literal["never", "on_failure", "after_each"] = "on_failure"
    repeatable: bool = True
    side_by_side: bool = False
    step_timeout_s: float = LONGEST_TIMEOUT_S
