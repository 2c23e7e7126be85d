"""Words as index terms: English stems, pairs of Chinese characters, similar words, how common."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from typing import Final, NamedTuple

from plansmith_planner.language import lines, word_list
from plansmith_planner.language.characters import CJK_RANGE

_RUNS: Final = re.compile(rf"[{CJK_RANGE}]+|[^\W\d_{CJK_RANGE}]+|\d+")
# The plural of an acronym, as in "PDFs", is one word.
_CAMEL: Final = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z](?!s(?![a-z]))[a-z])")
_VOWELS: Final = frozenset("aeiouy")

STOP: Final = word_list("stop")
FILLER: Final = word_list("filler")
# Chinese has no spaces, but a particle or pronoun always ends a word.
_PARTICLES: Final = re.compile(f"[{''.join(sorted(w for w in STOP if not w.isascii()))}]")

_STEMS: Final = [line.split() for line in lines("stems.txt")]
_SUFFIXES: Final = [(row[1], row[2]) for row in _STEMS if row[0] == "suffix"]
_ENDINGS: Final = [row[1] for row in _STEMS if row[0] == "ending"]
_IRREGULAR: Final = {row[1]: row[2] for row in _STEMS if row[0] == "word"}


def folded(text: str) -> str:
    """Returns a text without what is only the form of its letters: width and case."""
    return unicodedata.normalize("NFKC", text).casefold()


def letters(text: str) -> str:
    """Returns the letters and digits of a text, to compare it."""
    return "".join(filter(str.isalnum, folded(text)))


def is_cjk(term: str) -> bool:
    """Whether a term is written in Chinese, Japanese or Korean script."""
    return term[:1] > "\u2fff"


def split(text: str) -> list[str]:
    """Returns the words of a text in lower case; Chinese gives characters and pairs."""
    plain = _CAMEL.sub(" ", unicodedata.normalize("NFKC", text))
    found: list[str] = []
    for run in _RUNS.findall(plain):
        if is_cjk(run):
            for part in _PARTICLES.split(run):
                found.extend(part)
                found.extend(part[at : at + 2] for at in range(len(part) - 1))
        elif run[0].isdecimal():
            if len(run) <= 4:
                found.append(run)
        elif len(run) > 1:
            found.append(run.lower())
    return found


def spelling(text: str) -> list[str]:
    """Returns the words and single Chinese characters of a text, to compare names."""
    plain = _CAMEL.sub(" ", unicodedata.normalize("NFKC", text)).lower()
    runs: list[str] = _RUNS.findall(plain)
    return [word for run in runs for word in (run if is_cjk(run) else [run])]


def terms(text: str) -> Iterator[tuple[str, str]]:
    """Yields each significant word with the term under which it is indexed."""
    for word in split(text):
        if word not in STOP:
            yield word, stem(word)


@lru_cache(maxsize=65_536)
def stem(word: str) -> str:
    """Returns the word without English endings."""
    if len(word) < 4 or not word.isascii() or not word.isalpha():
        return word
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    root = _without_tense(_singular(word))
    for ending, kept in _SUFFIXES:
        if root.endswith(ending) and len(root) - len(ending) >= 2:
            root = root[: -len(ending)] + kept
            break
    root = _without_ending(root)
    root = root[:-1] if len(root) > 4 and root.endswith("e") else root
    return root[:-1] + "i" if len(root) > 3 and root.endswith("y") else root


def _singular(word: str) -> str:
    if word.endswith("ies"):
        return word[:-3] + ("y" if len(word) > 4 else "ie")
    if word.endswith(("sses", "shes", "ches", "xes", "zes")):
        return word[:-2]
    if word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word


def _without_tense(word: str) -> str:
    for ending in ("ing", "ed"):
        root = word.removesuffix(ending)
        if root == word or len(root) < 3 or _VOWELS.isdisjoint(root):
            continue
        if root.endswith(("at", "bl", "iz")):
            return root + "e"
        return _undoubled(root)
    return word


def _undoubled(root: str) -> str:
    doubled = len(root) > 3 and root[-1] == root[-2] and root[-1] not in "lsz"
    return root[:-1] if doubled else root


def _without_ending(word: str) -> str:
    for ending in _ENDINGS:
        root = word.removesuffix(ending)
        fits = root != word and len(root) >= 4
        if fits and (ending != "ion" or root[-1] in "st"):
            return _undoubled(root)
    return word


CONCEPT_LIKENESS: Final = 0.6


class _Entry(NamedTuple):
    place: int
    neighbours: str  # as in the file: most terms are never asked for


@lru_cache(maxsize=4_096)
def synonyms(term: str) -> Mapping[str, float]:
    """Returns the terms similar to one, with a similarity from 0 to 1."""
    entry = english_terms().get(term)
    listed = entry.neighbours.split() if entry else ()
    near = {each[:-1]: (int(each[-1]) + 0.5) / 10 for each in listed}
    for others in _concepts().get(term, ()):
        for other in others:
            near[other] = max(CONCEPT_LIKENESS, near.get(other, 0.0))
    near.pop(term, None)
    return near


@cache
def english_terms() -> Mapping[str, _Entry]:
    """Returns all English terms with their neighbours and places, the commonest first."""
    entries: dict[str, _Entry] = {}
    for line in lines("neighbours.txt"):
        place, _, rest = line.partition(" ")
        term, _, neighbours = rest.partition(" ")
        entries[term] = _Entry(int(place), neighbours)
    return entries


@cache
def _concepts() -> Mapping[str, Sequence[Collection[str]]]:
    """Returns for each term the groups of terms that a hand-made list puts beside it."""
    beside: dict[str, list[Collection[str]]] = {}
    for line in lines("concepts.txt"):
        left, _, right = line.partition(">")
        heads = [stem(word) for word in left.split()]
        others = [stem(word) for word in right.split()]
        for head in heads:
            beside.setdefault(head, []).append(others or heads)
    return beside


def word_weight(word: str) -> float:
    """Returns how significant a word is: 1 for rare words, less for common ones."""
    if word.isdecimal():
        return 0.25
    usual = 0.3 if word in FILLER else 1.0
    entry = english_terms().get(stem(word))
    if entry is None:
        return usual
    # By Zipf's law frequency falls with the rank, so the weight grows with its logarithm.
    return usual * max(0.1, min(1.0, math.log(entry.place + 3) / 7.0))


def is_everyday(word: str) -> bool:
    """Whether a word is common English, so that using it names no tool."""
    return word in STOP or stem(word) in english_terms() or bool(synonyms(stem(word)))
