"""Finds what is wrong with a store, and verifies that a run was not altered."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, Protocol

from plansmith.adapters.clock import SystemClock
from plansmith.adapters.stores.database import is_locked, named
from plansmith.adapters.stores.migrations import (
    APPLICATION_ID,
    VERSION,
    refuse_newer,
    schema_version,
)
from plansmith.adapters.stores.pg_connection import Connection
from plansmith.adapters.stores.thread_rows import grown
from plansmith.adapters.stores.urls import is_postgres, open_store, sqlite_path
from plansmith.engine.journal import Journal
from plansmith.errors import JournalDamaged, PlansmithError
from plansmith.plan.events import ReportMade, StepDone, StepReused, verify_chain
from plansmith.plan.summary import Headline, RunSummary
from plansmith.plan.thread import fold_thread
from plansmith.ports import PlanStore, SummaryStore
from plansmith.runs.journals import Journals
from plansmith.threads.store import ThreadHeadline, ThreadStore

_LITTLE_ROOM: Final = 100_000_000
_LONG_LOG: Final = 64_000_000
_SHOWN: Final = 20
_THREADS_AT_ONCE: Final = 500


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check."""

    level: Literal["ok", "note", "warning", "error"]
    subject: str
    message: str
    hint: str = ""


class _Examined(PlanStore, SummaryStore, ThreadStore, Protocol):
    """A store that can also count values that no event mentions."""

    async def unmentioned(self) -> int: ...
    async def missing(self) -> Sequence[str]: ...
    async def keep_headline(self, headline: ThreadHeadline) -> None: ...


async def diagnose(url: str, *, sample: int | None = None) -> list[Finding]:
    """Checks a store; `sample` limits how many of the newest runs are verified."""
    if is_postgres(url):
        findings = await _diagnose_server(url)
    elif url.startswith("memory"):
        return [Finding("ok", "store", "in memory: there is nothing to check")]
    else:
        findings = await asyncio.to_thread(lambda: list(_diagnose_file(sqlite_path(url))))
    if all(found.level not in ("error", "note") for found in findings):
        store = open_store(url)
        try:
            findings += await _diagnose_runs(store, sample)
        finally:
            await store.close()
    return findings


async def verify(store: PlanStore, run: str) -> int:
    """Verifies a run's hash chain, its fold and all results; returns its number of events."""
    return len((await _verified(store, run)).events)


async def _verified(store: PlanStore, run: str) -> Journal:
    # If it is damaged, lists tell of that from now on.
    journal = await Journals(store=store, clock=SystemClock()).load(run)
    journal.need_sound()
    events = journal.events
    verify_chain(events)
    for event in events:
        if isinstance(event.body, StepDone | StepReused | ReportMade) and event.body.result:
            try:
                await store.get(event.body.result)
            except JournalDamaged as lost:
                raise JournalDamaged(lost.message, hint=_without(journal)) from None
    return journal


def _without(journal: Journal) -> str:
    if journal.run.status.over:
        return "restore the store from a backup; the run itself is over"
    return f"`plansmith repair {journal.id}` continues without it"


async def _diagnose_runs(store: Any, sample: int | None) -> list[Finding]:
    examined: _Examined = store
    try:
        missing = await missing_runs(examined)
        count = len(await examined.runs())
        some = await examined.headlines(limit=count if sample is None else sample)
    except PlansmithError as error:
        return [_error("journals", error)]
    damaged: list[Finding] = []
    wrong: list[tuple[int, RunSummary]] = []
    for each in reversed(some):
        try:
            found = await (await _verified(examined, each.run)).summary()
        except PlansmithError as error:
            damaged.append(_error(f"run {each.run}", error))
        else:
            wrong += [] if _agrees(each, found) else [(each.last, found)]
    summary = f"{len(some)} of {count} runs verified, {len(damaged)} damaged"
    level: Literal["ok", "warning"] = "warning" if damaged else "ok"
    journals = Finding(level, "journals", summary)
    summaries = await _summaries(examined, wrong)
    about = [journals, summaries, await _values(examined), *await _threads(examined)]
    return [*missing, *damaged[:_SHOWN], *about]


