from __future__ import annotations

from pathlib import Path

import pytest

from plansmith.errors import Misconfigured
from plansmith.store.memory import MemoryStore
from plansmith.store.sqlite import SqliteStore
from plansmith.store.urls import open_store, sqlite_path
from plansmith_postgres import connection as pg_connection
from plansmith_postgres.store import PostgresStore


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("memory", MemoryStore),
        ("sqlite:///runs.db", SqliteStore),
        ("sqlite:///runs.db?synchronous=normal", SqliteStore),
        ("postgresql://me@localhost/plans", PostgresStore),
        ("postgres://me@localhost/plans", PostgresStore),
    ],
)
def test_an_address_gives_its_kind_of_store(url: str, kind: type) -> None:
    assert type(open_store(url)) is kind


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("sqlite:///runs.db", Path("runs.db")),
        ("sqlite:///some/runs.db", Path("some/runs.db")),
        ("sqlite:////var/runs.db", Path("/var/runs.db")),
        ("sqlite:///~/runs.db", Path("~/runs.db").expanduser()),
        ("sqlite:///a%20b.db?synchronous=full", Path("a b.db")),
    ],
)
def test_a_path_is_relative_unless_it_starts_with_a_slash(url: str, path: Path) -> None:
    assert sqlite_path(url) == path


@pytest.mark.parametrize(
    "url",
    [
        "",
        "mysql://localhost/a",
        "runs.db",
        "sqlite:",
        "sqlite:///",
        "sqlite://runs.db",
        "sqlite:///a.db?synchronous=off",
        "sqlite:///a.db?mode=fast",
    ],
)
def test_a_wrong_address_says_what_is_right(url: str) -> None:
    with pytest.raises(Misconfigured) as caught:
        open_store(url)
    assert caught.value.hint


async def test_a_missing_driver_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> object:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(pg_connection, "import_module", missing)
    store = open_store("postgresql://me@127.0.0.1/plans")
    with pytest.raises(Misconfigured, match="psycopg"):
        await store.runs()
    await store.close()
