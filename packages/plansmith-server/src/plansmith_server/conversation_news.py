"""Tells the clients of the event stream which conversations have changed, whoever changed them."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final

from plansmith.app import Plansmith
from plansmith.errors import PlansmithError
from plansmith.ports import Records
from plansmith_planner.threads.store import ThreadHeadline, ThreadStore

_NEWEST: Final = 50
_WAITING: Final = 200
_EVERY_S: Final = 1.0  # how soon what another process says is noticed
Row = dict[str, Any]


def conversation_row(head: ThreadHeadline) -> Row:
    """Returns the row of a conversation in a list."""
    row = head._asdict()
    return {"id": row.pop("thread"), "updated_at": row.pop("updated"), **row}


class ConversationNews:
    """Compares the newest conversations with what was told, as long as somebody listens."""

    def __init__(self, smith: Plansmith) -> None:
        self._store = smith.store
        self._listeners: set[asyncio.Queue[Row]] = set()
        self._known: dict[str, ThreadHeadline] = {}
        self._changed = asyncio.Event()
        self._watching: asyncio.Task[None] | None = None

    def look(self) -> None:
        """Has the conversations compared now: this process changed one."""
        self._changed.set()

    @contextmanager
    def listening(self) -> Generator[asyncio.Queue[Row]]:
        """Opens a queue of changed conversations, beginning with the newest as they are."""
        queue: asyncio.Queue[Row] = asyncio.Queue(_WAITING)
        for head in self._known.values():
            put(queue, conversation_row(head))
        self._listeners.add(queue)
        idle = self._watching is None or self._watching.done()
        if idle and isinstance(self._store, Records):
            self._watching = asyncio.create_task(self._watch(ThreadStore(self._store)))
        try:
            yield queue
        finally:
            self._listeners.discard(queue)
            if not self._listeners and self._watching is not None:
                self._watching.cancel()
                self._watching, self._known = None, {}

    async def _watch(self, store: ThreadStore) -> None:
        while True:
            self._changed.clear()
            with suppress(PlansmithError):  # the store is away: the next look tells
                self._tell(await store.threads(limit=_NEWEST))
            with suppress(TimeoutError):
                async with asyncio.timeout(_EVERY_S):
                    await self._changed.wait()

    def _tell(self, heads: Sequence[ThreadHeadline]) -> None:
        """Sends what is new, and what is gone from among those that would still be shown."""
        now = {head.thread: head for head in reversed(heads)}
        oldest = heads[-1].updated if len(heads) == _NEWEST else None
        rows = [
            {**conversation_row(head), "removed": True}
            for name, head in self._known.items()
            if name not in now and (oldest is None or head.updated >= oldest)
        ]
        for name, head in now.items():
            if name not in self._known or self._known[name].last != head.last:
                rows.append(conversation_row(head))
        self._known = now
        for queue in self._listeners:
            for row in rows:
                put(queue, row)


def put(queue: asyncio.Queue[Row], row: Row) -> None:
    """Drops the oldest of a full queue: what is told here can be read elsewhere."""
    if queue.full():
        queue.get_nowait()
    queue.put_nowait(row)
