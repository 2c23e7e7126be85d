"""Turns a request into a checked plan, one module per stage.

Its public names are loaded when they are first used.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # for checkers it is true, as that of `typing`, which takes long to load
if TYPE_CHECKING:
    from plansmith_planner.make import model
    from plansmith_planner.parse.read import read_json
    from plansmith_planner.ranking.pick import shortlist

__all__ = ["model", "read_json", "shortlist"]

_HOMES = {
    "model": "plansmith_planner.make",
    "read_json": "plansmith_planner.parse.read",
    "shortlist": "plansmith_planner.ranking.pick",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'plansmith_planner' has no attribute {name!r}")
    value: object = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
