"""Finds what is wrong with a store."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from plansmith.errors import PlansmithError
from plansmith.plan.sentence import Sentence
from plansmith.plan.summary import RunSummary, summary_of
from plansmith.ports import Finding, Store
from plansmith.store.sql import VERSION
from plansmith.store.sqlite_file import is_locked, is_ours, setting, store_error
from plansmith.store.urls import open_store, sqlite_path, store_kind
from plansmith.verify import verified
from plansmith_planner.threads.store import check_threads

_LITTLE_ROOM: Final = 100_000_000
_SHOWN: Final = 20


async def diagnose(url: str, *, sample: int | None = None) -> list[Finding]:
    """Checks a store; `sample` limits how many of the newest runs are verified."""
    kind = store_kind(url)
    if kind is not None:
        findings = await kind.examine(url)
    elif url.startswith("memory"):
        return [Finding("ok", "store", Sentence("in memory: there is nothing to check"))]
    else:
        findings = await asyncio.to_thread(lambda: list(_diagnose_file(sqlite_path(url))))
    if any(found.level in ("error", "note") for found in findings):
        return findings
    store: Any = open_store(url)
    runs: Any = partial(_diagnose_runs, sample=sample)
    try:
        for subject, check in (("journals", runs), ("records", check_threads)):
            try:
                findings += await check(store)
            except PlansmithError as error:
                findings.append(_finding_of(subject, error))
    finally:
        await store.close()
    return findings


async def _diagnose_runs(store: Store, *, sample: int | None) -> list[Finding]:
    missing = await missing_runs(store)
    count = len(await store.runs())
    some = await store.headlines(limit=count if sample is None else sample)
    damaged: list[Finding] = []
    wrong: list[tuple[int, RunSummary]] = []
    for stored in reversed(some):
        try:
            found = summary_of((await verified(store, stored.run)).run)
        except PlansmithError as error:
            damaged.append(_finding_of(f"run {stored.run}", error))
            continue
        # What went on meanwhile, or was not told at all, is not wrong.
        agrees = stored.status in ("", found.status) and stored.summary in (None, found)
        if found.number == stored.last and not agrees:
            wrong.append((stored.last, found))
    summary = Sentence(
        "{done} of {count} runs verified, {damaged} damaged",
        done=len(some),
        count=count,
        damaged=len(damaged),
    )
    return [
        *missing,
        *damaged[:_SHOWN],
        *await _deleted(store),
        Finding("warning" if damaged else "ok", "journals", summary),
        await _summaries(store, wrong),
        await _values(store),
    ]


async def _deleted(store: Store) -> list[Finding]:
    """Returns the calls of deleted runs whose outcome nobody knows, the newest ones."""
    hint = Sentence("find out there, by hand: the journal is gone")
    return [
        Finding(
            "warning",
            f"run {each['run']}",
            Sentence(
                "{deleted_by} deleted it while nobody knew whether {callee} "
                "took effect (step {step}, called at {began_at}, inputs "
                "{inputs})",
                **each,
            ),
            hint,
        )
        for each in (await store.tombstones())[-_SHOWN:]
    ]


async def _summaries(store: Store, wrong: Sequence[tuple[int, RunSummary]]) -> Finding:
    """Stores the right summaries instead of wrong ones."""
    if not wrong:
        return Finding("ok", "summaries", Sentence("they agree with the journals"))
    try:
        await store.keep_summaries(wrong)
    except PlansmithError as error:
        return _finding_of("summaries", error)
    what = Sentence(
        "{count} did not agree with the journals, and were made again: {runs}",
        count=len(wrong),
        runs=[summary.run for _, summary in wrong[:_SHOWN]],
    )
    return Finding("warning", "summaries", what)


async def _values(store: Store) -> Finding:
    try:
        unused = await store.unmentioned()
    except PlansmithError as error:
        return _finding_of("values", error)
    summary = Sentence("{count} values are mentioned by no event", count=unused)
    return Finding("ok", "values", summary, Sentence("retention removes them") if unused else "")


async def missing_runs(store: Store) -> list[Finding]:
    """Returns runs that were written and are no longer there."""
    hint = Sentence("restore the store from a backup; nothing of them is left to be repaired")
    return [
        Finding("error", "missing", Sentence("written and gone: {run}", run=each), hint)
        for each in await store.missing()
    ]


def _finding_of(subject: str, error: PlansmithError) -> Finding:
    return Finding("error", subject, error.message, error.hint)


def _diagnose_file(path: Path) -> Iterator[Finding]:
    if not path.is_file():
        none = Sentence("there is no {path}", path=path)
        yield Finding("note", "file", none, Sentence("it is made when first used"))
        return
    size = Sentence("{count} bytes", count=path.stat().st_size)
    yield Finding("ok", "file", Sentence("{path}, {size}", path=str(path), size=size))
    free = shutil.disk_usage(path.parent).free
    room = Sentence("{size} MB are free", size=f"{free / 1e6:,.0f}")
    yield Finding("warning" if free < _LITTLE_ROOM else "ok", "disk", room)
    try:
        # Not read-only: SQLite could not look at the log of a crashed writer then.
        connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=rw", uri=True, timeout=0)
    except sqlite3.Error as error:
        yield _finding_of("file", store_error(error, path))
        return
    checks: Sequence[Callable[[sqlite3.Connection, Path], Finding]]
    checks = (_schema, _lock, _integrity)
    try:
        for check in checks:
            try:
                yield check(connection, path)
            except sqlite3.Error as error:
                yield _finding_of(check.__name__.strip("_"), store_error(error, path))
    finally:
        connection.close()


def _schema(connection: sqlite3.Connection, path: Path) -> Finding:
    if not is_ours(connection):
        other = Sentence("{path} is not a store of Plansmith", path=path)
        return Finding("error", "schema", other, Sentence("give the store a file of its own"))
    version = setting(connection, "user_version")
    if version != VERSION:
        other = Sentence(
            "version {version}, and this Plansmith knows {known}", version=version, known=VERSION
        )
        hint = Sentence("use the Plansmith that wrote it, or name another store with --store")
        return Finding("error", "schema", other, hint)
    return Finding("ok", "schema", Sentence("version {version}", version=version))


def _lock(connection: sqlite3.Connection, path: Path) -> Finding:
    try:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("ROLLBACK")
    except sqlite3.Error as error:
        if not is_locked(error):
            raise
        owners = [*map(str, _lock_owners(path))] or Sentence("unknown")
        held = Sentence("another process is writing: {owners}", owners=owners)
        return Finding("warning", "lock", held, Sentence("if it hangs, end it"))
    return Finding("ok", "lock", Sentence("free"))


def _lock_owners(path: Path) -> list[int]:
    """Returns the processes that hold a write lock on the database, where Linux tells."""
    files = [path, path.with_name(f"{path.name}-shm")]
    inodes = {str(file.stat().st_ino) for file in files if file.exists()}
    table = Path("/proc/locks")
    owners: set[int] = set()
    for line in table.read_text().splitlines() if table.exists() else ():
        fields = [field for field in line.split() if field != "->"]
        if len(fields) > 5 and fields[3] == "WRITE" and fields[5].rpartition(":")[2] in inodes:
            owners.add(int(fields[4]))
    return sorted(owners)


def _integrity(connection: sqlite3.Connection, path: Path) -> Finding:
    rows = [str(row[0]) for row in connection.execute("PRAGMA integrity_check(5)")]
    if rows != ["ok"]:
        hint = Sentence("restore {path} from a backup", path=path)
        return Finding("error", "integrity", "; ".join(rows), hint)
    return Finding("ok", "integrity", Sentence("every page is well-formed"))
