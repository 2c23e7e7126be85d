"""What a plan is expected to take, as reviewers see it and journals keep it."""

from __future__ import annotations

from pydantic import Field

from plansmith.plan.data import Json, Record
from plansmith.plan.sentence import ShownText


class Measured(Record):
    """What calls of one tool or agent took before, in the middle."""

    seconds: float
    tokens: int = 0


class Estimate(Record):
    """What a plan will take, and what that is based on. Waiting for the person is not counted."""

    seconds: float = 0.0
    tokens: int = 0
    cost_usd: str | None = None
    effects: dict[str, int] = Field(default_factory=dict)
    critical_path: tuple[str, ...] = ()
    basis: tuple[ShownText, ...] = ()
    measured: dict[str, Measured] = Field(default_factory=dict)

    def to_json(self) -> dict[str, Json]:
        """All of it, also what is nothing: a reader wants to see that."""
        return self.model_dump(mode="json")

    def shown_json(self, locale: str = "en") -> dict[str, Json]:
        """All of it, with the basis as text in the reader's language."""
        return self.model_dump(mode="json", context={"locale": locale})
