"""The lexical index: which cards hold a request's terms, or terms near to them in meaning."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from heapq import nlargest
from typing import Final

from plansmith.planner.ranking.card import Card
from plansmith.planner.ranking.kinship import kin
from plansmith.planner.ranking.terms import Request

_KIN_OF_KNOWN: Final = 0.4
_KIN_OF_UNKNOWN: Final = 0.6
_TITLE: Final = 0.3
_CLAUSE: Final = 0.75
_CLAUSE_EASE: Final = 0.5
_FINDER: Final = 0.3
_MOST_FINDERS: Final = 3
_LEADERS: Final = 5
_CONTENDERS: Final = 70
_CHAMPIONS: Final = 200
_BUDGET: Final = 2_500

# For a term that cards hold: the terms of the request it answers, and what a match is worth.
Worth = dict[str, list[tuple[str, float]]]


class LexicalIndex:
    """Cards by term. Adding or removing a card touches only that card's terms."""

    def __init__(self) -> None:
        self._cards: dict[int, Card] = {}
        self._holders: dict[str, dict[int, float]] = {}
        self._champions: dict[str, list[tuple[int, float]]] = {}
        self._rarities: dict[str, float] = {}
        self._finders: dict[str, dict[int, float]] = {}
        self._phrases: dict[str, dict[int, float]] = {}
        self._tails: dict[str, dict[int, float]] = {}
        self._openings: dict[str, dict[int, float]] = {}

    def add(self, slot: int, card: Card) -> None:
        """Put a card in."""
        self._cards[slot] = card
        self._rarities.clear()
        for term, weight in card.weights.items():
            self._holders.setdefault(term, {})[slot] = weight
            self._champions.pop(term, None)
        for term in card.finds:
            self._finders.setdefault(term, {})[slot] = 1.0
        self._phrases.setdefault(card.phrase, {})[slot] = 1.0
        self._tails.setdefault(card.tail, {})[slot] = 1.0
        for opening in _openings(card):
            self._openings.setdefault(opening, {})[slot] = 1.0

    def remove(self, slot: int) -> None:
        """Take a card out."""
        card = self._cards.pop(slot)
        self._rarities.clear()
        for term in card.weights:
            self._champions.pop(term, None)
            _drop(self._holders, term, slot)
        for term in card.finds:
            _drop(self._finders, term, slot)
        _drop(self._phrases, card.phrase, slot)
        _drop(self._tails, card.tail, slot)
        for opening in _openings(card):
            _drop(self._openings, opening, slot)

    def settle(self) -> None:
        """Do now what the first requests would wait for."""
        kin()
        for term, holders in self._holders.items():
            if len(holders) > _CHAMPIONS:
                self._champion_holders(term)

    def opens_a_name(self, word: str) -> bool:
        """Whether the name of a card begins with this word."""
        return word in self._openings

    def named(self, phrase: str) -> Collection[int]:
        """The slots whose full name is this phrase."""
        return self._phrases.get(phrase, ())

    def named_without_namespace(self, phrase: str) -> Collection[int]:
        """The slots whose name, less its namespace, is this phrase."""
        return self._tails.get(phrase, ())

    def worth(self, request: Request) -> Worth:
        """What the terms held here are worth to a request."""
        worth: Worth = {}
        for term in request.terms:
            rarity = self._rarity(term)
            known = term in self._holders
            if known:
                worth.setdefault(term, []).append((term, rarity))
            trust = _KIN_OF_KNOWN if known else _KIN_OF_UNKNOWN
            for other, likeness in kin().get(term, ()):
                if other in self._holders:
                    gain = trust * likeness * min(rarity, self._rarity(other))
                    worth.setdefault(other, []).append((term, gain))
        return worth

    def coverage(self, request: Request, scores: Mapping[int, float]) -> float:
        """How much of a request the best card answers, 0 to 1."""
        asked = sum(value * self._rarity(term) for term, value in request.terms.items())
        return min(1.0, max(scores.values(), default=0.0) / asked) if asked else 0.0

    def scores(self, request: Request, worth: Worth, least: int) -> dict[int, float]:
        """How well the best cards fit a request: at least so many, if they share words with it."""
        slots = self._contenders(worth, request, max(_CONTENDERS, 3 * least))
        shares = {slot: _shares(self._cards[slot], worth) for slot in slots}
        total = {
            slot: math.fsum(request.terms[term] * value for term, value in share.items())
            * (1 + _TITLE * self._title_share(slot, request))
            for slot, share in shares.items()
        }
        if total:
            self._reward_clauses(total, request, shares)
            self._reward_finders(total)
        return total

    def matches(self, slot: int, request: Request, worth: Worth) -> list[tuple[str, str]]:
        """The request's terms a card answers, strongest first, each with the term it holds."""
        found: dict[str, tuple[float, str]] = {}
        for held, weight in self._cards[slot].weights.items():
            for term, gain in worth.get(held, ()):
                value = weight * gain * request.terms[term]
                found[term] = max(found.get(term, (0.0, "")), (value, held))
        strongest = sorted(found.items(), key=lambda item: (-item[1][0], item[0]))
        return [(term, held) for term, (_, held) in strongest]

    def _contenders(self, worth: Worth, request: Request, most: int) -> list[int]:
        """The cards worth scoring: the likeliest holders of the terms that say most."""
        if len(self._cards) <= most:
            return [
                slot
                for slot in self._cards
                if not worth.keys().isdisjoint(self._cards[slot].weights)
            ]
        gains = {
            held: sum(gain * request.terms[term] for term, gain in pairs)
            for held, pairs in worth.items()
        }
        rough: dict[int, float] = {}
        budget = _BUDGET
        for held in sorted(gains, key=gains.__getitem__, reverse=True):
            gain = gains[held]
            champions = self._champion_holders(held)
            for slot, weight in champions:
                rough[slot] = rough.get(slot, 0.0) + weight * gain
            budget -= len(champions)
            if budget < 0:
                break
        return nlargest(most, rough, key=rough.__getitem__)

    def _champion_holders(self, term: str) -> list[tuple[int, float]]:
        champions = self._champions.get(term)
        if champions is None:
            holders = self._holders[term].items()
            champions = sorted(holders, key=lambda item: (-item[1], item[0]))[:_CHAMPIONS]
            self._champions[term] = champions
        return champions

    def _rarity(self, term: str) -> float:
        known = self._rarities.get(term)
        if known is None:
            count = len(self._cards)
            held = len(self._holders.get(term, ()))
            known = math.log(1 + (count - held + 0.5) / (max(held, 1) + 0.5))
            self._rarities[term] = known
        return known

    def _title_share(self, slot: int, request: Request) -> float:
        """A request that holds all words of a short name means it more than one of many."""
        rarities = [(term, self._rarity(term)) for term in self._cards[slot].title]
        whole = sum(rarity for _, rarity in rarities)
        held = sum(rarity for term, rarity in rarities if term in request.terms)
        return held / whole if whole else 0.0

    def _reward_clauses(
        self, total: dict[int, float], request: Request, shares: Mapping[int, dict[str, float]]
    ) -> None:
        """The best card of each clause counts, however long the rest of the request is."""
        ease = _CLAUSE_EASE * math.log(1 + (len(self._cards) + 0.5) / 1.5)
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
            total[slot] += _CLAUSE * most * value

    def _reward_finders(self, total: dict[int, float]) -> None:
        """A tool that needs an identifier brings in the tool that looks it up."""
        leaders = nlargest(_LEADERS, total.items(), key=lambda item: (item[1], -item[0]))
        wanted: dict[str, float] = {}
        for slot, score in leaders:
            for thing in self._cards[slot].needs:
                wanted[thing] = max(score, wanted.get(thing, 0.0))
        for thing, score in wanted.items():
            finders = self._finders.get(thing, {})
            if len(finders) <= _MOST_FINDERS:
                for slot in finders:
                    total[slot] = total.get(slot, 0.0) + _FINDER * score


def _shares(card: Card, worth: Worth) -> dict[str, float]:
    """What each of the request's terms gives a card: its best match counts, not all of them."""
    best: dict[str, float] = {}
    weights = card.weights
    for held in weights.keys() & worth.keys():
        weight = weights[held]
        for term, gain in worth[held]:
            value = weight * gain
            if value > best.get(term, 0.0):
                best[term] = value
    return best


def _openings(card: Card) -> set[str]:
    return {name.partition(" ")[0] for name in (card.phrase, card.tail)}


def _drop(table: dict[str, dict[int, float]], key: str, slot: int) -> None:
    held = table[key]
    held.pop(slot, None)
    if not held:
        del table[key]
