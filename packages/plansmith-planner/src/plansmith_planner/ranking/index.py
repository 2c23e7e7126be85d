"""Keeps the shortlist's indexes in memory, by the content of their catalogues."""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from threading import RLock
from typing import Any, Final

from plansmith.plan.capability import AgentSpec, ToolSpec
from plansmith_planner.ranking.card import Card, Source, read_card, source
from plansmith_planner.ranking.lexical import LexicalIndex

Entry = ToolSpec | AgentSpec | Mapping[str, Any]
Catalogue = Sequence[Entry] | Mapping[str, Entry]
_Pairs = list[tuple[str, Entry]]

_MOST_INDEXES: Final = 8
_MOST_CARDS: Final = 50_000


class CatalogueIndex:
    """The index of one catalogue: its cards, and the texts by which meaning is ranked."""

    def __init__(self, given: _Pairs | None, cards: Sequence[Card], texts: Sequence[str]) -> None:
        self._given = given
        self.cards = cards
        self.texts = texts
        self.lexical = LexicalIndex(cards)

    def knows(self, pairs: _Pairs) -> bool:
        """Whether exactly this catalogue was given before."""
        try:
            return self._given == pairs
        except (RecursionError, TypeError, ValueError):
            return False


class IndexCache:
    """A limited number of indexes; the least recently used is dropped first."""

    def __init__(self) -> None:
        self._indexes: list[CatalogueIndex] = []
        self._cards: OrderedDict[str, Card] = OrderedDict()
        self.lock = RLock()

    def index(self, tools: Catalogue) -> CatalogueIndex:
        """Returns the index of a catalogue: the one made before, or a new one."""
        if isinstance(tools, Mapping):
            pairs = [(str(name), entry) for name, entry in tools.items()]
        else:
            pairs = [(_name(entry), entry) for entry in tools]
        known = next((each for each in self._indexes if each.knows(pairs)), None)
        if known is not None:
            self._indexes.remove(known)
        else:
            sources = [*_sources(pairs)]
            texts = [f"{each.name.replace('_', ' ')}: {each.fields[1]}" for each in sources]
            known = CatalogueIndex(_copied(pairs), [self._card(each) for each in sources], texts)
        self._indexes = [known, *self._indexes][:_MOST_INDEXES]
        return known

    def _card(self, given: Source) -> Card:
        key = given.key()
        if key not in self._cards:
            self._cards[key] = read_card(given)
            if len(self._cards) > _MOST_CARDS:
                self._cards.popitem(last=False)
        return self._cards[key]


def _sources(pairs: _Pairs) -> Iterator[Source]:
    names: set[str] = set()
    for name, entry in pairs:
        given = source(name, entry)
        if given is not None and given.name not in names:
            names.add(given.name)
            yield given


def _name(entry: Entry) -> str:
    return str(entry.get("name", "")) if isinstance(entry, Mapping) else entry.name


def _copied(pairs: _Pairs) -> _Pairs | None:
    """Returns a catalogue that stays as it is; specs are frozen, plain mappings are not."""
    try:
        return [
            (name, copy.deepcopy(entry) if isinstance(entry, Mapping) else entry)
            for name, entry in pairs
        ]
    except (RecursionError, TypeError, ValueError):
        return None
