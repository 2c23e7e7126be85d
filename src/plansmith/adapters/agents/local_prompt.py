"""Prompts of local agents: a file each, the user's own before ours, with strict places."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path
from typing import Final

from plansmith.errors import Misconfigured
from plansmith.planner.prompting import places

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_PLACE: Final = re.compile(r"<<([a-z_]+)>>")


def render_prompt(name: str, *, folder: Path | None, **values: str) -> str:
    """An agent's prompt with its values put in; a prompt may leave places out."""
    text = prompt_of(name, folder)
    unknown = sorted(places(text) - values.keys())
    if unknown:
        raise Misconfigured(
            f"the prompt {name!r} has places that nothing fills: {unknown}",
            hint=f"the places are {sorted(values)}",
        )
    return _PLACE.sub(lambda place: values[place[1]], text)


def prompt_of(name: str, folder: Path | None = None) -> str:
    """The text of a prompt: from the user's folder when it is there, else our own."""
    if not _NAME.fullmatch(name):
        hint = "1 to 64 of a-z, 0-9, - and _, beginning with a letter or digit"
        raise Misconfigured(f"{name!r} is no name for a prompt", hint=hint)
    own = folder / f"{name}.md" if folder else None
    if own is not None and own.is_file():
        return own.read_text(encoding="utf-8")
    shipped = files("plansmith.adapters.agents") / "prompts" / f"{name}.md"
    if not shipped.is_file():
        where = folder or "a folder of prompts"
        raise Misconfigured(f"there is no prompt called {name!r}", hint=f"put {name}.md in {where}")
    return shipped.read_text(encoding="utf-8")
