"""Values by content hash: the latest at once, others asked for at the same time in one query."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final, cast

from plansmith.adapters.stores.rows import key_of, no_value, read_value
from plansmith.adapters.stores.together import Together
from plansmith.plan.data import Json

MOST_BYTES: Final = 8_000_000
LARGEST: Final = 100_000

ReadMany = Callable[[Sequence[bytes]], Awaitable[Mapping[bytes, object]]]


class Values:
    """What a store has kept lately, and a way to the rest.

    A run asks again for nearly everything it has just written, and a run that is resumed asks for
    all its results at once. A content hash never goes stale, so that both can be answered fast.
    """

    def __init__(self, read: ReadMany, *, most: int = MOST_BYTES) -> None:
        self._stored = Together(read)
        self._most = most
        self._size = 0
        self._texts: OrderedDict[str, bytes] = OrderedDict()

    def keep(self, values: Iterable[tuple[str, bytes]]) -> None:
        """Remember values that are durable now; large ones are left to the store."""
        for digest, text in values:
            if len(text) <= LARGEST and digest not in self._texts:
                self._texts[digest] = text
                self._size += len(text)
        while self._size > self._most:
            self._size -= len(self._texts.popitem(last=False)[1])

    def forget(self) -> None:
        """Remember nothing: values are being removed from the store."""
        self._texts.clear()
        self._size = 0

    async def close(self) -> None:
        """Read nothing more."""
        await self._stored.close()

    async def get(self, digest: str) -> Json:
        """The value of a content hash."""
        text = self._texts.get(digest)
        if text is not None:
            # Read anew every time: nobody can change it through a shared dictionary.
            return cast("Json", json.loads(text))
        data = await self._stored.get(key_of(digest))
        if data is None:
            raise no_value(digest)
        return read_value(digest, data)
