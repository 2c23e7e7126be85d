"""Waiting for what another process or thread does, where nothing tells of it."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable

import pytest


async def until(is_so: Callable[[], bool | Awaitable[bool]], *, seconds: float = 120) -> None:
    """Look again and again; a test that waits too long fails and shows what it waited for."""
    deadline = time.monotonic() + seconds
    while not await _holds(is_so):
        if time.monotonic() > deadline:
            pytest.fail(f"not so within {seconds:g} s: {inspect.getsource(is_so).strip()}")
        await asyncio.sleep(0.01)


async def _holds(is_so: Callable[[], bool | Awaitable[bool]]) -> bool:
    found = is_so()
    return found if isinstance(found, bool) else await found
