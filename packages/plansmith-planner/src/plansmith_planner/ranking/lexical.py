"""Finds the tools whose text contains the terms of a request, or similar terms."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import nlargest
from typing import Final

from plansmith_planner.language import lines
from plansmith_planner.language import words as w
from plansmith_planner.language.numbers import MONTHS
from plansmith_planner.ranking.card import Card

_HEAD: Final = 12_000
_TAIL: Final = 4_000
_REPEATS: Final = 1.0

# So many characters in a row are data (base64, a key, a hash), not language.
_BLOB: Final = re.compile(r"[A-Za-z0-9+/=_-]{120,}")
_CLAUSE: Final = re.compile(
    r"[.!?;。！？；\n]+|,\s+(?:and|then)\s+|\b(?:additionally|also|then|after that|furthermore"
    r"|moreover|finally|as well as)\b|然后|并且|同时|另外|接着|再",
    re.IGNORECASE,
)
_VALUES: Final = tuple(
    (re.compile(pattern.replace("<months>", "|".join(MONTHS))), tuple(map(w.stem, hint.split())))
    for hint, _, pattern in (line.partition(": ") for line in lines("values.txt"))
)
_QUOTED: Final = re.compile(
    r"[`'\"“‘「]([^`'\"”’」\n]{1,200})[`'\"”’」]|([\w.:/-]{2,200})(?=\()"
    r"|\b([^\W\d_][^\W_]{0,64}(?:[_.:/]{1,3}[^\W_]{1,64}){1,8}|[A-Za-z]?[a-z]{1,64}[A-Z]\w{1,64})\b"
)
# For each term in cards: the matching terms of the request, and the value of a match.
Worth = dict[str, list[tuple[str, float]]]


@dataclass(frozen=True, slots=True)
class Request:
    """A request as terms: its terms, its clauses with their terms, and the original words."""

    terms: Mapping[str, float]
    clauses: tuple[frozenset[str], ...]
    parts: tuple[str, ...]
    surface: Mapping[str, str]
    words: tuple[str, ...]
    quoted: frozenset[str]


def read_request(text: str) -> Request:
    """Turns a request into terms; reads only the beginning and end of a very long one."""
    prose = _BLOB.sub(" ", text)
    short = prose if len(prose) <= _HEAD + _TAIL else f"{prose[:_HEAD]}\n{prose[-_TAIL:]}"
    weights, surface = _weights(short)
    for pattern, hint in _VALUES:
        if pattern.search(short):
            for term in hint:
                weights[term] = weights.get(term, 0.0) + 0.2
    strongest = sorted(weights.items(), key=lambda item: -item[1])[:120]
    quoted = ("".join(found) for found in _QUOTED.findall(short))
    clauses = [part.strip() for part in _CLAUSE.split(short) if len(part) > 5]
    parts = tuple(clauses) if 1 < len(clauses) <= 12 else ()
    return Request(
        terms=dict(strongest),
        clauses=tuple(frozenset(term for _, term in w.terms(part)) for part in parts),
        parts=parts,
        surface=surface,
        words=tuple(w.spelling(short)),
        quoted=frozenset(" ".join(w.spelling(name)) for name in quoted),
    )


def _weights(text: str) -> tuple[dict[str, float], dict[str, str]]:
    counts: dict[str, float] = {}
    surface: dict[str, str] = {}
    for word, term in w.terms(text):
        surface.setdefault(term, word)
        lone = 0.6 if len(word) == 1 and w.is_cjk(word) else 1.0
        counts[term] = counts.get(term, 0.0) + lone * w.word_weight(word)
    weights = {t: x * (1 + _REPEATS) / (x + _REPEATS) for t, x in counts.items()}
    return weights, surface


class LexicalIndex:
    """Cards by term; a slot is the place of a card."""

    def __init__(self, cards: Sequence[Card]) -> None:
        self._cards = cards
        self._holders: dict[str, dict[int, float]] = {}
        self._finders: dict[str, list[int]] = {}
        self._phrases: dict[str, list[int]] = {}
        self._tails: dict[str, list[int]] = {}
        for slot, card in enumerate(cards):
            for term, weight in card.weights.items():
                self._holders.setdefault(term, {})[slot] = weight
            for term in card.finds:
                self._finders.setdefault(term, []).append(slot)
            self._phrases.setdefault(card.phrase, []).append(slot)
            self._tails.setdefault(card.tail, []).append(slot)
        self._openings = {each.partition(" ")[0] for each in (*self._phrases, *self._tails)}

    def named(self, request: Request) -> Iterator[int]:
        """Yields the slots whose name the request contains, in any usual spelling."""
        words = request.words
        for start, first in enumerate(words):
            if first not in self._openings:
                continue
            for end in range(start + 1, min(start + 10, len(words)) + 1):
                plain = words[start:end]
                phrase = " ".join(plain)
                everyday = all(word in w.STOP or word in w.FILLER for word in plain)
                if end - start == 1:
                    everyday = w.is_everyday(first)
                quoted = phrase in request.quoted
                if quoted or not everyday:
                    yield from self._phrases.get(phrase, ())
                # Plain words in a row, such as "get user", need not mean `crm.get_user`.
                if quoted:
                    yield from self._tails.get(phrase, ())

    def worth(self, request: Request) -> Worth:
        """Returns how much each indexed term counts for a request."""
        worth: Worth = {}
        for term in request.terms:
            rarity = self._rarity(term)
            known = term in self._holders
            if known:
                worth.setdefault(term, []).append((term, rarity))
            trust = 0.4 if known else 0.6
            for other, likeness in w.synonyms(term).items():
                if other in self._holders:
                    gain = trust * likeness * min(rarity, self._rarity(other))
                    worth.setdefault(other, []).append((term, gain))
        return worth

    def coverage(self, request: Request, scores: Mapping[int, float]) -> float:
        """Returns how much of a request the best card matches, 0 to 1."""
        asked = sum(value * self._rarity(term) for term, value in request.terms.items())
        return min(1.0, max(scores.values(), default=0.0) / asked) if asked else 0.0

    def scores(self, request: Request, worth: Worth, least: int) -> dict[int, float]:
        """Scores at least `least` of the best cards, if so many share words with the request."""
        slots = self._contenders(worth, request, max(70, 3 * least))
        shares = {slot: _shares(self._cards[slot], worth) for slot in slots}
        total = {
            slot: math.fsum(request.terms[term] * value for term, value in share.items())
            * (1 + 0.3 * self._title_share(slot, request))
            for slot, share in shares.items()
        }
        if total:
            self._reward_clauses(total, request, shares)
            self._reward_finders(total)
        return total

    def matches(self, slot: int, request: Request, worth: Worth) -> list[tuple[str, str]]:
        """Returns the request's terms that a card matches, strongest first."""
        found: dict[str, tuple[float, str]] = {}
        for held, weight in self._cards[slot].weights.items():
            for term, gain in worth.get(held, ()):
                value = weight * gain * request.terms[term]
                found[term] = max(found.get(term, (0.0, "")), (value, held))
        strongest = sorted(found.items(), key=lambda item: (-item[1][0], item[0]))
        return [(term, held) for term, (_, held) in strongest]

    def _contenders(self, worth: Worth, request: Request, most: int) -> list[int]:
        rough: dict[int, float] = {}
        for held, pairs in worth.items():
            value = sum(gain * request.terms[term] for term, gain in pairs)
            for slot, weight in self._holders[held].items():
                rough[slot] = rough.get(slot, 0.0) + weight * value
        return nlargest(most, rough, key=rough.__getitem__)

    def _rarity(self, term: str) -> float:
        held = len(self._holders.get(term, ()))
        return math.log(1 + (len(self._cards) - held + 0.5) / (max(held, 1) + 0.5))

    def _title_share(self, slot: int, request: Request) -> float:
        rarities = [(term, self._rarity(term)) for term in self._cards[slot].title]
        whole = sum(rarity for _, rarity in rarities)
        held = sum(rarity for term, rarity in rarities if term in request.terms)
        return held / whole if whole else 0.0

    def _reward_clauses(
        self, total: dict[int, float], request: Request, shares: Mapping[int, dict[str, float]]
    ) -> None:
        """Raises the best card of each clause, so that a long request cannot hide it."""
        ease = 0.5 * math.log(1 + (len(self._cards) + 0.5) / 1.5)
        best: dict[int, float] = {}
        for clause in request.clauses:
            part = {
                slot: math.fsum(request.terms[term] * share[term] for term in share.keys() & clause)
                for slot, share in shares.items()
            }
            top = max(part.values()) + ease
            for slot, value in part.items():
                best[slot] = max(best.get(slot, 0.0), value / top)
        most = max(total.values())
        for slot, value in best.items():
            total[slot] += 0.75 * most * value

    def _reward_finders(self, total: dict[int, float]) -> None:
        """Raises tools that look up an identifier which a found tool needs."""
        leaders = nlargest(5, total.items(), key=lambda item: (item[1], -item[0]))
        wanted: dict[str, float] = {}
        for slot, score in leaders:
            for thing in self._cards[slot].needs:
                wanted[thing] = max(score, wanted.get(thing, 0.0))
        for thing, score in wanted.items():
            finders = self._finders.get(thing, [])
            if len(finders) <= 3:
                for slot in finders:
                    total[slot] = total.get(slot, 0.0) + 0.3 * score


def _shares(card: Card, worth: Worth) -> dict[str, float]:
    """Returns what each term of the request adds to a card; only its best match counts."""
    best: dict[str, float] = {}
    weights = card.weights
    for held in weights.keys() & worth.keys():
        weight = weights[held]
        for term, gain in worth[held]:
            value = weight * gain
            if value > best.get(term, 0.0):
                best[term] = value
    return best
