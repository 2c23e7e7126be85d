"""Turns a request into a checked plan, one module per stage.

Its public names are loaded when they are first used.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # for checkers it is true, as that of `typing`, which takes long to load
if TYPE_CHECKING:
    from plansmith.models import model
    from plansmith.planner.parse.read import read_json
    from plansmith.planner.ranking.pick import shortlist

__all__ = ["model", "read_json", "shortlist"]

_HOMES = {
    "model": "plansmith.models",
    "read_json": "plansmith.planner.parse.read",
    "shortlist": "plansmith.planner.ranking.pick",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'plansmith.planner' has no attribute {name!r}")
    value: object = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