def _agrees(stored: Headline, found: RunSummary) -> bool:
    """Tells whether the status and the summary are those of the journal, or not told at all."""
    if found.number != stored.last:
        return True  # it went on meanwhile
    return stored.status in ("", found.status) and stored.summary in (None, found)


async def _summaries(store: _Examined, wrong: Sequence[tuple[int, RunSummary]]) -> Finding:
    """Stores the right summaries instead of wrong ones."""
    if not wrong:
        return Finding("ok", "summaries", "they say what the journals say")
    try:
        await store.keep_summaries(wrong)
    except PlansmithError as error:
        return _error("summaries", error)
    runs = ", ".join(summary.run for _, summary in wrong[:_SHOWN])
    what = f"{len(wrong)} did not say what the journals say, and were made again: {runs}"
    return Finding("warning", "summaries", what)


async def missing_runs(store: Any) -> list[Finding]:
    """Returns runs that were written and are no longer there."""
    hint = "restore the store from a backup; nothing of them is left to be repaired"
    found = await store.missing() if hasattr(store, "missing") else ()
    return [Finding("error", "missing", f"written and gone: {each}", hint) for each in found]


async def _values(store: _Examined) -> Finding:
    try:
        unused = await store.unmentioned()
    except PlansmithError as error:
        return _error("values", error)
    summary = f"{unused} values are mentioned by no event"
    return Finding("ok", "values", summary, "retention removes them" if unused else "")


async def _threads(store: _Examined) -> list[Finding]:
    """Reads all threads, and stores the right headlines instead of wrong ones."""
    count, before = 0, ""
    findings: list[Finding] = []
    try:
        while page := await store.threads(before=before, limit=_THREADS_AT_ONCE):
            for each in page:
                findings += await _thread(store, each)
            count, before = count + len(page), page[-1].thread
    except PlansmithError as error:
        return [_error("threads", error)]
    damaged = [found for found in findings if found.level == "error"]
    level: Literal["ok", "warning"] = "warning" if findings else "ok"
    summary = f"{count} threads read, {len(damaged)} damaged"
    return [*findings[:_SHOWN], Finding(level, "threads", summary)] if count else []


async def _thread(store: _Examined, listed: ThreadHeadline) -> list[Finding]:
    subject = f"thread {listed.thread}"
    try:
        entries = await store.thread_entries(listed.thread)
        fold_thread(listed.thread, entries)
    except JournalDamaged as damage:
        hint = "restore the store from a backup; its runs are not affected"
        return [Finding("error", subject, damage.message, hint)]
    if not entries or entries[-1].number != listed.last:
        return []  # it went on meanwhile
    found = grown(None, entries)
    if found == listed:
        return []
    await store.keep_headline(found)
    what = "its line in lists did not say what its entries say, and was made again"
    return [Finding("warning", subject, what)]


def _error(subject: str, error: PlansmithError) -> Finding:
    return Finding("error", subject, error.message, error.hint)


def _diagnose_file(path: Path) -> Iterator[Finding]:
    if not path.is_file():
        yield Finding("note", "file", f"there is no {path}", "it is made when first used")
        return
    yield Finding("ok", "file", f"{path}, {path.stat().st_size:,} bytes")
    yield _free_space(path)
    try:
        # Not read-only: SQLite could not look at the log of a crashed writer then.
        connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=rw", uri=True, timeout=0)
    except sqlite3.Error as error:
        yield _error("file", named(error, path))
        return
    checks: Sequence[Callable[[sqlite3.Connection, Path], Finding]] = (
        *(_schema, _log, _lock, _integrity),
    )
    try:
        for check in checks:
            try:
                yield check(connection, path)
            except sqlite3.Error as error:
                yield _error(check.__name__.strip("_"), named(error, path))
    finally:
        connection.close()


