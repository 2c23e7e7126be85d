"""Work that goes on beside other work."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Coroutine, Iterable
from contextlib import asynccontextmanager
from typing import Any


@asynccontextmanager
async def beside(*works: Coroutine[Any, Any, Any]) -> AsyncGenerator[None]:
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
