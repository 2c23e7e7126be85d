"""A lexical ranker (BM25) for words of any script; Chinese by characters and pairs."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Final

from plansmith.text import CJK_RANGE
from plansmith_planner.language.words import COMMONEST

_RUN: Final = re.compile(rf"[{CJK_RANGE}]+|[^\W_{CJK_RANGE}]+")
_CAMEL: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")
_SATURATION: Final = 1.2
_LENGTH_WEIGHT: Final = 0.6


def terms(text: str) -> list[str]:
    """Returns the index words of a text; Chinese gives characters and pairs."""
    plain = unicodedata.normalize("NFKC", _CAMEL.sub(" ", text)).casefold()
    found: list[str] = []
    for run in _RUN.findall(plain):
        if run[0] < "\u3040":
            # The plural of a word is the word: enough of English for so small an index.
            plural = len(run) > 3 and run.endswith("s") and not run.endswith("ss")
            found.append(run[:-1] if plural else run)
        else:
            found += [*run, *(run[at : at + 2] for at in range(len(run) - 1))]
    return [word for word in found if word not in COMMONEST]


class LexicalRanker:
    """Ranks texts by the words they share with a query; keeps the last texts indexed."""

    def __init__(self) -> None:
        self._texts: tuple[str, ...] = ()
        self._postings: dict[str, list[tuple[int, float]]] = {}

    def scores(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        """Returns one score per text; zero if no word is shared."""
        if self._texts != tuple(texts):
            self._texts, self._postings = tuple(texts), _postings(texts)
        found = [0.0] * len(texts)
        for term in dict.fromkeys(terms(query)):
            entries = self._postings.get(term, ())
            rarity = math.log(1 + (len(found) - len(entries) + 0.5) / (len(entries) + 0.5))
            for at, weight in entries:
                found[at] += rarity * weight
        return found


def _postings(texts: Sequence[str]) -> dict[str, list[tuple[int, float]]]:
    """Returns for each word the texts that have it, with its weight in each."""
    counts = [Counter(terms(text)) for text in texts]
    mean = sum(count.total() for count in counts) / max(len(texts), 1) or 1.0
    found: defaultdict[str, list[tuple[int, float]]] = defaultdict(list)
    for at, count in enumerate(counts):
        norm = 1 - _LENGTH_WEIGHT + _LENGTH_WEIGHT * count.total() / mean
        for term, times in count.items():
            found[term].append((at, times / (times + _SATURATION * norm)))
    return found
