"""Inbox: what wakes a conductor: calls that end, time that passes, and words from elsewhere."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Final

from plansmith.errors import PlansmithError
from plansmith.runner.call import Outcome

FOLLOW_AFTER_S: Final = 0.2
_NOTHING: Final = ("", None)


class Inbox:
    """Outcomes in the order they came. `news` returns when another process has written."""

    def __init__(self, news: Callable[[], Awaitable[None]]) -> None:
        self._news = news
        self._queue: asyncio.Queue[tuple[str, Outcome | None]] = asyncio.Queue()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._follower: asyncio.Task[None] | None = None
        self.waits: set[asyncio.Task[None]] = set()

    def open(self) -> None:
        """From now on it belongs to the loop that runs here."""
        self._loop = asyncio.get_running_loop()

    def put(self, name: str, outcome: Outcome) -> None:
        """A call has ended."""
        self._queue.put_nowait((name, outcome))

    def knock(self) -> None:
        """Have the conductor look again."""
        self._queue.put_nowait(_NOTHING)

    def wake(self, seconds: float) -> None:
        """Knock later; calls in threads of their own come through here too."""
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(loop.call_later, seconds, self.knock)

    def later(self, waiting: Callable[[], Awaitable[None]], then: Callable[[], None]) -> None:
        """Do something when a wait is over, and knock."""

        async def wait() -> None:
            await waiting()
            then()
            self.knock()

        task = asyncio.create_task(wait())
        self.waits.add(task)
        task.add_done_callback(self.waits.discard)

    async def wait(self) -> bool:
        """Wait for a knock; true when it may have come from another process.

        Others are listened to only once something takes long: that costs a task and a query.
        """
        loop = asyncio.get_running_loop()
        timer = loop.call_later(FOLLOW_AFTER_S, self._begin_to_follow)
        try:
            self._queue.put_nowait(await self._queue.get())
        finally:
            timer.cancel()
        return self._follower is not None

    def _begin_to_follow(self) -> None:
        self._follower = self._follower or asyncio.create_task(self._follow())

    async def _follow(self) -> None:
        try:
            while True:
                await self._news()
                self.knock()
                # What the loop wrote itself wakes this too: let it take that in first.
                await asyncio.sleep(FOLLOW_AFTER_S)
        except PlansmithError:
            return  # the store is in trouble: the next append says so

    def ends(self) -> Iterator[tuple[str, Outcome]]:
        """The calls that have ended since."""
        while not self._queue.empty():
            name, outcome = self._queue.get_nowait()
            if outcome is not None:
                yield name, outcome

    def close(self) -> list[asyncio.Task[None]]:
        """Stop waiting; the tasks that are left."""
        follower = [self._follower] if self._follower else []
        return [*self.waits, *follower]
