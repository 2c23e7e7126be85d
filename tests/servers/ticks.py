"""uvicorn in tests: it looks every tenth of a second whether to stop, and most tests last less."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
import uvicorn.server

TICK_S = 0.002


class _Ticking:
    """asyncio, but for how long uvicorn sleeps before it looks again."""

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(min(seconds, TICK_S))


def quick_ticks() -> None:
    """Let the servers of this process stop at once; tests never want the other."""
    pytest.MonkeyPatch().setattr(uvicorn.server, "asyncio", _Ticking())


class _Server(uvicorn.Server):
    """A server that says when it is up, and goes when it is told instead of looking every tick."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.up, self.stop = asyncio.Event(), asyncio.Event()

    async def main_loop(self) -> None:
        await self.on_tick(0)
        self.up.set()
        await self.stop.wait()


@contextlib.asynccontextmanager
async def running(app: Any, port: int) -> AsyncIterator[None]:
    """An application on a port of this machine."""
    config = uvicorn.Config(app, port=port, log_level="critical", timeout_graceful_shutdown=1)
    server = _Server(config)
    task = asyncio.create_task(server.serve())
    await server.up.wait()
    try:
        yield
    finally:
        server.stop.set()
        await task
