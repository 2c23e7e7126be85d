"""Everything about words of English and Chinese: verbs, numbers, dates, units, yes and no."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Final

_PART: Final = re.compile(r"«(\w+)»")


def lines(name: str) -> list[str]:
    """Returns the lines of a list that lies in this folder."""
    text = Path(__file__).with_name(name).read_text(encoding="utf-8")
    return [line for line in text.splitlines() if not line.startswith("#")]


def word_list(name: str) -> frozenset[str]:
    """Returns one of the lists of words that lie in this folder."""
    return _word_lists()[name]


@cache
def _word_lists() -> dict[str, frozenset[str]]:
    found: dict[str, frozenset[str]] = {}
    for line in lines("word_lists.txt"):
        name, _, words = line.partition(":")
        found[name] = found.get(name, frozenset()) | {*words.split()}
    return found


def phrases(name: str, **parts: str) -> str:
    """Returns a pattern for what people say, of those that lie in this folder.

    In a pattern `«name»` stands for another one, or for one of the parts.
    """
    return "|".join(phrase_list(name, **parts))


def phrase_list(name: str, **parts: str) -> list[str]:
    """Returns the patterns that have a name."""

    def filled(found: re.Match[str]) -> str:
        return parts.get(found[1]) or phrases(found[1], **parts)

    return [_PART.sub(filled, each) for each in _phrases()[name]]


@cache
def _phrases() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in "\n".join(lines("phrases.txt")).replace("\n  ", "").split("\n"):
        name, _, pattern = line.partition(": ")
        found.setdefault(name, []).append(pattern)
    return found
