"""The estimate of a plan: time, tokens, cost and effects, shown at review and stored."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from pydantic import Field

from plansmith.plan.data import Json, Record
from plansmith.plan.sentence import ShownText


class Cost(NamedTuple):
    """Seconds and tokens of one step or call."""

    seconds: float
    tokens: int = 0


class Measured(Record):
    """The median time and tokens of earlier calls of one tool or agent."""

    seconds: float
    tokens: int = 0


class Estimate(Record):
    """What a plan will probably take, and the basis for it; waiting for people is not counted."""

    constant: ClassVar[bool] = True
    seconds: float = 0.0
    tokens: int = 0
    cost_usd: str | None = None
    effects: dict[str, int] = Field(default_factory=dict)
    critical_path: tuple[str, ...] = ()
    basis: tuple[ShownText, ...] = ()
    measured: dict[str, Measured] = Field(default_factory=dict)

    def to_json(self) -> dict[str, Json]:
        """Returns all fields as JSON, also zeros, because readers want to see them."""
        return self.model_dump(mode="json")

    def shown_json(self, locale: str = "en") -> dict[str, Json]:
        """Returns all fields as JSON, with the basis as text in the reader's language."""
        return self.model_dump(mode="json", context={"locale": locale})
