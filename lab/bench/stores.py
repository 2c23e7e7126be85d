"""How fast and how small the stores keep journals, beside a hand-written floor on the same disk."""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import itertools
import json
import queue
import random
import sqlite3
import statistics
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.postgres import NoServerError, Server, private_server

from plansmith.plan.data import Json, canonical_hash
from plansmith.plan.events import Actor, AnyBody, Event, RunCreated, StepDone, StepStarted
from plansmith.plan.events import next_event as follow
from plansmith.store.memory import MemoryStore
from plansmith.store.sqlite import SqliteStore
from plansmith.store.sqlite_file import Synchronous
from plansmith_postgres.store import PostgresStore

RESULT = Path(__file__).parent / "results" / "stores.md"
STEPS, RUNS, LISTED, LONG = 100, 100, 1_000, 1_000
ROUNDS = 9
_names = itertools.count(1)


class Floor:
    """The least that is durable: one thread, one table, JSON as it is, one commit for all."""

    def __init__(self, path: Path, synchronous: Synchronous) -> None:
        self._path, self._synchronous = path, synchronous
        self._queue: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work)
        self._thread.start()

    async def append(self, events: Sequence[Event], values: Sequence[Json] = ()) -> None:
        del values
        rows = [(event.run, event.number, json.dumps(event.to_json())) for event in events]
        future = asyncio.get_running_loop().create_future()
        self._queue.put((rows, future))
        await future

    async def close(self) -> None:
        self._queue.put(None)
        self._thread.join()

    def _work(self) -> None:
        file = sqlite3.connect(self._path, isolation_level=None)
        file.execute("PRAGMA journal_mode = WAL")
        file.execute(f"PRAGMA synchronous = {self._synchronous}")
        file.execute("CREATE TABLE event (run, number, data, PRIMARY KEY (run, number))")
        while (first := self._queue.get()) is not None:
            batch = [first]
            while not self._queue.empty():
                batch.append(self._queue.get())
            file.execute("BEGIN IMMEDIATE")
            for rows, _ in batch:
                file.executemany("INSERT INTO event VALUES (?, ?, ?)", rows)
            file.execute("COMMIT")
            batch[0][1].get_loop().call_soon_threadsafe(_settle, [each[1] for each in batch])
        file.close()


def _settle(futures: Sequence[asyncio.Future[None]]) -> None:
    for future in futures:
        future.set_result(None)


Store = MemoryStore | SqliteStore | PostgresStore | Floor
Size = Callable[[], int]


@dataclass
class Contender:
    """A kind of store, how to make one, and what was measured of it."""

    name: str
    make: Callable[[Path], tuple[Store, Size]]
    chain: list[float] = field(default_factory=list[float])
    many: list[float] = field(default_factory=list[float])
    figures: dict[str, float] = field(default_factory=dict[str, float])


def journal(run: str, steps: int, *, inputs: bool = False) -> list[Event]:
    """A run of so many steps, two events each."""
    events: list[Event] = []

    def add(body: AnyBody) -> None:
        last = events[-1] if events else None
        at = datetime.now(UTC)
        events.append(follow(body, run=run, by=Actor(kind="system"), at=at, last=last))

    add(RunCreated(request="measure"))
    for number in range(steps):
        step, result = f"step-{number}", {"run": run, "n": number}
        digest = canonical_hash([run, number]) if inputs else ""
        add(StepStarted(step=step, inputs=digest))
        add(StepDone(step=step, result=canonical_hash(result)))
    return events


async def chain(store: Store) -> float:
    """Milliseconds an append, one after the other."""
    events = journal(f"chain-{next(_names)}", STEPS)
    await store.append(events[:1])
    start = time.perf_counter()
    for event in events[1:]:
        await store.append([event])
    return (time.perf_counter() - start) / (len(events) - 1) * 1000


async def many(store: Store) -> float:
    """Appends a second of many runs at once."""
    runs = [journal(f"many-{next(_names)}", 10) for _ in range(RUNS)]

    async def go(events: list[Event]) -> None:
        for event in events:
            await store.append([event])

    start = time.perf_counter()
    await asyncio.gather(*map(go, runs))
    return sum(map(len, runs)) / (time.perf_counter() - start)


async def growth(store: Store, size: Size, *, inputs: bool) -> float:
    """Bytes a step beyond its payload, by the slope between 1,000 and 3,000 steps."""
    events = journal("growth", 3 * LONG, inputs=inputs)
    sizes: list[int] = []
    for start in range(1, len(events), 2):
        pair = events[start : start + 2]
        number = start // 2
        await store.append(
            pair if start > 1 else [events[0], *pair], [{"run": "growth", "n": number}]
        )
        if number + 1 in (LONG, 3 * LONG):
            sizes.append(size())
    payload = statistics.mean(len(json.dumps({"run": "growth", "n": n})) - 3 for n in range(2000))
    return (sizes[1] - sizes[0]) / (2 * LONG) - payload


async def milliseconds(work: Callable[[], Awaitable[object]]) -> float:
    """The median of five goes."""
    times: list[float] = []
    for _ in range(5):
        start = time.perf_counter()
        await work()
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1000


async def figures(store: Store, size: Size, other: tuple[Store, Size]) -> dict[str, float]:
    """What needs to be measured once only."""
    found = {"kB": await growth(store, size, inputs=False)}
    found["kB with inputs"] = await growth(*other, inputs=True)
    if isinstance(store, SqliteStore | PostgresStore):
        await asyncio.gather(*(store.append(journal(f"run-{n}", 2)) for n in range(LISTED)))
        found["list"] = await milliseconds(store.runs)
    if not isinstance(store, Floor):
        await store.append(journal("read", LONG))
        found["read"] = await milliseconds(lambda: store.events("read"))
    return found


