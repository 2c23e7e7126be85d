"""One server for all tests of a module that do not disturb one another."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from tests.unit.server.house import House, serving


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_house(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    """A server with a store in memory."""
    async with serving(tmp_path_factory.mktemp("house")) as house:
        yield house


@pytest.fixture
def house(shared_house: House) -> House:
    """The server of the module, whose tools were not called yet."""
    shared_house.tools.calls.clear()
    shared_house.tools.began.clear()
    shared_house.tools.gate.clear()
    return shared_house
