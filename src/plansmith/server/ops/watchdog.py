"""Logs when something holds the event loop: for how long, and what it was doing."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
import traceback
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

from plansmith.server.ops.logs import Log

LIMIT_S: Final = 0.25
_PAUSE_S: Final = 0.1
_MOST_FRAMES: Final = 6


@asynccontextmanager
async def watched_loop(log: Log) -> AsyncGenerator[None]:
    """Logs each time that the event loop takes no turn for a quarter of a second."""
    loop, thread, ended = asyncio.get_running_loop(), threading.get_ident(), threading.Event()

    def watch() -> None:
        while not ended.wait(_PAUSE_S):
            asked = time.monotonic()
            turn = asyncio.run_coroutine_threadsafe(asyncio.sleep(0), loop)
            try:
                turn.result(LIMIT_S)
            except TimeoutError:
                frame = sys._current_frames()[thread]  # noqa: SLF001 - no other way to see it
                stack = "".join(traceback.format_stack(frame)[-_MOST_FRAMES:])
                turn.result()
                held_ms = int((time.monotonic() - asked) * 1000)
                log.warning("event loop held", held_ms=held_ms, stack=stack)

    watcher = threading.Thread(target=watch, name="event loop watchdog", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        await asyncio.to_thread(watcher.join)
