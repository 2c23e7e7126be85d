"""Logs what holds the event loop, and for how long."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
import traceback
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

from plansmith_server.ops.logs import Log

LIMIT_S: Final = 0.25


@asynccontextmanager
async def watched_loop(log: Log) -> AsyncGenerator[None]:
    """Logs each time that the event loop takes no turn for a quarter of a second."""
    loop, thread, ended = asyncio.get_running_loop(), threading.get_ident(), threading.Event()

    def watch() -> None:
        while not ended.wait(LIMIT_S / 2):
            asked = time.monotonic()
            turn = asyncio.run_coroutine_threadsafe(asyncio.sleep(0), loop)
            try:
                turn.result(LIMIT_S)
            except TimeoutError:
                # No public function returns the stack of another thread.
                frames = sys._current_frames()  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
                stack = traceback.format_stack(frames[thread])[-6:]
                turn.result()
                held_ms = int((time.monotonic() - asked) * 1000)
                log.warning("event loop held", held_ms=held_ms, stack="".join(stack))

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        await asyncio.to_thread(watcher.join)
