"""A server for a test."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio
from tests.unit.server.house import House, serving


@pytest_asyncio.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    """A server with a store in memory."""
    async with serving(tmp_path) as house:
        yield house
