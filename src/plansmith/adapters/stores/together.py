"""Questions asked at the same time become one: a hundred runs that go on share one query."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from plansmith.adapters.stores.commit import closed
from plansmith.errors import JournalDamaged

_K = TypeVar("_K", bound=Hashable)
_V = TypeVar("_V")


class Together(Generic[_K, _V]):
    """Collects what is asked in one turn of an event loop, and asks it at once."""

    def __init__(self, ask: Callable[[Sequence[_K]], Awaitable[Mapping[_K, _V]]]) -> None:
        self._ask = ask
        # By event loop: one that has ended must not keep another waiting.
        self._asked: dict[
            asyncio.AbstractEventLoop, list[tuple[_K, asyncio.Future[_V | None]]]
        ] = {}
        self._answering: set[asyncio.Task[None]] = set()

    def get(self, key: _K) -> asyncio.Future[_V | None]:
        """The answer for a key, or nothing if there is none."""
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
        """Ask nothing more; whoever still waits is told that the store is closed."""
        loop = asyncio.get_running_loop()
        tasks = [task for task in self._answering if task.get_loop() is loop]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        # A task that is cancelled before its first turn has told nobody.
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
