from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from tests.contract.durable_stores import finished_run

from plansmith.errors import JournalDamaged, Misconfigured, PlansmithError
from plansmith.ports import Finding
from plansmith.store.memory import MemoryStore
from plansmith.store.sqlite import SqliteStore
from plansmith.store.urls import open_store, sqlite_path
from plansmith.testing.contracts import journal
from plansmith.verify import verify
from plansmith_cli.doctor import diagnose
from plansmith_postgres import connection as pg_connection
from plansmith_postgres.store import PostgresStore


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


async def filled(path: Path) -> None:
    store = SqliteStore(path)
    for run in ("a", "b"):
        await store.append(journal(run, 20))
    await store.put("nobody mentions this" * 4)
    await store.close()


async def findings_of(path: Path, sample: int | None = None) -> dict[str, Finding]:
    return {found.subject: found for found in await diagnose(f"sqlite:///{path}", sample=sample)}


async def test_a_sound_store_is_sound_on_every_side(path: Path) -> None:
    await filled(path)
    findings = await findings_of(path)
    assert {found.level for found in findings.values()} == {"ok"}
    sides = "file disk schema lock integrity journals summaries values"
    assert list(findings) == sides.split()
    assert findings["journals"].message.startswith("2 of 2 runs")
    assert findings["values"].message.startswith("1 values")
    assert (await findings_of(path, sample=1))["journals"].message.startswith("1 of 2 runs")


async def test_an_altered_event_is_found_in_its_run(path: Path) -> None:
    await filled(path)
    connection = sqlite3.connect(path)
    connection.execute("UPDATE events SET body = body || ' ' WHERE position = 7")
    connection.commit()
    connection.close()
    findings = await findings_of(path)
    assert findings["run a"].level == "error"
    assert "event 7" in findings["run a"].message
    assert "run b" not in findings


async def test_a_store_that_is_not_there_is_noted_and_memory_needs_no_doctor(path: Path) -> None:
    findings = await findings_of(path)
    assert [found.level for found in findings.values()] == ["note"]
    assert [found.level for found in await diagnose("memory")] == ["ok"]


async def test_a_run_is_verified_with_the_results_it_mentions() -> None:
    store = MemoryStore()
    await store.append(finished_run("a", result="result" * 20)[:3])
    with pytest.raises(JournalDamaged):
        await verify(store, "a")
    await store.put("result" * 20)
    assert await verify(store, "a") == 3
    with pytest.raises(PlansmithError, match="no run"):
        await verify(store, "unknown")


# Addresses


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
        *("", "mysql://localhost/a", "runs.db", "sqlite:", "sqlite:///", "sqlite://runs.db"),
        *("sqlite:///a.db?synchronous=off", "sqlite:///a.db?mode=fast"),
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
