"""Waits for async work in code that is not async, also where an event loop runs already."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, TypeVar

T = TypeVar("T")


def wait_for(work: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine to its end, in a loop of its own.

    Where a loop runs already, as in a notebook, that loop waits and a thread does the work.
    """
    if not _has_loop():
        return asyncio.run(work)
    with ThreadPoolExecutor(1, thread_name_prefix="plansmith-sync") as thread:
        return thread.submit(copy_context().run, asyncio.run, work).result()


def _has_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
