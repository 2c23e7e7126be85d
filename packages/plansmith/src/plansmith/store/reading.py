"""Caches stored values, and waits for what others write."""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from plansmith.errors import PlansmithError
from plansmith.plan.data import HASH_DIGITS, Json, parse_json
from plansmith.store.commit import closed
from plansmith.store.rows import no_value, read_value

_MAX_BYTES: Final = 8_000_000
_LARGEST: Final = 100_000


class ValueCache:
    """Caches recently stored values and reads the others from the store.

    A run reads nearly everything that it has just written, and a resumed run reads all its results
    at once. The value of a content hash never changes, so the cache is never stale.
    """

    def __init__(self, read: Callable[[Sequence[str]], Awaitable[Mapping[str, object]]]) -> None:
        self._read = read
        self._size = 0
        self._texts: OrderedDict[str, bytes] = OrderedDict()

    def keep(self, values: Iterable[tuple[str, bytes]]) -> None:
        """Caches values that are durable; leaves out large ones."""
        for digest, text in values:
            if digest not in self._texts and (size := len(text)) <= _LARGEST:
                self._texts[digest] = text
                self._size += size
        while self._size > _MAX_BYTES:
            self._size -= len(self._texts.popitem(last=False)[1])

    def forget(self) -> None:
        """Empties the cache, because values are being removed from the store."""
        self._texts.clear()
        self._size = 0

    async def get(self, digests: Sequence[str]) -> list[Json]:
        """Returns the values of content hashes, each a new object, also of equal ones."""
        # Taken at once: while this waits, others may push them out.
        cached = {each: self._texts[each] for each in digests if each in self._texts}
        cached |= {each: each.encode() for each in digests if 0 < len(each) < HASH_DIGITS}
        missing = [*dict.fromkeys(each for each in digests if each not in cached)]
        found: Mapping[str, object] = await self._read(missing) if missing else {}
        values: list[Json] = []
        for digest in digests:
            if digest in cached:
                try:
                    values.append(parse_json(cached[digest]))
                except ValueError:
                    raise no_value(digest) from None
            elif digest in found:
                values.append(read_value(digest, found[digest]))
            else:
                raise no_value(digest)
        return values


class _Follower(NamedTuple):
    after: int
    future: asyncio.Future[None]


class Followers:
    """Waits until a run or document, given by name, passes a given number.

    `numbers` returns the last number of each name; `watch` runs while anyone waits and calls `look`
    when another process may have written.
    """

    def __init__(
        self,
        *,
        numbers: Callable[[Sequence[str]], Awaitable[Mapping[str, int]]],
        watch: Callable[[], Awaitable[None]],
    ) -> None:
        self._numbers = numbers
        self._watch = watch
        self._lock = threading.Lock()
        self._waiting: dict[str, list[_Follower]] = {}
        self._watcher: asyncio.Task[None] | None = None

    async def wait(self, name: str, after: int) -> None:
        """Returns when the number of a name has passed the given one."""
        loop = asyncio.get_running_loop()
        follower = _Follower(after, loop.create_future())
        with self._lock:
            self._waiting.setdefault(name, []).append(follower)
        try:
            # Asked after signing up, so that no event between the two is missed.
            if (await self._numbers([name])).get(name, 0) > after:
                return
            watcher = self._watcher
            if watcher is None or watcher.done() or watcher.get_loop() is not loop:
                self._watcher = loop.create_task(self._watching())
            await follower.future
        finally:
            if not follower.future.cancel() and not follower.future.cancelled():
                # Read the error, so that asyncio does not log it as never retrieved.
                follower.future.exception()
            with self._lock:
                self._waiting[name].remove(follower)
                if not self._waiting[name]:
                    del self._waiting[name]

    def wake(self, numbers: Mapping[str, int]) -> None:
        """Wakes those who wait for names that have later numbers now."""
        for name, number in numbers.items():
            with self._lock:
                followers = list(self._waiting.get(name, ()))
            for follower in followers:
                if follower.after < number:
                    _resolve(follower.future, None)

    async def look(self) -> None:
        """Asks the store for the last numbers of everything that is waited for."""
        with self._lock:
            names = list(self._waiting)
        if names:
            self.wake(await self._numbers(names))

    @property
    def any(self) -> bool:
        """Whether anyone waits."""
        return bool(self._waiting)

    def close(self, error: PlansmithError | None = None) -> None:
        """Ends all waits with the error."""
        watcher, self._watcher = self._watcher, None
        if watcher is not None and not watcher.get_loop().is_closed():
            watcher.cancel()
        with self._lock:
            followers = [each for some in self._waiting.values() for each in some]
        for follower in followers:
            _resolve(follower.future, error or closed())

    async def _watching(self) -> None:
        try:
            await self._watch()
        except PlansmithError as error:
            self._watcher = None
            self.close(error)


def _resolve(future: asyncio.Future[None], error: PlansmithError | None) -> None:
    """Ends a wait, which may be in another event loop."""

    def resolve() -> None:
        if future.done():
            return
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)

    with suppress(RuntimeError):  # that loop is closed, perhaps at this moment
        future.get_loop().call_soon_threadsafe(resolve)
