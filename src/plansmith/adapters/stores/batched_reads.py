"""Joins reads that are requested at the same time into one query, and caches stored values."""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, Final, Generic, NamedTuple, TypeVar

from plansmith.adapters.stores.commit import closed
from plansmith.adapters.stores.rows import no_value, read_value
from plansmith.errors import JournalDamaged, PlansmithError
from plansmith.plan.data import Json, parse_json

_K = TypeVar("_K", bound=Hashable)
_V = TypeVar("_V")
MOST_BYTES: Final = 8_000_000
LARGEST: Final = 100_000
# Followers of all runs wait under this name, which no run has.
ANY_RUN: Final = ""
# What the name starts with under which followers of a thread wait.
_THREAD: Final = "\n"


def thread_key(thread: str) -> str:
    """Returns the name under which followers of a thread wait."""
    return _THREAD + thread


def apart(keys: Iterable[str]) -> tuple[list[str], list[str]]:
    """Returns the runs and the threads of those names."""
    names = [*keys]
    runs = [each for each in names if not each.startswith(_THREAD)]
    return runs, [each.removeprefix(_THREAD) for each in names if each.startswith(_THREAD)]


class BatchedReads(Generic[_K, _V]):
    """Collects the reads of one turn of an event loop and makes one query of them."""

    def __init__(self, ask: Callable[[Sequence[_K]], Awaitable[Mapping[_K, _V]]]) -> None:
        self._ask = ask
        # By event loop: one that has ended must not keep another waiting.
        self._asked: dict[
            asyncio.AbstractEventLoop, list[tuple[_K, asyncio.Future[_V | None]]]
        ] = {}
        self._answering: set[asyncio.Task[None]] = set()

    def get(self, key: _K) -> asyncio.Future[_V | None]:
        """Returns the answer for a key; None if there is none."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[_V | None] = loop.create_future()
        asked = self._asked.setdefault(loop, [])
        asked.append((key, future))
        if len(asked) == 1:
            task = loop.create_task(self._answer(loop))
            self._answering.add(task)
            task.add_done_callback(self._answering.discard)
        return future

    async def close(self) -> None:
        """Stops reading; waiting callers get the error that the store is closed."""
        loop = asyncio.get_running_loop()
        tasks = [task for task in self._answering if task.get_loop() is loop]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        # A task that is cancelled before its first turn has answered nobody.
        _fail(self._asked.pop(loop, []), closed())

    async def _answer(self, loop: asyncio.AbstractEventLoop) -> None:
        # Whoever asks from now on is answered by the next one.
        asked = [each for each in self._asked.pop(loop) if not each[1].done()]
        try:
            await self._answer_all(asked)
        except asyncio.CancelledError:
            _fail(asked, closed())

    async def _answer_all(self, asked: Sequence[tuple[_K, asyncio.Future[_V | None]]]) -> None:
        try:
            found = await self._ask(list(dict.fromkeys(key for key, _ in asked)))
        except JournalDamaged as error:
            # What is damaged of one must not keep the others from theirs.
            for each in asked if len(asked) > 1 else ():
                await self._answer_all([each])
            _fail(asked, error)
        except Exception as error:  # noqa: BLE001 - nobody must wait for ever
            _fail(asked, error)
        else:
            for key, future in asked:
                if not future.done():
                    future.set_result(found.get(key))


def _fail(asked: Sequence[tuple[object, asyncio.Future[Any]]], error: Exception) -> None:
    for _, future in asked:
        if not future.done():
            future.set_exception(error)


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
        self._stored: BatchedReads[tuple[str, ...], Mapping[str, object]]
        self._stored = BatchedReads(self._read_groups)
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

    async def close(self) -> None:
        """Stops reading."""
        await self._stored.close()

    async def get(self, digest: str) -> Json:
        """Returns the value of a content hash."""
        text = self._texts.get(digest)
        if text is not None:
            # Read anew every time: nobody can change it through a shared dictionary.
            return parse_json(text)
        return _value(digest, await self._stored.get((digest,)) or {})

    async def get_many(self, digests: Sequence[str]) -> list[Json]:
        """Returns the values of content hashes, each a new object, also of equal ones."""
        missing = tuple(dict.fromkeys(each for each in digests if each not in self._texts))
        # Taken before others can push them out.
        cached = {each: self._texts[each] for each in digests if each in self._texts}
        found = (await self._stored.get(missing) if missing else None) or {}
        return [
            parse_json(cached[each]) if each in cached else _value(each, found) for each in digests
        ]

    async def _read_groups(
        self, groups: Sequence[tuple[str, ...]]
    ) -> Mapping[tuple[str, ...], Mapping[str, object]]:
        """Reads the values of several callers with one query."""
        found = await self._read([*dict.fromkeys(each for group in groups for each in group)])
        return dict.fromkeys(groups, found)


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
        self._number = BatchedReads(numbers)
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
            if (await self._number.get(run) or 0) > after:
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

    async def stop(self) -> None:
        """Ends all waits and asks the store nothing more."""
        self.close()
        await self._number.close()

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
