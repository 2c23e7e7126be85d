"""The stores on which every promise is kept."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from tests.contract.durable_stores import AnyStore
from tests.postgres import Server

from plansmith.store.urls import open_store

_numbers = itertools.count(1)


@pytest.fixture
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str], str]:
    """Returns the address of a new store of a kind."""

    def made(kind: str) -> str:
        if kind != "postgres":
            return f"sqlite:///{tmp_path / 'store.db'}" if kind == "sqlite" else kind
        server: Server = request.getfixturevalue("postgres_server")
        return server.new_database(f"store_{next(_numbers)}")

    return made


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, address: Callable[[str], str]) -> str:
    """The address of a store that outlives the process."""
    return address(request.param)


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def store(
    request: pytest.FixtureRequest, address: Callable[[str], str]
) -> AsyncIterator[AnyStore]:
    """A store of every kind."""
    made = open_store(address(request.param))
    assert isinstance(made, AnyStore)
    yield made
    await made.close()
