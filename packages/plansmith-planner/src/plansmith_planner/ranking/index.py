"""Keeps the shortlist's indexes: in memory by content, and on disk in a given folder."""

from __future__ import annotations

import copy
import hashlib
import json
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from threading import RLock
from typing import Any, Final

from plansmith.files import replace_file
from plansmith.plan.capability import AgentSpec, ToolSpec
from plansmith_planner.ranking.card import Card, Source, read_card, source
from plansmith_planner.ranking.lexical import LexicalIndex

Entry = ToolSpec | AgentSpec | Mapping[str, Any]
Catalogue = Sequence[Entry] | Mapping[str, Entry]
_Pairs = list[tuple[str, Entry]]

_FORMAT: Final = 4
_MOST_INDEXES: Final = 8
_MOST_CARDS: Final = 50_000


class CatalogueIndex:
    """The index of one catalogue: its cards, and the texts by which meaning is ranked."""

    def __init__(
        self, given: _Pairs | None, folder: Path | None, cards: Sequence[Card], texts: Sequence[str]
    ) -> None:
        self._given = given
        self._folder = folder
        self.cards = cards
        self.texts = texts
        self.lexical = LexicalIndex(cards)

    def knows(self, pairs: _Pairs, folder: Path | None) -> bool:
        """Whether exactly this catalogue was given before, and is kept in this folder."""
        try:
            return self._given == pairs and folder in (None, self._folder)
        except (RecursionError, TypeError, ValueError):
            return False


class IndexCache:
    """A limited number of indexes; the least recently used is dropped first."""

    def __init__(self) -> None:
        self._indexes: list[CatalogueIndex] = []
        self._cards: OrderedDict[str, Card] = OrderedDict()
        self.lock = RLock()

    def index(self, tools: Catalogue, folder: Path | None) -> CatalogueIndex:
        """Returns the index of a catalogue: the one made before, or a new one."""
        if isinstance(tools, Mapping):
            pairs = [(str(name), entry) for name, entry in tools.items()]
        else:
            pairs = [
                (str(entry.get("name", "")) if isinstance(entry, Mapping) else entry.name, entry)
                for entry in tools
            ]
        known = next((each for each in self._indexes if each.knows(pairs, folder)), None)
        if known is not None:
            self._indexes.remove(known)
        else:
            sources = {each.key(): each for each in _sources(pairs)}
            cards = self._read(sources, folder)
            about = [
                f"{each.name.replace('_', ' ')}: {each.fields[1]}" for each in sources.values()
            ]
            known = CatalogueIndex(_copied(pairs), folder, cards, about)
        self._indexes = [known, *self._indexes][:_MOST_INDEXES]
        return known

    def _read(self, sources: Mapping[str, Source], folder: Path | None) -> list[Card]:
        name = hashlib.sha256("".join(sources).encode()).hexdigest()[:32]
        file = folder / f"shortlist-{name}.json" if folder is not None else None
        kept = _read_file(file) if file is not None else {}
        cards = {
            key: self._cards.get(key) or kept.get(key) or read_card(given)
            for key, given in sources.items()
        }
        self._cards.update(cards)
        while len(self._cards) > _MOST_CARDS:
            self._cards.popitem(last=False)
        if file is not None and not kept:
            _save(file, cards)
        return list(cards.values())


def _sources(pairs: _Pairs) -> Iterator[Source]:
    names: set[str] = set()
    for name, entry in pairs:
        given = source(name, entry)
        if given is not None and given.name not in names:
            names.add(given.name)
            yield given


def _copied(pairs: _Pairs) -> _Pairs | None:
    """Returns a catalogue that stays as it is; specs are frozen, plain mappings are not."""
    try:
        return [
            (name, copy.deepcopy(entry) if isinstance(entry, Mapping) else entry)
            for name, entry in pairs
        ]
    except (RecursionError, TypeError, ValueError):
        return None


def _read_file(path: Path) -> dict[str, Card]:
    """Returns the cards of a file; none if it is damaged or has another format."""
    try:
        form, check, text = path.read_text(encoding="utf-8").split("\n", 2)
        if (form, check) != (str(_FORMAT), hashlib.sha256(text.encode()).hexdigest()):
            return {}
        return {key: Card(*fields) for key, fields in json.loads(text).items()}
    except (OSError, ValueError):
        return {}


def _save(path: Path, cards: Mapping[str, Card]) -> None:
    """Writes a file completely or not at all; ignores a folder that is not writable."""
    text = json.dumps(cards)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, f"{_FORMAT}\n{hashlib.sha256(text.encode()).hexdigest()}\n{text}")
    except OSError:
        return
