"""Reads the events that news tell of, each once for all who follow them, and shares their texts."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

from plansmith.plan.data import json_text
from plansmith.plan.events import Event
from plansmith.ports import JournalStore, News

# About how much is kept: of a longer journal, what is asked for next.
MOST_BYTES: Final = 16_000_000
_EVENT_BYTES: Final = 1_000


class EventReader:
    """The latest events of a store that were read; whoever is behind reads on from there."""

    def __init__(self, store: JournalStore) -> None:
        self._store = store
        self._events: dict[tuple[str, int], Event] = {}
        self._texts: dict[tuple[str, int, str], str] = {}
        self._bytes = 0
        self._reading = asyncio.Lock()

    async def read(self, news: Sequence[News]) -> Mapping[News, Event]:
        """Returns the events that news tell of; a run that was deleted meanwhile has none."""
        async with self._reading:
            found: dict[News, Event] = {}
            gone: set[str] = set()
            for each in news:
                place = each.run, each.number
                if place not in self._events and each.run not in gone:
                    await self._read_on(*place)
                    gone |= {each.run} if place not in self._events else set()
                if place in self._events:
                    found[each] = self._events[place]
            return found

    async def _read_on(self, run: str, number: int) -> None:
        """Reads the events of a run from a number on; keeps as many as there is room for."""
        if self._bytes > MOST_BYTES // 2:
            self._events.clear()
            self._texts.clear()
            self._bytes = 0
        for event in await self._store.events(run, after=number - 1):
            self._events[run, event.number] = event
            self._bytes += len(event.body_text) + _EVENT_BYTES
            if self._bytes > MOST_BYTES:
                return

    def text(self, event: Event, position: int, language: str) -> str:
        """Returns an event as clients get it."""
        place = event.run, event.number, language
        if place not in self._texts:
            data = event.shown_json(language) | {"position": position}
            text = json_text(data)
            if (event.run, event.number) not in self._events:
                return text
            self._texts[place] = text
            self._bytes += len(text)
        return self._texts[place]
