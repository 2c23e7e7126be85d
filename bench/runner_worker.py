"""One measurement of one engine in a process of its own; started by `scripts/bench runner`."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Final, NamedTuple

from bench import runner_dags as dags
from bench.runner_dags import TOOL, Dag
from bench.runner_engines import ENGINES, WIDE, Engine

Samples = dict[str, list[float]]
UNEVEN: Final = 200


class Extent(NamedTuple):
    """How much is measured, which part of it, and how large what is stored has become."""

    quick: bool
    round: int
    rounds: int
    size: Callable[[], Awaitable[int]]


async def chain(engine: Engine, extent: Extent) -> Samples:
    """Milliseconds a step, of a chain of 100 that do nothing."""
    await _timed(engine, dags.chain(100, "warm"))
    made = [dags.chain(100, f"c{place}") for place in range(2 if extent.quick else 4)]
    return {"chain": [await _timed(engine, dag) * 10 for dag in made]}


async def fan(engine: Engine, extent: Extent) -> Samples:
    """Makespan / ideal of 100 steps of 100 ms."""
    await _timed(engine, dags.chain(3, "warm"))
    made = [dags.fan(f"f{place}", 100, 0.1) for place in range(1 if extent.quick else 2)]
    return {"fan": [await _timed(engine, dag) / 0.1 for dag in made]}


async def uneven(engine: Engine, extent: Extent) -> Samples:
    """Makespan / critical path, width unlimited; every round takes its share of the seeds."""
    await _timed(engine, dags.chain(3, "warm"))
    seeds = range(extent.round, 12 if extent.quick else UNEVEN, extent.rounds)
    made = [dags.uneven(seed) for seed in seeds]
    return {"uneven": [await _timed(engine, dag) / dag.critical_path() for dag in made]}


async def narrow(engine: Engine, extent: Extent) -> Samples:
    """Makespan / lower bound, four at a time."""
    await _timed(engine, dags.chain(3, "warm"))
    seeds = range(extent.round, 6 if extent.quick else 50, extent.rounds)
    made = [dags.uneven(seed) for seed in seeds]
    return {"narrow": [await _timed(engine, dag) / dag.bound(4) for dag in made]}


async def plans(engine: Engine, extent: Extent) -> Samples:
    """Plans of 10 steps a second, at 1, 10 and 100 at a time."""
    await _timed(engine, dags.chain(10, "warm"))
    samples: Samples = {}
    for width in (1, 10, 100):
        count = 20 if width == 1 or extent.quick else 100
        jobs = [engine.prepare(dags.chain(10, f"w{width}p{place}")) for place in range(count)]
        start = time.perf_counter()
        for place in range(0, count, width):
            await asyncio.gather(*(_whole(engine, job) for job in jobs[place : place + width]))
        samples[f"plans{width}"] = [count / (time.perf_counter() - start)]
    return samples


async def storage(engine: Engine, extent: Extent) -> Samples:
    """Kilobytes of 100 plans of 10 steps, of the next 300, and of the payload in 100."""
    await _timed(engine, dags.chain(10, "warm"))
    first, more = (20, 40) if extent.quick else (100, 200)
    made = [dags.chain(10, f"p{place:04}") for place in range(first + more)]
    sizes = [await extent.size()]
    for some in (made[:first], made[first:]):
        for place in range(0, len(some), 20):
            jobs = [engine.prepare(dag) for dag in some[place : place + 20]]
            await asyncio.gather(*(_whole(engine, job) for job in jobs))
        sizes.append(await extent.size())
    return {
        "storage": [(sizes[1] - sizes[0]) / (10 * first)],
        "storage later": [(sizes[2] - sizes[1]) / (10 * more)],
        "payload": [made[0].payload() / 10],
    }


async def parked(engine: Engine, extent: Extent) -> Samples:
    """1,000 runs that wait for a person: to park them, to keep them, to wake some."""
    await engine.wake(await engine.park(1_000_000))
    threads = threading.active_count()
    count = 100 if extent.quick else 1000
    start = time.perf_counter()
    waiting = await asyncio.gather(*(engine.park(number) for number in range(count)))
    spent = time.perf_counter() - start
    more = threading.active_count() - threads
    await asyncio.sleep(1)
    before = time.process_time()
    await asyncio.sleep(2)
    idle = (time.process_time() - before) / 2 * 100
    wakes = [await _until_first(partial(engine.wake, one)) for one in waiting[::20]]
    return {"park": [spent], "threads": [more], "idle": [idle], "wake": wakes}


async def _whole(engine: Engine, job: Any) -> None:
    await engine.run(await engine.submit(job))


async def _timed(engine: Engine, dag: Dag) -> float:
    job = await engine.submit(engine.prepare(dag))
    start = time.perf_counter()
    await engine.run(job)
    return time.perf_counter() - start


async def _until_first(do: Callable[[], Awaitable[None]]) -> float:
    """Milliseconds from a call to the first step that starts in it."""
    seen: list[float] = []
    TOOL.hook = lambda _: seen.append(time.perf_counter())
    start = time.perf_counter()
    await do()
    TOOL.hook = lambda _: None
    return (seen[0] - start) * 1000


def doomed(name: str) -> list[Dag]:
    """What runs when its process is killed: `fan` and a seed, `lanes`, `open` or `cold`."""
    if name == "open":
        return [dags.endless(f"o{number}") for number in range(1000)]
    if name == "lanes":
        return [dags.lanes(10, 100)]
    return [dags.chain(1) if name == "cold" else dags.uneven_fan(int(name.removeprefix("fan")))]


async def die(make: Callable[[], Engine], name: str) -> Samples:
    """Run until someone kills this process."""
    engine = make()
    await engine.start()
    await asyncio.gather(*(_whole(engine, engine.prepare(dag)) for dag in doomed(name)))
    return {}


async def recover(make: Callable[[], Engine], name: str) -> Samples:
    """Go on after that: milliseconds from opening the store to the first step."""
    engine = make()

    async def go_on() -> None:
        await engine.start()
        await engine.recover(doomed(name)[0])

    return {"resume": [await _until_first(go_on)]}


async def sqlite_size(where: str) -> int:
    """The size of a SQLite file with its log written back."""
    connection = sqlite3.connect(where)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    return sum(each.stat().st_size for each in Path(where).parent.glob(Path(where).name + "*"))


async def postgres_size(where: str) -> int:
    """The size of a database."""
    psycopg = import_module("psycopg")
    connection = await psycopg.AsyncConnection.connect(where, autocommit=True)
    found = await connection.execute("SELECT pg_database_size(current_database())")
    (size,) = await found.fetchone()
    await connection.close()
    return int(size)


async def no_size(where: str) -> int:
    """Nothing is kept."""
    del where
    return 0


SCENARIOS: Final[Mapping[str, Callable[[Engine, Extent], Awaitable[Samples]]]] = {
    "chain": chain,
    "fan": fan,
    "uneven": uneven,
    "narrow": narrow,
    "plans": plans,
    "storage": storage,
    "parked": parked,
}


async def measure(name: str, scenario: str, where: str, *, quick: bool, turn: str) -> Samples:
    """One engine, one scenario."""

    def make() -> Engine:
        return ENGINES[name](where, 4 if scenario == "narrow" else WIDE)

    kind, _, rest = scenario.partition(":")
    if kind in ("die", "recover"):
        return await (die if kind == "die" else recover)(make, rest)
    sized = sqlite_size if "SQLite" in name else postgres_size
    size = no_size if "memory" in name else sized
    part, parts = map(int, turn.split("/"))
    engine = make()
    await engine.start()
    try:
        extent = Extent(quick, part, parts, lambda: size(where))
        return await SCENARIOS[scenario](engine, extent)
    finally:
        await engine.stop()


def main() -> None:
    """Print the samples as JSON in the last line."""
    name, scenario, where, speed, turn = sys.argv[1:6]
    samples = asyncio.run(measure(name, scenario, where, quick=speed == "quick", turn=turn))
    print(json.dumps(samples), flush=True)
    # Peers leave threads behind that would hold the process.
    os._exit(0)


if __name__ == "__main__":
    main()
