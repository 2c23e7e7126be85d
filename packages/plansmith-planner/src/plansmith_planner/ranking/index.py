"""Keeps the shortlist's indexes: in memory by content, and on disk, whole or as good as none."""

from __future__ import annotations

import copy
import hashlib
import json
from collections import OrderedDict
from collections.abc import Mapping, Sequence
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

_FORMAT: Final = 5


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
            # Of two with one name the first counts.
            made = [each for name, entry in pairs if (each := source(name, entry)) is not None]
            first = {each.name: each for each in reversed(made)}
            sources = {each.key(): each for each in made if first[each.name] is each}
            texts = [
                f"{each.name.replace('_', ' ')}: {each.fields[1]}" for each in sources.values()
            ]
            known = CatalogueIndex(_copied(pairs), folder, self._read(sources, folder), texts)
        self._indexes = [known, *self._indexes][:8]
        return known

    def _read(self, sources: Mapping[str, Source], folder: Path | None) -> list[Card]:
        name = hashlib.sha256("".join((str(_FORMAT), *sources)).encode()).hexdigest()[:32]
        file = folder / f"shortlist-{name}.json" if folder is not None else None
        rows: dict[str, Any] = json.loads(read_kept(file) or b"{}") if file is not None else {}
        cards = {
            key: self._cards.get(key) or (Card(*rows[key]) if key in rows else read_card(given))
            for key, given in sources.items()
        }
        self._cards.update(cards)
        while len(self._cards) > 50_000:
            self._cards.popitem(last=False)
        if file is not None and not rows:
            keep(file, json.dumps(cards).encode())
        return list(cards.values())


def _copied(pairs: _Pairs) -> _Pairs | None:
    """Returns a catalogue that stays as it is; specs are frozen, plain mappings are not."""
    try:
        return [
            (name, copy.deepcopy(entry) if isinstance(entry, Mapping) else entry)
            for name, entry in pairs
        ]
    except (RecursionError, TypeError, ValueError):
        return None


def read_kept(path: Path) -> bytes:
    """Returns what was kept in a file; nothing if it is missing or damaged."""
    try:
        raw = path.read_bytes()
    except OSError:
        return b""
    body = raw[32:]
    return body if hashlib.sha256(body).digest() == raw[:32] else b""


def keep(path: Path, body: bytes) -> None:
    """Writes a file completely or not at all; ignores a folder that cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, hashlib.sha256(body).digest() + body)
    except OSError:
        return
