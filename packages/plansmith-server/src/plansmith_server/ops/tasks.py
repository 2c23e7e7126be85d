"""Work that goes on beside other work."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from typing import Any

from plansmith.engine.ownership import Ownership


@asynccontextmanager
async def background_tasks(*works: Coroutine[Any, Any, Any]) -> AsyncGenerator[None]:
    """Does works as long as the context is open."""
    tasks = [asyncio.create_task(each) for each in works]
    try:
        yield
    finally:
        await end(tasks)


async def end(tasks: Iterable[asyncio.Future[Any]]) -> None:
    """Cancels tasks, and waits until they have ended."""
    found = [*tasks]
    for each in found:
        each.cancel()
    await asyncio.gather(*found, return_exceptions=True)


async def in_role(
    ownership: Ownership, name: str, work: Callable[[], Coroutine[Any, Any, None]]
) -> None:
    """Does work for ever, while this process has a role that one of all has at a time."""
    while True:
        async with ownership.role(name) as lost:
            doing = asyncio.create_task(work())
            tasks: list[asyncio.Task[Any]] = [doing, asyncio.create_task(lost.wait())]
            try:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                if doing.done():
                    doing.result()
            finally:
                await end(tasks)