def _free_space(path: Path) -> Finding:
    free = shutil.disk_usage(path.parent).free
    level: Literal["ok", "warning"] = "warning" if free < _LITTLE_ROOM else "ok"
    return Finding(level, "disk", f"{free / 1e6:,.0f} MB are free")


def _schema(connection: sqlite3.Connection, path: Path) -> Finding:
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    ours = connection.execute("PRAGMA application_id").fetchone()[0] == APPLICATION_ID
    if not ours:
        hint = "give the store a file of its own"
        return Finding("error", "schema", f"{path} is not a store of Plansmith", hint)
    if version > VERSION:
        summary = f"version {version}, and this Plansmith knows {VERSION}"
        return Finding("error", "schema", summary, "use the newer Plansmith that wrote it")
    if version < VERSION:
        return Finding("note", "schema", f"version {version}", "it is migrated when next used")
    return Finding("ok", "schema", f"version {version}")


def _log(connection: sqlite3.Connection, path: Path) -> Finding:
    mode = str(connection.execute("PRAGMA journal_mode").fetchone()[0])
    log = path.with_name(f"{path.name}-wal")
    size = log.stat().st_size if log.is_file() else 0
    if size > _LONG_LOG:
        hint = "a reader may hold it open; it shrinks when all processes have closed the store"
        return Finding("warning", "log", f"the write-ahead log has {size:,} bytes", hint)
    return Finding("ok", "log", f"mode {mode}, write-ahead log of {size:,} bytes")


def _lock(connection: sqlite3.Connection, path: Path) -> Finding:
    try:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("ROLLBACK")
    except sqlite3.Error as error:
        if not is_locked(error):
            raise
        owners = ", ".join(map(str, lock_owners(path))) or "unknown"
        return Finding(
            "warning", "lock", f"another process is writing: {owners}", "if it hangs, end it"
        )
    return Finding("ok", "lock", "free")


def _integrity(connection: sqlite3.Connection, path: Path) -> Finding:
    rows = [str(row[0]) for row in connection.execute("PRAGMA integrity_check(5)")]
    if rows != ["ok"]:
        hint = f"restore {path} from a backup"
        return Finding("error", "integrity", "; ".join(rows), hint)
    return Finding("ok", "integrity", "every page is well-formed")


def lock_owners(path: Path) -> list[int]:
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


async def _diagnose_server(url: str) -> list[Finding]:
    connection = Connection(url, patience_s=0, migrating=False)
    look: Callable[[Any, bool], Awaitable[list[Finding]]] = _look_at_server
    try:
        return await connection.use(look)
    except PlansmithError as error:
        return [_error("server", error)]
    finally:
        await connection.close()


async def _look_at_server(connection: Any, _: bool) -> list[Finding]:  # noqa: FBT001 - as `use` calls it
    schema = await schema_version(connection)
    if schema < VERSION:
        return [Finding("note", "schema", f"version {schema}", "it is migrated when next used")]
    refuse_newer("the schema plansmith", schema)
    version, size = await (await connection.execute(_SERVER)).fetchone()
    owners = [str(row[0]) for row in await (await connection.execute(_OWNERS)).fetchall()]
    held = f"another session blocks writers: {', '.join(owners)}"
    return [
        Finding("ok", "server", f"PostgreSQL {version}, {size:,} bytes in the schema plansmith"),
        Finding("warning", "lock", held, "if it hangs, end it with pg_terminate_backend")
        if owners
        else Finding("ok", "lock", "free"),
    ]


_SERVER: Final = """
    SELECT current_setting('server_version'), coalesce(sum(pg_total_relation_size(oid)), 0)::bigint
    FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r'
"""
_OWNERS: Final = """
    SELECT DISTINCT pid FROM pg_locks JOIN pg_class ON pg_class.oid = relation
    WHERE relnamespace = current_schema()::regnamespace AND granted AND mode IN
        ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
"""
