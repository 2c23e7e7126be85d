"""Keeps the shortlist's indexes: in memory by content, and on disk, whole or as good as none."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
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

_FORMAT: Final = 6


class CatalogueIndex:
    """The index of one catalogue: its cards, and the texts by which meaning is ranked."""

    def __init__(self, pairs: _Pairs, folder: Path | None) -> None:
        self._given, self._folder = _copied(pairs), folder
        made = [each for name, entry in pairs if (each := source(name, entry)) is not None]
        # Of two with one name the first counts.
        first = {each.name: each for each in reversed(made)}
        sources = [each for each in made if first[each.name] is each]
        self.cards = _cards(sources, folder)
        self.texts = [f"{each.name.replace('_', ' ')}: {each.fields[1]}" for each in sources]
        self.lexical = LexicalIndex(self.cards)

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
        found = known or CatalogueIndex(pairs, folder)
        self._indexes = [found, *(each for each in self._indexes if each is not found)][:8]
        return found


def _cards(sources: Sequence[Source], folder: Path | None) -> list[Card]:
    if folder is None:
        return [*map(_card, sources)]
    name = hashlib.sha256(repr((_FORMAT, sources)).encode("utf-8", "surrogatepass")).hexdigest()
    file = folder / f"shortlist-{name[:32]}.json"
    if kept := read_kept(file):
        return [Card(*row) for row in json.loads(kept)]
    cards = [*map(_card, sources)]
    keep(file, json.dumps(cards).encode())
    return cards


# A tool is read once, whatever catalogues it is in.
_card: Final = lru_cache(maxsize=50_000)(read_card)


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
