"""One measurement of one engine in a process of its own; started by `scripts/bench runner`."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import sys
import threading
import time
import traceback
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Final, NamedTuple, TextIO

from lab.bench import runner_dags as dags
from lab.bench.runner_dags import TOOL, Dag
from lab.bench.runner_engines import ENGINES, Engine
from lab.bench.runner_figures import Samples

UNEVEN: Final = 60
UNEVEN_QUICK: Final = 15


class Extent(NamedTuple):
    """How much is measured, which part of it, and how large what is stored has become."""

    quick: bool
    turn: int
    turns: int
    is_first: bool
    size: Callable[[], Awaitable[int]]

    def seeds(self, full: int, quick: int) -> range:
        """Every turn takes its share."""
        return range(self.turn, quick if self.quick else full, self.turns)


async def chain(engine: Engine, extent: Extent) -> Samples:
    """Milliseconds a step, of a chain of 100 that do nothing."""
    made = [dags.chain(100, f"c{extent.turn}_{place}") for place in range(2)]
    return {"chain": [await _timed(engine, dag) * 10 for dag in made]}


async def fan(engine: Engine, extent: Extent) -> Samples:
    """Makespan / ideal of 100 steps of 100 ms."""
    return {"fan": [await _timed(engine, dags.fan(f"f{extent.turn}", 100, 0.1)) / 0.1]}


async def uneven(engine: Engine, extent: Extent) -> Samples:
    """Makespan / critical path, width unlimited."""
    made = [dags.uneven(seed) for seed in extent.seeds(UNEVEN, UNEVEN_QUICK)]
    return {"uneven": [await _timed(engine, dag) / dag.critical_path() for dag in made]}


async def narrow(engine: Engine, extent: Extent) -> Samples:
    """Makespan / lower bound, four at a time."""
    made = [dags.uneven(seed) for seed in extent.seeds(24, 6)]
    return {"narrow": [await _timed(engine, dag) / dag.bound(4) for dag in made]}


async def plans(engine: Engine, extent: Extent) -> Samples:
    """Different plans of 10 steps a second, at 1, 10 and 100 at a time, and kB of the last."""
    samples: Samples = {}
    for width, count in ((1, 10),) if extent.quick else ((1, 20), (10, 100)):
        samples[f"plans{width}"] = [
            await _rate(engine, _plans(engine, extent, f"w{width}", count), width)
        ]
    before, jobs = await extent.size(), _plans(engine, extent, "p", 100)
    spent = time.process_time()
    samples["plans100"] = [await _rate(engine, jobs, 100)]
    samples["cpu"] = [(time.process_time() - spent) * 10]
    stored = (await extent.size() - before) / 1000
    if before:
        samples["storage" if extent.is_first else "storage later"] = [stored]
    return samples


async def same(engine: Engine, extent: Extent) -> Samples:
    """One plan of 10 steps, run 100 times at once: what templates and schedules do."""
    job = engine.prepare(dags.chain(10, f"r{extent.turn}"))
    return {"same": [await _rate(engine, [job] * 100, 100)]}


async def plain(engine: Engine, extent: Extent) -> Samples:
    """100 plans whose steps are functions without `async`, as in the README."""
    made = [dags.chain(10, f"d{extent.turn}{place:03}", plain=True) for place in range(100)]
    return {"plain": [await _rate(engine, [engine.prepare(dag) for dag in made], 100)]}


async def parked(engine: Engine, extent: Extent) -> Samples:
    """1,000 runs that wait for a person: to park them, to keep them, to wake some."""
    watched_s = 1 if extent.quick else 2
    await engine.wake(await engine.park(1_000_000))
    threads = threading.active_count()
    times: list[float] = []
    waiting: list[Any] = []
    while len(times) < 3 and sum(times) < 3:
        start = time.perf_counter()
        numbers = range(1000 * len(times), 1000 * (len(times) + 1))
        waiting = await asyncio.gather(*(engine.park(number) for number in numbers))
        times.append(time.perf_counter() - start)
    more = threading.active_count() - threads
    await asyncio.sleep(watched_s / 2)
    before = time.process_time()
    await asyncio.sleep(watched_s)
    idle = (time.process_time() - before) / watched_s * 100
    wakes = [await _until_first(partial(engine.wake, one)) for one in waiting[::20]]
    return {"park": times, "threads": [more], "idle": [idle], "wake": wakes}


def _plans(engine: Engine, extent: Extent, name: str, count: int) -> list[Any]:
    made = [dags.chain(10, f"{name}{extent.turn}{place:03}") for place in range(count)]
    return [engine.prepare(dag) for dag in made]


async def _rate(engine: Engine, jobs: Sequence[Any], width: int) -> float:
    start = time.perf_counter()
    for place in range(0, len(jobs), width):
        await asyncio.gather(*(_whole(engine, job) for job in jobs[place : place + width]))
    return len(jobs) / (time.perf_counter() - start)


async def _whole(engine: Engine, job: Any) -> None:
    await engine.run(await engine.submit(job))


async def _timed(engine: Engine, dag: Dag) -> float:
    job = await engine.submit(engine.prepare(dag))
    start = time.perf_counter()
    await engine.run(job)
    return time.perf_counter() - start


async def _until_first(
    do: Callable[[], Awaitable[None]], then: Callable[[], None] = lambda: None
) -> float:
    """Milliseconds from a call to the first step that starts in it."""
    seen: list[float] = []

    def see(_: str) -> None:
        seen.append(time.perf_counter())
        then()

    TOOL.hook = see
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
    """Go on after that, to the end: milliseconds from opening the store to the first step."""
    engine = await _with_code(make)
    return {"resume": [await _until_first(partial(_go_on, engine, name))]}


async def resume(make: Callable[[], Engine], name: str) -> Samples:
    """Go on after that, until the first step has started."""
    has_started = asyncio.Event()
    engine = await _with_code(make)

    async def until_first() -> None:
        going = asyncio.create_task(_go_on(engine, name))
        waiting = asyncio.create_task(has_started.wait())
        await asyncio.wait((going, waiting), return_when=asyncio.FIRST_COMPLETED)

    return {"resume": [await _until_first(until_first, has_started.set)]}


async def _with_code(make: Callable[[], Engine]) -> Engine:
    """An engine whose code is loaded: peers load theirs when they are imported, before this."""
    engine = make()
    load = getattr(engine, "load_code", None)
    if load is not None:
        await load()
    return engine


async def _go_on(engine: Engine, name: str) -> None:
    await engine.start()
    await engine.recover(doomed(name)[0])


async def sqlite_size(where: str) -> int:
    """The size of a SQLite file with its log written back, once nobody writes any more."""
    for _ in range(100):
        size = _size_without_log(where)
        if size is not None:
            return size
        await asyncio.sleep(0.05)
    raise RuntimeError(f"{where} is still written to after 5 s")


def _size_without_log(where: str) -> int | None:
    connection = sqlite3.connect(where)
    (is_busy, *_) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    connection.close()
    log = Path(f"{where}-wal")
    has_log = log.exists() and log.stat().st_size > 0
    return None if is_busy or has_log else Path(where).stat().st_size


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
    "same": same,
    "plain": plain,
    "parked": parked,
}


CRASHES: Final[Mapping[str, Callable[[Callable[[], Engine], str], Awaitable[Samples]]]] = {
    "die": die,
    "recover": recover,
    "resume": resume,
}


async def serve(name: str, where: str, width: int, answers: TextIO) -> None:
    """Measure what each line asks for; the engine is started when it is first needed."""

    def make() -> Engine:
        return ENGINES[name](where, width)

    sized = sqlite_size if "SQLite" in name else postgres_size
    size = no_size if "memory" in name else sized
    engine: Engine | None = None
    for line in sys.stdin:
        ask = json.loads(line)
        kind, _, rest = ask["scenario"].partition(":")
        if kind in CRASHES:
            found = await CRASHES[kind](make, rest)
        else:
            engine = engine or await _warm(make())
            given = {key: ask[key] for key in ("quick", "turn", "turns", "is_first")}
            extent = Extent(**given, size=partial(size, where))
            found = await SCENARIOS[kind](engine, extent)
        print(json.dumps(found), file=answers, flush=True)


async def _warm(engine: Engine) -> Engine:
    await engine.start()
    await _timed(engine, dags.chain(10, "warm"))
    return engine


def main() -> None:
    """Answer in lines of JSON; whatever else is printed goes to the complaints."""
    name, where, width = sys.argv[1:4]
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    try:
        asyncio.run(serve(name, where, int(width), answers))
    except BaseException:  # noqa: BLE001 - it is printed, and the process ends
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
    # Peers leave threads behind that would hold the process.
    os._exit(0)


if __name__ == "__main__":
    main()
