"""Everything about words of English and Chinese: verbs, numbers, dates, units, yes and no."""

from __future__ import annotations

from functools import cache
from pathlib import Path


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


def phrases(name: str) -> str:
    """Returns a pattern for what people say, of those that lie in this folder."""
    return _phrases()[name]


@cache
def _phrases() -> dict[str, str]:
    whole = "\n".join(lines("phrases.txt")).replace("\n  ", "")
    return {
        name: pattern for name, _, pattern in (each.partition(": ") for each in whole.split("\n"))
    }
