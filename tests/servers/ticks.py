"""uvicorn in tests: it looks every tenth of a second whether to stop, and most tests last less."""

from __future__ import annotations

import asyncio
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
