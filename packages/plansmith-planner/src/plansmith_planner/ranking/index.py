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

FORMAT: Final = 2
_MOST_INDEXES: Final = 8
_MOST_CARDS: Final = 50_000
_FILES_READ: Final = 3
_ENOUGH_SHARED: Final = 0.5


class CatalogueIndex:
    """The index of one catalogue; `slots` lists the cards in the catalogue's order."""

    def __init__(self) -> None:
        self.lexical = LexicalIndex()
        self.slots: dict[int, Card] = {}
        self.places: dict[int, int] = {}
        self.texts: dict[int, str] = {}
        self.key = ""
        self._keys: dict[str, int] = {}
        self._given: object = None
        self._next = 0

    def overlap(self, keys: Mapping[str, Source]) -> int:
        """Returns how many of these cards are in the index."""
        return len(self._keys.keys() & keys.keys())

    def become(self, key: str, wanted: Mapping[str, tuple[Source, Card]]) -> None:
        """Turns this into the index of another catalogue; changes only cards that differ."""
        for gone in self._keys.keys() - wanted.keys():
            self.lexical.remove(self._keys.pop(gone))
        for fresh in wanted:
            if fresh not in self._keys:
                self._keys[fresh] = self._next
                self.lexical.add(self._next, wanted[fresh][1])
                self._next += 1
        self.slots = {self._keys[one]: card for one, (_, card) in wanted.items()}
        self.texts = {self._keys[one]: _text(given) for one, (given, _) in wanted.items()}
        self.places = {slot: place for place, slot in enumerate(self.slots)}
        self.key = key
        self.lexical.settle()

    def cards(self) -> dict[str, Card]:
        """The cards by the hash of their content."""
        return {key: self.slots[slot] for key, slot in self._keys.items()}

    def remember(self, tools: Catalogue) -> None:
        """Stores the given tools, to recognise the same catalogue quickly."""
        try:
            self._given = _snapshot(tools)
        except (RecursionError, TypeError, ValueError):
            self._given = None

    def knows(self, tools: Catalogue) -> bool:
        """Whether exactly this catalogue was given before."""
        try:
            return self._given is not None and _unchanged(self._given, tools)
        except (RecursionError, TypeError, ValueError):
            return False


class IndexCache:
    """A limited number of indexes; the least recently used is dropped first."""

    def __init__(self) -> None:
        self._indexes: list[CatalogueIndex] = []
        self._cards: OrderedDict[str, Card] = OrderedDict()
        self.lock = RLock()

    def index(self, tools: Catalogue, folder: Path | None) -> CatalogueIndex:
        """Returns the index of a catalogue: cached, adapted from a similar one, or new."""
        for at, index in enumerate(self._indexes):
            if index.knows(tools):
                self._indexes.insert(0, self._indexes.pop(at))
                _ensure_saved(folder, index)
                return index
        sources = {given.key(): given for given in _sources(tools)}
        key = hashlib.sha256("".join(sources).encode()).hexdigest()
        index = self._nearest(key, sources)
        index.become(key, self._read(key, sources, folder))
        index.remember(tools)
        self._indexes.insert(0, index)
        del self._indexes[_MOST_INDEXES:]
        return index

    def _nearest(self, key: str, sources: Mapping[str, Source]) -> CatalogueIndex:
        for index in self._indexes:
            shared = index.overlap(sources)
            size = max(len(sources), len(index.slots), 1)
            if index.key == key or shared > _ENOUGH_SHARED * size:
                self._indexes.remove(index)
                return index
        return CatalogueIndex()

    def _read(
        self, key: str, sources: Mapping[str, Source], folder: Path | None
    ) -> dict[str, tuple[Source, Card]]:
        missing = [one for one in sources if one not in self._cards]
        if folder is not None and missing:
            self._cards.update(_load(folder, key, missing))
        read: dict[str, tuple[Source, Card]] = {}
        for one, given in sources.items():
            card = self._cards.get(one) or read_card(given)
            read[one] = (given, card)
            self._cards[one] = card
            self._cards.move_to_end(one)
        while len(self._cards) > _MOST_CARDS:
            self._cards.popitem(last=False)
        if folder is not None and not _is_sound(_file(folder, key)):
            _save(_file(folder, key), {one: card for one, (_, card) in read.items()})
        return read


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


def _text(given: Source) -> str:
    return f"{given.name.replace('_', ' ')}: {given.fields[1]}"


def _snapshot(tools: Catalogue) -> object:
    if isinstance(tools, Mapping):
        return list(tools), copy.deepcopy(dict(tools))
    # Specs are frozen, so the same object is the same content; plain mappings are not.
    frozen = all(isinstance(entry, ToolSpec | AgentSpec) for entry in tools)
    return tuple(tools) if frozen else [copy.deepcopy(entry) for entry in tools]


def _unchanged(given: object, tools: Catalogue) -> bool:
    if isinstance(tools, Mapping):
        return given == (list(tools), dict(tools))
    if not isinstance(given, tuple):
        return given == list(tools)
    kept = cast("tuple[object, ...]", given)
    return len(kept) == len(tools) and all(map(is_, kept, tools))


def _file(folder: Path, key: str) -> Path:
    return folder / f"shortlist-{key[:32]}.json"


def _is_sound(path: Path) -> bool:
    return path.exists() and bool(_read_file(path))


def _ensure_saved(folder: Path | None, index: CatalogueIndex) -> None:
    if folder is not None and not _file(folder, index.key).exists():
        _save(_file(folder, index.key), index.cards())


def _load(folder: Path, key: str, missing: Sequence[str]) -> dict[str, Card]:
    """Returns cards from this catalogue's file, else from the latest files."""
    wanted = set(missing)
    own = _file(folder, key)
    found: dict[str, Card] = {}
    for path in [own] if own.exists() else _latest(folder):
        found.update((one, card) for one, card in _read_file(path).items() if one in wanted)
    return found


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
        if data["format"] != FORMAT or data["check"] != _check(data["cards"]):
            return {}
        return {key: _card(fields) for key, fields in data["cards"].items()}
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return {}


def _card(fields: list[Any]) -> Card:
    name, kind, weights, title, phrase, tail, needs, finds = fields
    return Card(name, kind, weights, tuple(title), phrase, tail, tuple(needs), tuple(finds))


def _check(cards: object) -> str:
    return hashlib.sha256(json.dumps(cards).encode()).hexdigest()


def _save(path: Path, cards: Mapping[str, Card]) -> None:
    """Writes a file completely or not at all; ignores a folder that is not writable."""
    rows = {
        key: [c.name, c.kind, c.weights, c.title, c.phrase, c.tail, c.needs, c.finds]
        for key, c in cards.items()
    }
    text = json.dumps({"format": FORMAT, "check": _check(rows), "cards": rows})
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, text)
    except OSError:
        return
