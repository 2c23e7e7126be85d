"""Waits for async work in code that is not async, also where an event loop runs already."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from typing import Any, TypeVar

T = TypeVar("T")


def wait_for(work: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine to its end, in a loop of its own.

    Where a loop runs already, as in a notebook, that loop waits and a thread does the work.
    """
    has_loop = False
    with suppress(RuntimeError):
        has_loop = bool(asyncio.get_running_loop())
    if not has_loop:
        return asyncio.run(work)
    with ThreadPoolExecutor(1, thread_name_prefix="plansmith-sync") as thread:
        return thread.submit(copy_context().run, asyncio.run, work).result()
