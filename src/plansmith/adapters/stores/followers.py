"""Those who wait for a run to go on, and the one task that looks for other processes' news."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple

from plansmith.adapters.stores.together import Together
from plansmith.errors import JournalError, PlansmithError

Numbers = Callable[[Sequence[str]], Awaitable[Mapping[str, int]]]
Watch = Callable[[], Awaitable[None]]


class _Follower(NamedTuple):
    after: int
    future: asyncio.Future[None]


class Followers:
    """Waits for events behind a number.

    `numbers` gives the last number of each of some runs; `watch` runs as long as anyone waits
    and calls `look` when another process may have written.
    """

    def __init__(self, *, numbers: Numbers, watch: Watch) -> None:
        self._numbers = numbers
        self._number = Together(numbers)
        self._watch = watch
        self._lock = threading.Lock()
        self._waiting: dict[str, list[_Follower]] = {}
        self._watcher: asyncio.Task[None] | None = None

    async def wait(self, run: str, after: int) -> None:
        """Return when the run has an event behind the number."""
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
        """Tell those whose runs went on."""
        for run, number in numbers.items():
            with self._lock:
                followers = list(self._waiting.get(run, ()))
            for follower in followers:
                if follower.after < number:
                    _resolve(follower.future, None)

    async def look(self) -> None:
        """Ask the store about all runs that are waited for."""
        with self._lock:
            runs = list(self._waiting)
        if runs:
            self.wake(await self._numbers(runs))

    @property
    def any(self) -> bool:
        """Whether anyone waits."""
        return bool(self._waiting)

    def close(self, error: PlansmithError | None = None) -> None:
        """Send everyone home."""
        watcher, self._watcher = self._watcher, None
        if watcher is not None and not watcher.get_loop().is_closed():
            watcher.cancel()
        with self._lock:
            followers = [each for some in self._waiting.values() for each in some]
        for follower in followers:
            _resolve(follower.future, error or JournalError("the store is closed"))

    async def stop(self) -> None:
        """Send everyone home, and ask the store nothing more."""
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
            # Looked at, so that nobody complains of an error that was not.
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
