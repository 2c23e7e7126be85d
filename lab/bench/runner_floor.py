"""The floor of the runner bench: the least code that runs a plan with a journal.

No checks, no hashes, no approval rules, no retries: what is left is the limit to come near to.
"""

from __future__ import annotations

import asyncio
import json
import queue
import sqlite3
import threading
from collections.abc import Sequence
from importlib import import_module
from typing import Any, Protocol

from lab.bench.runner_dags import TOOL, Dag, Step

Rows = list[tuple[str, int, bytes]]


class Ledger(Protocol):
    """Where the floor's events go; durable on return."""

    async def start(self) -> None: ...
    async def append(self, rows: Rows) -> None: ...
    async def read(self) -> Rows: ...
    async def stop(self) -> None: ...


class MemoryLedger:
    """Nothing is durable."""

    def __init__(self) -> None:
        self._rows: Rows = []

    async def start(self) -> None: ...

    async def append(self, rows: Rows) -> None:
        self._rows += rows

    async def read(self) -> Rows:
        return self._rows

    async def stop(self) -> None: ...


class SqliteLedger:
    """WAL; one thread writes all that was asked for since its last commit."""

    def __init__(self, path: str, synchronous: str) -> None:
        self._path = path
        self._synchronous = synchronous
        self._queue: queue.SimpleQueue[tuple[Rows, asyncio.Future[None]] | None] = (
            queue.SimpleQueue()
        )
        self._thread = threading.Thread(target=self._work, daemon=True)

    async def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread.start()

    async def append(self, rows: Rows) -> None:
        future: asyncio.Future[None] = self._loop.create_future()
        self._queue.put((rows, future))
        await future

    async def read(self) -> Rows:
        connection = self._open()
        rows = connection.execute("SELECT run, number, data FROM event").fetchall()
        connection.close()
        return rows

    async def stop(self) -> None:
        self._queue.put(None)
        self._thread.join()

    def _open(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, isolation_level=None)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA synchronous = {self._synchronous}")
        connection.execute(
            "CREATE TABLE IF NOT EXISTS event (run TEXT, number INTEGER, data BLOB,"
            " PRIMARY KEY (run, number)) WITHOUT ROWID"
        )
        return connection

    def _work(self) -> None:
        connection = self._open()
        while (item := self._queue.get()) is not None:
            batch = [item]
            while not self._queue.empty() and (more := self._queue.get()) is not None:
                batch.append(more)
            connection.execute("BEGIN")
            rows = [row for part, _ in batch for row in part]
            connection.executemany("INSERT INTO event VALUES (?, ?, ?)", rows)
            connection.execute("COMMIT")
            self._loop.call_soon_threadsafe(_settle, [future for _, future in batch])
        connection.close()


class PostgresLedger:
    """One connection, one statement and one commit for all that was asked for meanwhile."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._waiting: list[tuple[Rows, asyncio.Future[None]]] = []
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        psycopg = import_module("psycopg")
        self._connection: Any = await psycopg.AsyncConnection.connect(self._dsn, autocommit=True)
        await self._connection.execute(
            "CREATE TABLE IF NOT EXISTS event (run text, number int, data bytea,"
            " PRIMARY KEY (run, number))"
        )

    async def append(self, rows: Rows) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((rows, future))
        if self._task is None:
            self._task = asyncio.create_task(self._work())
        await future

    async def read(self) -> Rows:
        found = await self._connection.execute("SELECT run, number, data FROM event")
        rows: Rows = await found.fetchall()
        return sorted(rows)

    async def stop(self) -> None:
        await self._connection.close()

    async def _work(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting, []
            rows = [row for part, _ in batch for row in part]
            columns = [list(column) for column in zip(*rows, strict=True)]
            await self._connection.execute(
                "INSERT INTO event SELECT * FROM unnest(%b::text[], %b::int[], %b::bytea[])",
                columns,
                prepare=True,
            )
            _settle([future for _, future in batch])
        self._task = None


class FloorRun:
    """One run: counts needs down, writes the end of a step and the start of the next as one."""

    def __init__(self, run: str, dag: Dag, ledger: Ledger, *, width: int = 1_000) -> None:
        self._run = run
        self._dag = dag
        self._ledger = ledger
        self._width = width
        self._number = 0
        self._events: list[object] = []
        self._missing = {name: len(step.needs) for name, step in dag.steps.items()}
        self._followers: dict[str, list[str]] = {name: [] for name in dag.steps}
        for name, step in dag.steps.items():
            for need in step.needs:
                self._followers[need].append(name)
        self._ready = [name for name, count in self._missing.items() if not count]
        self._done: set[str] = set()
        self._running = 0
        self._ended: asyncio.Queue[tuple[str, str]] = asyncio.Queue()
        self._tasks: set[asyncio.Task[None]] = set()

    async def note(self, event: object) -> None:
        """Write one event of the run itself."""
        self._events.append(event)
        await self._write()

    def know(self, number: int, done: Sequence[str]) -> None:
        """Take in what an earlier process has written."""
        self._number = number
        for name in done:
            self._finish(name)
        self._ready = [name for name in self._ready if name not in self._done]

    async def run(self) -> None:
        while len(self._done) < len(self._dag.steps):
            free = self._width - self._running
            start, self._ready = self._ready[:free], self._ready[free:]
            self._events += [["start", name] for name in start]
            if self._events:
                await self._write()
            for name in start:
                self._running += 1
                task = asyncio.create_task(self._call(name, self._dag.steps[name]))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            ended = [await self._ended.get()]
            while not self._ended.empty():
                ended.append(self._ended.get_nowait())
            for name, value in ended:
                self._running -= 1
                self._events.append(["done", name, value])
                self._finish(name)
        await self.note("finished")

    async def _call(self, name: str, step: Step) -> None:
        self._ended.put_nowait((name, await TOOL.work(f"{self._dag.name}.{name}", step.seconds)))

    def _finish(self, name: str) -> None:
        self._done.add(name)
        for follower in self._followers[name]:
            self._missing[follower] -= 1
            if not self._missing[follower]:
                self._ready.append(follower)

    async def _write(self) -> None:
        events, self._events = self._events, []
        rows = [
            (self._run, self._number + place, json.dumps(event).encode())
            for place, event in enumerate(events, 1)
        ]
        self._number += len(rows)
        await self._ledger.append(rows)


def _settle(futures: Sequence[asyncio.Future[None]]) -> None:
    for future in futures:
        future.set_result(None)
