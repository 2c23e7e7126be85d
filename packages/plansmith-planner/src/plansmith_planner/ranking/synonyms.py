"""Similar words and word frequencies, from two shipped word lists."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from functools import cache, lru_cache
from importlib.resources import files
from typing import Final, NamedTuple

from plansmith_planner.ranking.words import FILLER, STOP, stem

CONCEPT_LIKENESS: Final = 0.6
_FILLER_WEIGHT: Final = 0.3
_NUMBER_WEIGHT: Final = 0.25
_LEAST_WEIGHT: Final = 0.1
_RANK_OF_FULL_WEIGHT: Final = 7.0


class _Entry(NamedTuple):
    place: int
    neighbours: str  # as in the file: most terms are never asked for


@lru_cache(maxsize=4_096)
def synonyms(term: str) -> Mapping[str, float]:
    """Returns the terms similar to one, with a similarity from 0 to 1."""
    entry = word_list().get(term)
    near = {} if entry is None else _read(entry.neighbours)
    for others in _concepts().get(term, ()):
        for other in others:
            near[other] = max(CONCEPT_LIKENESS, near.get(other, 0.0))
    near.pop(term, None)
    return near


@cache
def word_list() -> Mapping[str, _Entry]:
    """Returns all English terms with their neighbours and places, the commonest first."""
    entries: dict[str, _Entry] = {}
    for line in _lines("neighbours.txt"):
        place, _, rest = line.partition(" ")
        term, _, neighbours = rest.partition(" ")
        entries[term] = _Entry(int(place), neighbours)
    return entries


@cache
def _concepts() -> Mapping[str, Sequence[Collection[str]]]:
    """Returns for each term the groups of terms that a hand-made list puts beside it."""
    beside: dict[str, list[Collection[str]]] = {}
    for line in _lines("concepts.txt"):
        left, _, right = line.partition(">")
        heads = [stem(word) for word in left.split()]
        others = [stem(word) for word in right.split()]
        for head in heads:
            beside.setdefault(head, []).append(others or heads)
    return beside


def _read(neighbours: str) -> dict[str, float]:
    return {each[:-1]: (int(each[-1]) + 0.5) / 10 for each in neighbours.split()}


def word_weight(word: str) -> float:
    """Returns how significant a word is: 1 for rare words, less for common ones."""
    if word.isdecimal():
        return _NUMBER_WEIGHT
    usual = _FILLER_WEIGHT if word in FILLER else 1.0
    entry = word_list().get(stem(word))
    if entry is None:
        return usual
    # By Zipf's law frequency falls with the rank, so the weight grows with its logarithm.
    return usual * max(_LEAST_WEIGHT, min(1.0, math.log(entry.place + 3) / _RANK_OF_FULL_WEIGHT))


def is_everyday(word: str) -> bool:
    """Whether a word is common English, so that using it names no tool."""
    return word in STOP or stem(word) in word_list() or bool(synonyms(stem(word)))


def _lines(name: str) -> list[str]:
    text = files("plansmith_planner.ranking").joinpath(name).read_text(encoding="utf-8")
    return [line for line in text.splitlines() if not line.startswith("#")]