def contenders(server: Server | None) -> list[Contender]:
    """All there are here; PostgreSQL where it can be had."""

    def floor(synchronous: Synchronous) -> Callable[[Path], tuple[Store, Size]]:
        return lambda path: (Floor(path, synchronous), lambda: _file_size(path))

    def sqlite(synchronous: Synchronous) -> Callable[[Path], tuple[Store, Size]]:
        return lambda path: (
            SqliteStore(path, synchronous=synchronous),
            lambda: _file_size(path),
        )

    found = [
        Contender("memory", lambda _: (MemoryStore(), lambda: 0)),
        Contender("floor, FULL", floor("full")),
        Contender("SqliteStore, FULL", sqlite("full")),
        Contender("floor, NORMAL", floor("normal")),
        Contender("SqliteStore, NORMAL", sqlite("normal")),
    ]
    if server is not None:
        found.append(Contender("PostgresStore", lambda _: _on(server)))
    return found


def _on(server: Server) -> tuple[Store, Size]:
    name = f"bench_{next(_names)}"
    dsn = server.new_database(name)
    query = "SELECT sum(pg_total_relation_size(oid)) FROM pg_class WHERE relkind = 'r' AND "
    where = "relnamespace = 'plansmith'::regnamespace"
    return PostgresStore(dsn), lambda: int(server.sql(query + where, database=name))


def _file_size(path: Path) -> int:
    # The log is emptied first: what counts is what stays.
    file = sqlite3.connect(path)
    file.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    file.close()
    return path.stat().st_size


async def measure(all_of_them: Sequence[Contender], folder: Path) -> None:
    """Everything, the timed rounds in turns so that a slow moment of the disk meets all."""
    async with AsyncExitStack() as open_stores:
        stores: list[tuple[Contender, Store]] = []
        for each in all_of_them:
            store, _ = await open_stores.enter_async_context(_opened(each, folder))
            await many(store)
            stores.append((each, store))
        dice = random.Random(0)
        for _ in range(ROUNDS):
            for each, store in dice.sample(stores, len(stores)):
                each.chain.append(await chain(store))
                each.many.append(await many(store))
        for each in all_of_them:
            first = await open_stores.enter_async_context(_opened(each, folder))
            second = await open_stores.enter_async_context(_opened(each, folder))
            each.figures = await figures(*first, second)


@asynccontextmanager
async def _opened(contender: Contender, folder: Path) -> AsyncIterator[tuple[Store, Size]]:
    store, size = contender.make(folder / f"{next(_names)}.db")
    try:
        yield store, size
    finally:
        await store.close()


HEAD = f"""\
# Stores

Made by `scripts/bench stores --write`. Chain: {STEPS} steps, two appends a step, each awaited;
{RUNS} runs: 10 steps each, all at once. Medians of {ROUNDS} rounds in turns over all stores on one
disk (quartiles in brackets). Storage: bytes a step beyond its payload, by the slope from 1,000 to
3,000 steps, results stored with their events; the second figure with a hash of the inputs in every
StepStarted. List: `heads()` of {LISTED:,} runs; read: a run of {LONG:,} steps, every hash checked.
The floor is one thread, one table and JSON, and keeps no values, no chain and no schema.

| | chain, ms an append | {RUNS} runs, appends a second | kB per 1,000 steps | list, ms | read, ms |
|---|--:|--:|--:|--:|--:|
"""


def table(all_of_them: Sequence[Contender]) -> str:
    """The measurements as a Markdown table."""
    lines: list[str] = []
    for each in all_of_them:
        found = each.figures
        sizes = f"{found['kB']:,.0f} / {found['kB with inputs']:,.0f}"
        cells = [
            _spread(each.chain, "{:.3f}"),
            _spread(each.many, "{:,.0f}"),
            sizes if found["kB"] > 0 else "",
            *(f"{found[name]:,.1f}" if name in found else "" for name in ("list", "read")),
        ]
        lines.append(f"| {each.name} | {' | '.join(cells)} |")
    by_name = {each.name: each for each in all_of_them}
    words = [_ratio(by_name, mode) for mode in ("FULL", "NORMAL")]
    return HEAD + "\n".join(lines) + "\n\n" + "\n".join(words) + "\n"


def _spread(numbers: Sequence[float], form: str) -> str:
    low, middle, high = statistics.quantiles(numbers, n=4)
    return f"{form.format(middle)} ({form.format(low)}-{form.format(high)})"


def _ratio(by_name: dict[str, Contender], mode: str) -> str:
    ours, floor = by_name[f"SqliteStore, {mode}"], by_name[f"floor, {mode}"]
    chains = statistics.median(a / b for a, b in zip(ours.chain, floor.chain, strict=True))
    runs = statistics.median(a / b for a, b in zip(ours.many, floor.many, strict=True))
    return (
        f"SqliteStore to the floor, {mode}, median of the rounds' ratios: an append of the chain "
        f"takes {chains:.2f} x as long; {RUNS} runs make {runs:.2f} x as many a second."
    )


def main() -> None:
    """Print the table, or write it to the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help=f"also write {RESULT.name}")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if importlib.util.find_spec("psycopg") is None:
            found = contenders(None)
            asyncio.run(measure(found, Path(folder)))
        else:
            try:
                with private_server(fsync=True) as server:
                    found = contenders(server)
                    asyncio.run(measure(found, Path(folder)))
            except NoServerError as error:
                raise SystemExit(f"no PostgreSQL: {error}") from error
    text = table(found)
    print(text)
    if args.write:
        RESULT.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
