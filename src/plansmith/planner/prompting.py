"""Prompts are files; `<<name>>` stands for a value, and every name must be known and used."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from pathlib import Path

from plansmith.errors import Misconfigured

_PLACE = re.compile(r"<<([a-z_]+)>>")


def render(name: str, *, folder: Path | None = None, **values: str) -> str:
    """A prompt with its values put in, once: what a value says is never looked at again."""
    text = prompt_text(name, folder)
    wanted = places(text)
    if wanted != values.keys():
        missing, unused = sorted(wanted - values.keys()), sorted(values.keys() - wanted)
        raise Misconfigured(
            f"the prompt {name!r} does not fit its values: missing {missing}, unused {unused}",
            hint="a prompt of your own needs exactly the places of the original",
        )
    return _PLACE.sub(lambda place: values[place.group(1)], text)


def places(text: str) -> set[str]:
    """The names of the values that a prompt needs."""
    return set(_PLACE.findall(text))


def prompt_text(name: str, folder: Path | None = None) -> str:
    """The text of a prompt: from the user's folder when it is there, else our own."""
    own = folder / f"{name}.md" if folder else None
    if own is not None and own.is_file():
        return own.read_text(encoding="utf-8")
    return _shipped(name)


@cache
def _shipped(name: str) -> str:
    file = files("plansmith.planner") / "prompts" / f"{name}.md"
    if not file.is_file():
        raise Misconfigured(f"there is no prompt called {name!r}", hint=f"known: {prompt_names()}")
    return file.read_text(encoding="utf-8")


def prompt_names() -> list[str]:
    """The names of all prompts."""
    entries = (files("plansmith.planner") / "prompts").iterdir()
    return sorted(each.name.removesuffix(".md") for each in entries if each.name.endswith(".md"))
