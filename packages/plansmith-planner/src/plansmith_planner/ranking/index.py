"""Caches the shortlist's indexes: in memory by content, and on disk in a given folder."""

from __future__ import annotations

import copy
import hashlib
import json
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from operator import is_
from pathlib import Path
from threading import RLock
from typing import Any, Final, cast

from plansmith.files import replace_file
from plansmith.plan.capability import AgentSpec, ToolSpec
from plansmith_planner.ranking.card import Card, Source, read_card, source
from plansmith_planner.ranking.lexical import LexicalIndex

Entry = ToolSpec | AgentSpec | Mapping[str, Any]
Catalogue = Sequence[Entry] | Mapping[str, Entry]

_FORMAT: Final = 3
_MOST_INDEXES: Final = 8
_MOST_CARDS: Final = 50_000
_FILES_READ: Final = 3


class CatalogueIndex:
    """The index of one catalogue: its cards, and the texts by which meaning is ranked."""

    def __init__(
        self, given: object, folder: Path | None, cards: Sequence[Card], texts: Sequence[str]
    ) -> None:
        self._given = given
        self._folder = folder
        self.cards = cards
        self.texts = texts
        self.lexical = LexicalIndex(cards)

    def knows(self, tools: Catalogue, folder: Path | None) -> bool:
        """Whether exactly this catalogue was given before, and is kept in this folder."""
        if self._given is None or folder not in (None, self._folder):
            return False
        try:
            return _unchanged(self._given, tools)
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
        known = next((each for each in self._indexes if each.knows(tools, folder)), None)
        if known is not None:
            self._indexes.remove(known)
        else:
            sources = {given.key(): given for given in _sources(tools)}
            cards = self._read(sources, folder)
            texts = [
                f"{each.name.replace('_', ' ')}: {each.fields[1]}" for each in sources.values()
            ]
            known = CatalogueIndex(_snapshot(tools), folder, cards, texts)
        self._indexes = [known, *self._indexes][:_MOST_INDEXES]
        return known

    def _read(self, sources: Mapping[str, Source], folder: Path | None) -> list[Card]:
        key = hashlib.sha256("".join(sources).encode()).hexdigest()[:32]
        own = folder / f"shortlist-{key}.json" if folder is not None else None
        kept = _read_file(own) if own is not None else {}
        if folder is not None and not kept:
            kept = {key: card for path in _latest(folder) for key, card in _read_file(path).items()}
        cards = {
            one: self._cards.get(one) or kept.get(one) or read_card(given)
            for one, given in sources.items()
        }
        self._cards.update(cards)
        while len(self._cards) > _MOST_CARDS:
            self._cards.popitem(last=False)
        if own is not None and not _read_file(own):
            _save(own, cards)
        return list(cards.values())


def _sources(tools: Catalogue) -> Iterator[Source]:
    if isinstance(tools, Mapping):
        pairs = [(str(name), entry) for name, entry in tools.items()]
    else:
        pairs = [(_name(entry), entry) for entry in tools]
    names: set[str] = set()
    for name, entry in pairs:
        given = source(name, entry)
        if given is not None and given.name not in names:
            names.add(given.name)
            yield given


def _name(entry: Entry) -> str:
    return str(entry.get("name", "")) if isinstance(entry, Mapping) else entry.name


def _snapshot(tools: Catalogue) -> object:
    """Returns the given tools, to recognise the same catalogue; None if they cannot be kept."""
    try:
        if isinstance(tools, Mapping):
            return list(tools), copy.deepcopy(dict(tools))
        # Specs are frozen, so the same object is the same content; plain mappings are not.
        frozen = all(isinstance(entry, ToolSpec | AgentSpec) for entry in tools)
        return tuple(tools) if frozen else [copy.deepcopy(entry) for entry in tools]
    except (RecursionError, TypeError, ValueError):
        return None


def _unchanged(given: object, tools: Catalogue) -> bool:
    if isinstance(tools, Mapping):
        return given == (list(tools), dict(tools))
    if not isinstance(given, tuple):
        return given == list(tools)
    kept = cast("tuple[object, ...]", given)
    return len(kept) == len(tools) and all(map(is_, kept, tools))


def _latest(folder: Path) -> list[Path]:
    try:
        dated = [(path.stat().st_mtime, path) for path in folder.glob("shortlist-*.json")]
    except OSError:
        return []
    return [path for _, path in sorted(dated, reverse=True)[:_FILES_READ]]


def _read_file(path: Path) -> dict[str, Card]:
    """Returns the cards of a file; none if it is damaged or has another format."""
    try:
        data = json.loads(path.read_bytes())
        if data["format"] != _FORMAT or data["check"] != _check(data["cards"]):
            return {}
        return {key: Card(*fields) for key, fields in data["cards"].items()}
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return {}


def _check(cards: object) -> str:
    return hashlib.sha256(json.dumps(cards).encode()).hexdigest()


def _save(path: Path, cards: Mapping[str, Card]) -> None:
    """Writes a file completely or not at all; ignores a folder that is not writable."""
    text = json.dumps({"format": _FORMAT, "check": _check(cards), "cards": cards})
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, text)
    except OSError:
        return
