"""Limits of a local agent: turns, tokens, cost, and repeated identical calls."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from decimal import Decimal

from plansmith.errors import ToolFailed
from plansmith.plan.briefs import total
from plansmith.plan.data import Json, content_hash
from plansmith.plan.sentence import Sentence
from plansmith.ports import Usage


@dataclass(frozen=True, slots=True)
class LocalLimits:
    """The limits of one task; None means no limit.

    `result_chars` is how much of one result its model sees, `history_chars` of all together.
    """

    turns: int = 20
    tokens: int | None = None
    money: Decimal | None = None
    repeats: int = 3
    result_chars: int = 20_000
    history_chars: int = 120_000


class Allowance:
    """Counts what a task has used; raises an error at a limit."""

    def __init__(self, name: str, limits: LocalLimits) -> None:
        self._name = name
        self._limits = limits
        self._used = Usage()
        self.turns = 0

    @property
    def turns_left(self) -> int:
        """Returns how many more turns the model has."""
        return self._limits.turns - self.turns

    def take_turn(self) -> None:
        """Counts one turn before it is made."""
        limits, tokens = self._limits, self._used.input_tokens + self._used.output_tokens
        if self.turns_left <= 0:
            raise self._spent(Sentence("its {count} turns", count=limits.turns), "turns")
        if limits.tokens is not None and tokens >= limits.tokens:
            what = Sentence("its {count} tokens ({used} used)", count=limits.tokens, used=tokens)
            raise self._spent(what, "tokens")
        if limits.money is not None and (self._used.cost or 0) >= limits.money:
            what = Sentence(
                "its ${amount} (${used} used)", amount=limits.money, used=self._used.cost
            )
            raise self._spent(what, "money")
        self.turns += 1

    def spend(self, usage: Usage) -> None:
        """Counts the tokens and the cost of a turn."""
        self._used = total(self._used, usage)

    @property
    def notes(self) -> list[str]:
        """Returns notes on limits that could not be checked."""
        used = self._used.input_tokens + self._used.output_tokens
        if self._limits.money is None or not used or self._used.cost is not None:
            return []
        return [
            f"the price of the model is unknown: the limit of ${self._limits.money} was not checked"
        ]

    def _spent(self, what: str, limit: str) -> ToolFailed:
        hint = Sentence(
            "raise the agent's limit of {limit}, or give it a smaller task", limit=limit
        )
        return ToolFailed(
            Sentence("{name} used up {what} before it was finished", name=self._name, what=what),
            hint=hint,
        )


class Circles:
    """Notices when the same call gives the same result again and again."""

    def __init__(self, name: str, repeats: int) -> None:
        self._name = name
        self._repeats = repeats
        self._seen: Counter[str] = Counter()

    def note(self, tool: str, arguments: Json, result: Json) -> None:
        """Records a call; raises an error when it was repeated too often."""
        key = content_hash([tool, arguments, result])
        self._seen[key] += 1
        if self._seen[key] >= self._repeats:
            raise ToolFailed(
                Sentence(
                    "{name} repeats itself: it called {tool} {count} times with "
                    "the same arguments and got the same result",
                    name=self._name,
                    tool=tool,
                    count=self._repeats,
                ),
                hint=Sentence("describe the task more precisely, or give the agent another tool"),
            )
