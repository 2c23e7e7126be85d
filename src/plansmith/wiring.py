"""From names to parts: the one table of what is loaded on demand, and its loader (floor 7)."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

from plansmith.errors import Misconfigured

MODELS: Final = {
    "demo": "plansmith.adapters.models.demo:demo_model",
}


def load(dotted: str) -> Any:
    """The object at `package.module:name`, imported now."""
    module, _, name = dotted.partition(":")
    return getattr(import_module(module), name)


def make_model(name: str) -> Any:
    """The model of a name in the table."""
    if name not in MODELS:
        known = ", ".join(MODELS)
        raise Misconfigured(f"there is no model called {name!r}", hint=f"known models: {known}")
    return load(MODELS[name])()
