"""Texts to search for, and patterns of paths with `*`, `?`, `**` and `{a,b}`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

_BRACES: Final = re.compile(r"\{([^{}]*)\}")
_MOST: Final = 64


def fits(path: str, pattern: str) -> bool:
    """Whether a path matches a pattern, in any letter case.

    A pattern without a folder matches in every folder; a comma divides several patterns.
    """
    names = path.casefold().split("/")
    return any(
        _wild(names, each.split("/"), "**", _fits_part)
        for each in _alternatives(pattern.casefold())
    )


def is_pattern(path: str) -> bool:
    """Whether a text is a pattern and not the name of one file."""
    return any(mark in path for mark in "*?{,")


def _alternatives(pattern: str) -> list[str]:
    """Returns the plain patterns of one with braces and commas; at most so many."""
    found = [pattern]
    while (braces := _BRACES.search(found[0])) and len(found) < _MOST:
        choices = braces[1].split(",")
        found = [
            each.replace(braces[0], choice.strip(), 1) for each in found for choice in choices
        ][:_MOST]
    parts = [part.strip() for each in found for part in each.split(",")]
    return [part.removeprefix("./") if "/" in part else f"**/{part}" for part in parts if part]


def _fits_part(name: str, pattern: str) -> bool:
    return _wild(name, pattern, "*", lambda letter, wanted: wanted in ("?", letter))


def _wild(
    found: Sequence[str], wanted: Sequence[str], star: str, fits: Callable[[str, str], bool]
) -> bool:
    """Matches a sequence against one with stars; never backtracks behind the last star."""
    at = place = back = 0
    mark = -1
    while at < len(found):
        if place < len(wanted) and wanted[place] == star:
            mark, back = place, at
            place += 1
        elif place < len(wanted) and fits(found[at], wanted[place]):
            at, place = at + 1, place + 1
        elif mark >= 0:
            back += 1
            at, place = back, mark + 1
        else:
            return False
    return all(each == star for each in wanted[place:])


def search_forms(text: str) -> tuple[str, ...]:
    """Returns the search texts: lower case, and for an English plural also the singular."""
    plain = text.casefold()
    plural = re.fullmatch(r"[a-z]{3,}[a-rt-z]s", plain)
    return (plain, plain[:-1]) if plural else (plain,)
