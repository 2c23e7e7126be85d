"""What the runner bench measures of whom: everything, or the short form of `--quick`."""

from __future__ import annotations

from typing import Final

TURNS: Final = 5
TURNS_A_ROUND: Final = 2
# In turns over all engines, each in a process that stays; the others in a process of their own.
IN_TURNS: Final = ("chain", "fan", "uneven", "plans", "same", "plain")
ONCE: Final = ("narrow", "parked", "crash", "cold", "long", "open")

# Peers with another setting or store: a short form has no time for them, and the full one asks them
# only how fast they are.
_FULL_ONLY: Final = ("LangGraph, memory", "LangGraph functional, PostgreSQL", "DBOS, SQLite WAL")
_SLOW: Final = ("LangGraph, PostgreSQL", "DBOS, SQLite", "DBOS, PostgreSQL")
_SELDOM: Final = (
    *("floor, memory", "floor, PostgreSQL", "Plansmith, memory", "Plansmith, PostgreSQL"),
    "LangGraph functional, SQLite",
)
_VARIANTS: Final = ("Plansmith, SQLite FULL",)
# Five seconds and more for 100 plans, and no goal asks for them.
_SLOWEST: Final = ("LangGraph, PostgreSQL", "DBOS, SQLite")
_QUICK_ONCE: Final = {
    "narrow": (),
    "parked": ("floor, SQLite FULL", "Plansmith, SQLite FULL", "LangGraph, SQLite"),
    "crash": (
        "floor, SQLite FULL",
        "Plansmith, SQLite FULL",
        "Plansmith, PostgreSQL",
        "LangGraph, SQLite",
        "DBOS, PostgreSQL",
    ),
    "cold": ("floor, SQLite FULL", "Plansmith, SQLite FULL", "LangGraph, SQLite"),
    "long": ("floor, SQLite FULL", "Plansmith, SQLite FULL"),
    "open": ("Plansmith, SQLite FULL",),
}


def is_rival(name: str) -> bool:
    """Whether an engine lives in the rivals' environment."""
    return name.startswith(("LangGraph", "DBOS"))


def is_measured(name: str, *, quick: bool) -> bool:
    """Whether an engine takes part at all."""
    return not (quick and name in _FULL_ONLY)


def takes_turn(name: str, scenario: str, turn: int, *, quick: bool) -> bool:
    """Whether an engine is measured in this turn: slow ones less often."""
    if scenario in ("same", "plain") and not name.startswith("Plansmith"):
        return False  # nothing of a peer depends on it
    if not quick:
        # Once a round, so that they still have a figure of each process.
        return turn % TURNS_A_ROUND == 0 or name not in (*_SLOW, *_FULL_ONLY)
    if scenario in ("same", "plain") and name not in _VARIANTS:
        return False
    if scenario == "plans" and name in _SLOWEST:
        return turn == 0
    if name in _SLOW:
        return turn in (0, TURNS - 1)
    return turn % 2 == 0 if name in _SELDOM else True


def is_once(name: str, scenario: str, *, quick: bool) -> bool:
    """Whether an engine is measured by a scenario that runs once."""
    if quick:
        return name in _QUICK_ONCE[scenario]
    if name in _FULL_ONLY:
        return False
    if scenario == "narrow":
        # First come, first served would be all a barrier of supersteps can do.
        return name.startswith(("floor", "Plansmith"))
    if scenario == "open":
        return name.startswith("Plansmith") and "memory" not in name
    return scenario in ("parked", "cold") or "memory" not in name
