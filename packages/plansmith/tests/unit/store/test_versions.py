from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from plansmith.errors import Misconfigured
from plansmith.store.doctor import diagnose
from plansmith.store.sql import VERSION
from plansmith.store.sqlite import SqliteStore
from plansmith.store.sqlite_file import open_database
from plansmith.testing.contracts import journal


@pytest.mark.parametrize("version", [VERSION + 1, 99])
async def test_a_file_of_another_version_is_refused_and_not_touched(
    tmp_path: Path, version: int
) -> None:
    path = tmp_path / "store.db"
    open_database(path).close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {version}")
    before = path.read_bytes()
    store = SqliteStore(path)
    for use in (store.append(journal("a", 1)), store.runs()):
        with pytest.raises(Misconfigured, match=f"version {version}") as caught:
            await use
        assert "another store" in caught.value.hint
    await store.close()
    findings = {found.subject: found for found in await diagnose(f"sqlite:///{path}")}
    assert findings["schema"].level == "error"
    assert path.read_bytes() == before
