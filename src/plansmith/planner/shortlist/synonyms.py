"""Similar words and word frequencies, from two shipped word lists."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Final

from plansmith.planner.shortlist.words import FILLER, STOP, stem

CONCEPT_LIKENESS: Final = 0.6
_FILLER_WEIGHT: Final = 0.3
_NUMBER_WEIGHT: Final = 0.25
_LEAST_WEIGHT: Final = 0.1
_RANK_OF_FULL_WEIGHT: Final = 7.0

Synonyms = Mapping[str, tuple[tuple[str, float], ...]]


@cache
def synonyms() -> Synonyms:
    """Returns for each term the similar terms, with a similarity from 0 to 1."""
    near: dict[str, dict[str, float]] = {}
    for line in _lines("neighbours.txt"):
        head, *others = line.split()
        for other in others:
            likeness = (int(other[-1]) + 0.5) / 10
            _relate(near, stem(head), stem(other[:-1]), likeness)
            _relate(near, stem(other[:-1]), stem(head), likeness)
    for line in _lines("concepts.txt"):
        left, _, right = line.partition(">")
        heads = [stem(word) for word in left.split()]
        for head in heads:
            for other in [stem(word) for word in right.split()] or heads:
                _relate(near, head, other, CONCEPT_LIKENESS)
    return {term: tuple(others.items()) for term, others in near.items()}


@cache
def _ranks() -> Mapping[str, int]:
    lines = _lines("neighbours.txt")
    ranks: dict[str, int] = {}
    for place, line in enumerate(lines):
        ranks.setdefault(stem(line.split(maxsplit=1)[0]), place)
    return ranks


def word_weight(word: str) -> float:
    """Returns how significant a word is: 1 for rare words, less for common ones."""
    if word.isdecimal():
        return _NUMBER_WEIGHT
    usual = _FILLER_WEIGHT if word in FILLER else 1.0
    place = _ranks().get(stem(word))
    if place is None:
        return usual
    # By Zipf's law frequency falls with the rank, so the weight grows with its logarithm.
    return usual * max(_LEAST_WEIGHT, min(1.0, math.log(place + 3) / _RANK_OF_FULL_WEIGHT))


def is_everyday(word: str) -> bool:
    """Whether a word is common English, so that using it names no tool."""
    return word in STOP or stem(word) in _ranks() or stem(word) in synonyms()


def _relate(near: dict[str, dict[str, float]], term: str, other: str, likeness: float) -> None:
    if term != other:
        others = near.setdefault(term, {})
        others[other] = max(likeness, others.get(other, 0.0))


def _lines(name: str) -> list[str]:
    text = files("plansmith.planner.shortlist").joinpath(name).read_text(encoding="utf-8")
    return [line for line in text.splitlines() if not line.startswith("#")]
