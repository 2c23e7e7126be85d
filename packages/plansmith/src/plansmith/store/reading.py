"""Caches stored values, and waits for what others write."""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from plansmith.errors import PlansmithError
from plansmith.plan.data import Json, parse_json
from plansmith.store.commit import closed
from plansmith.store.rows import no_value, read_value

MOST_BYTES: Final = 8_000_000
LARGEST: Final = 100_000
# Followers of all runs wait under this name, which no run has.
ANY_RUN: Final = ""
# What the name starts with under which followers of a record wait.
_RECORD: Final = "\n"


def record_key(kind: str, name: str) -> str:
    """Returns the name under which followers of a record wait."""
    return f"{_RECORD}{kind} {name}"


def apart(keys: Iterable[str]) -> tuple[list[str], dict[str, list[str]]]:
    """Returns the runs of those names, and the records by kind."""
    runs: list[str] = []
    records: dict[str, list[str]] = {}
    for key in keys:
        if key.startswith(_RECORD):
            kind, _, name = key.removeprefix(_RECORD).partition(" ")
            records.setdefault(kind, []).append(name)
        else:
            runs.append(key)
    return runs, records


class ValueCache:
    """Caches recently stored values and reads the others from the store.

    A run reads nearly everything that it has just written, and a resumed run reads all its results
    at once. The value of a content hash never changes, so the cache is never stale.
    """

    def __init__(
        self,
        read: Callable[[Sequence[str]], Awaitable[Mapping[str, object]]],
        *,
        most: int = MOST_BYTES,
    ) -> None:
        self._read = read
        self._most = most
        self._size = 0
        self._texts: OrderedDict[str, bytes] = OrderedDict()

    def keep(self, values: Iterable[tuple[str, bytes]]) -> None:
        """Caches values that are durable; leaves out large ones."""
        for digest, text in values:
            if digest not in self._texts and (size := len(text)) <= LARGEST:
                self._texts[digest] = text
                self._size += size
        while self._size > self._most:
            self._size -= len(self._texts.popitem(last=False)[1])

    def forget(self) -> None:
        """Empties the cache, because values are being removed from the store."""
        self._texts.clear()
        self._size = 0

    async def get(self, digest: str) -> Json:
        """Returns the value of a content hash."""
        text = self._texts.get(digest)
        if text is not None:
            # Read anew every time: nobody can change it through a shared dictionary.
            return parse_json(text)
        return _value(digest, await self._read([digest]))

    async def get_many(self, digests: Sequence[str]) -> list[Json]:
        """Returns the values of content hashes, each a new object, also of equal ones."""
        missing = [*dict.fromkeys(each for each in digests if each not in self._texts)]
        # Taken before others can push them out.
        cached = {each: self._texts[each] for each in digests if each in self._texts}
        found: Mapping[str, object] = await self._read(missing) if missing else {}
        return [
            parse_json(cached[each]) if each in cached else _value(each, found) for each in digests
        ]


def _value(digest: str, found: Mapping[str, object]) -> Json:
    if digest not in found:
        raise no_value(digest)
    return read_value(digest, found[digest])


class _Follower(NamedTuple):
    after: int
    future: asyncio.Future[None]


class Followers:
    """Waits for events after a number.

    `numbers` returns the last number of each run; `watch` runs while anyone waits and calls `look`
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

    async def wait(self, run: str, after: int) -> None:
        """Returns when the run has an event after the number."""
        loop = asyncio.get_running_loop()
        follower = _Follower(after, loop.create_future())
        with self._lock:
            self._waiting.setdefault(run, []).append(follower)
        try:
            # Asked after signing up, so that nothing falls between the two.
            if (await self._numbers([run])).get(run, 0) > after:
                return
            self._keep_watching(loop)
            await follower.future
        finally:
            self._leave(run, follower)

    def wake(self, numbers: Mapping[str, int]) -> None:
        """Wakes those who wait for runs that have new events."""
        for run, number in numbers.items():
            with self._lock:
                followers = list(self._waiting.get(run, ()))
            for follower in followers:
                if follower.after < number:
                    _resolve(follower.future, None)

    async def look(self) -> None:
        """Asks the store for the last numbers of all runs that are waited for."""
        with self._lock:
            runs = list(self._waiting)
        if runs:
            self.wake(await self._numbers(runs))

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

    def _keep_watching(self, loop: asyncio.AbstractEventLoop) -> None:
        watcher = self._watcher
        if watcher is None or watcher.done() or watcher.get_loop() is not loop:
            self._watcher = loop.create_task(self._watching())

    async def _watching(self) -> None:
        try:
            await self._watch()
        except PlansmithError as error:
            self._watcher = None
            self.close(error)

    def _leave(self, run: str, follower: _Follower) -> None:
        if not follower.future.cancel() and not follower.future.cancelled():
            # Read the error, so that asyncio does not log it as never retrieved.
            follower.future.exception()
        with self._lock:
            left = [each for each in self._waiting[run] if each is not follower]
            if left:
                self._waiting[run] = left
            else:
                del self._waiting[run]


def _resolve(future: asyncio.Future[None], error: PlansmithError | None) -> None:
    def resolve() -> None:
        if future.done():
            return
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)

    loop = future.get_loop()
    if not loop.is_closed():
        loop.call_soon_threadsafe(resolve)
