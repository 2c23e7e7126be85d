"""The jobs that are compared, where their programs are killed, and what has to come out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

PROGRAMS: Final = Path(__file__).parent / "compare_programs"
FRAMEWORKS: Final = ("plansmith", "langgraph", "pydantic_ai", "prefect")
TITLES: Final = {
    "plansmith": "Plansmith",
    "langgraph": "LangGraph",
    "pydantic_ai": "pydantic-ai with DBOS",
    "prefect": "Prefect",
}
JOBS: Final = {
    "report": "read three sources at once, ask a person, write one file",
    "restock": "poll until ready, at most five times; order only if stock is low",
    "booking": "reserve five items, one of which fails; confirm; undo when that fails",
}
# Calls that change nothing: to repeat them costs time only.
READS: Final = ("read", "poll", "stock")
WAITING: Final = "waiting"

_READ = {"read alpha": 1, "read beta": 1, "read gamma": 1}
_KEPT = ("bolt", "nut", "rod", "cap")
_BOOKED = {f"{verb} {item}": 1 for verb in ("reserve", "release") for item in _KEPT}


class Case(NamedTuple):
    """A job, where its program is killed (nowhere if empty), and the calls that it should make."""

    job: str
    kill: str
    title: str
    expected: Mapping[str, int]
    approvals: int = 0
    ready: int = 3
    stock: int = 4


CASES: Final = (
    Case("report", "", "no crash", _READ | {"write": 1}, 1),
    Case("report", "read gamma before", "in the third read", _READ | {"write": 1}, 1),
    Case("report", WAITING, "while a person is asked", _READ | {"write": 1}, 1),
    Case("report", "write before", "after the yes, before the write", _READ | {"write": 1}, 1),
    Case("report", "write after", "after the write, before it is known", _READ | {"write": 1}, 1),
    Case("restock", "", "no crash", {"poll": 3, "stock": 1, "order": 1}),
    Case("restock", "", "no crash, enough in stock", {"poll": 3, "stock": 1}, stock=20),
    Case("restock", "poll 2 after", "in poll 2 of 5, never ready", {"poll": 5}, ready=99),
    Case("restock", "order before", "before the order", {"poll": 3, "stock": 1, "order": 1}),
    Case(
        "restock",
        "order after",
        "after the order, before it is known",
        {"poll": 3, "stock": 1, "order": 1},
    ),
    Case("booking", "", "no crash", _BOOKED),
    Case("booking", "reserve rod after", "after a reservation, before it is known", _BOOKED),
    Case("booking", "confirm before", "in the call that will fail", _BOOKED),
    Case("booking", "release nut after", "in the undoing, after one release", _BOOKED),
)


class Outcome(NamedTuple):
    """What a case came to: counts of calls and questions, and whether the program ended."""

    reads_again: int
    changes_again: int
    lost: int
    approvals_again: int
    questions: int
    ended: bool

    @property
    def right(self) -> bool:
        """Whether every change was made exactly once."""
        return self.ended and not (self.changes_again or self.lost)


def outcome(case: Case, lines: list[str], *, ended: bool) -> Outcome:
    """Counts what the log of a case has, beside what it should have."""
    whats = [line.partition("\t")[0] for line in lines]
    made = Counter(_name(what) for what in whats if what.startswith("effect "))
    asked = Counter(what.removeprefix("ask ") for what in whats if what.startswith("ask "))
    again = made - Counter(case.expected)
    reads = sum(count for name, count in again.items() if name.startswith(READS))
    unsure = asked.pop("unknown", 0)
    return Outcome(
        reads_again=reads,
        changes_again=again.total() - reads,
        lost=(Counter(case.expected) - made).total(),
        approvals_again=max(0, asked.total() - case.approvals),
        questions=unsure,
        ended=ended,
    )


def _name(what: str) -> str:
    name = what.removeprefix("effect ")
    return "poll" if name.startswith("poll ") else name
