"""Workers on one PostgreSQL: throughput, kills under load, parked runs, rolling restart."""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import resource
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from tests.postgres import Server, private_server
from tests.waiting import until
from tests.worker_processes import Workers, acting

from plansmith.app import Plansmith
from plansmith.errors import PlansmithError
from plansmith.plan.events import Event, next_event
from plansmith.plan.summary import RunSummary
from plansmith.run_queue import QueueLimits

RESULT: Final = Path(__file__).parent / "results" / "workers.md"
AT_ONCE: Final = 4
CALL_S: Final = 0.5
PATIENCE_S: Final = 120.0
IDLE_S: Final = 5.0
_CONNECTIONS: Final = "SELECT count(*) FROM pg_stat_activity WHERE datname = 'bench'"
Row = dict[str, Any]


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    workers: Sequence[int] = (1, 2, 4)
    runs: int = 120
    load: int = 500
    trouble_s: float = 60.0
    parked: int = 10_000
    rolled: int = 80


QUICK: Final = Sizes(workers=(1, 2), runs=16, load=60, trouble_s=12.0, parked=200, rolled=8)


async def submitted(smith: Plansmith, names: Sequence[str], seconds: float) -> dict[str, str]:
    """Create and approve a run of two calls for each name; return the runs by name."""

    async def one(name: str) -> str:
        plan = acting(f"{name}-a", f"{name}-b", seconds=seconds)
        run = await smith.submit(plan)
        await smith.decide(run.id, approve=plan.hash, by="ada")
        return run.id

    return dict(zip(names, await asyncio.gather(*map(one, names)), strict=True))


async def ended(smith: Plansmith, runs: Sequence[str], *, patience_s: float = PATIENCE_S) -> int:
    """Wait until all runs are done; return how many are not after so long."""
    deadline, left = time.monotonic() + patience_s, set(runs)
    while left and time.monotonic() < deadline:
        with suppress(PlansmithError):
            left &= set(await smith.store.open_runs())
        await asyncio.sleep(0.1)
    return len(left)


def _transactions(server: Server) -> int:
    return int(server.sql("SELECT xact_commit FROM pg_stat_database WHERE datname = 'bench'"))


async def _transactions_a_second(server: Server, seconds: float) -> float:
    """How many transactions idle workers make."""
    before = _transactions(server)
    await asyncio.sleep(seconds)
    return (_transactions(server) - before) / seconds


async def idle(workers: Workers, server: Server) -> list[Row]:
    """What one idle worker asks of the database, by how often it looks on the queue."""
    await workers.start("m0")
    queue, rows = workers.queue(), []
    for poll_s, stands_for in ((0.2, "1 to 20"), (1.0, "100"), (10.0, "1,000")):
        await queue.open(QueueLimits(poll_s=poll_s))
        await asyncio.sleep(2)
        found = await _transactions_a_second(server, 2 * IDLE_S)
        rows.append({"workers": stands_for, "looks every s": poll_s, "transactions a s": found})
    await queue.close()
    return rows


async def throughput(workers: Workers, server: Server, count: int, sizes: Sizes) -> Row:
    """How many runs of two calls of half a second some workers end in a second."""
    for number in range(count):
        await workers.start(f"m{number}", "--concurrency", str(AT_ONCE))
    idle = await _transactions_a_second(server, IDLE_S)
    async with workers.smith() as smith:
        before, began = _transactions(server), time.monotonic()
        runs = await submitted(smith, [f"r{n}" for n in range(sizes.runs)], CALL_S)
        left = await ended(smith, [*runs.values()])
        seconds = time.monotonic() - began
    connections = int(server.sql(f"{_CONNECTIONS} AND application_name <> 'psql'"))
    await workers.stop_all()
    made = _transactions(server) - before - idle * seconds
    return {
        "workers": count,
        "runs": sizes.runs,
        "seconds": round(seconds, 1),
        "runs a second": round(sizes.runs / seconds, 1),
        "most possible": round(count * AT_ONCE / (2 * CALL_S), 1),
        "transactions a run": round(made / sizes.runs),
        "idle transactions a second": round(idle),
        "connections": connections,
        "not ended": left,
    }


@dataclass
class Trouble:
    """Kills, stops and restarts workers and the database while they work."""

    workers: Workers
    server: Server
    random: random.Random = field(default_factory=lambda: random.Random(7))
    done: Counter[str] = field(default_factory=Counter)
    answered: Counter[str] = field(default_factory=Counter)
    asked_to_repeat: set[str] = field(default_factory=set)
    number: int = 0

    async def start(self) -> None:
        self.number += 1
        await self.workers.start(f"m{self.number}", "--concurrency", str(AT_ONCE))

    def _living(self) -> list[asyncio.subprocess.Process]:
        return [each for each in self.workers.processes if each.returncode is None]

    async def make(self, seconds: float) -> None:
        """A kill, a stop, or once a restart of the database, every three seconds or so."""
        deadline = time.monotonic() + seconds
        kinds = [self._kill, self._restart_database, self._stop]
        while kinds or time.monotonic() < deadline:
            do = kinds.pop() if kinds else self.random.choice([self._kill, self._stop])
            await do(self.random.choice(self._living()))
            await asyncio.sleep(self.random.uniform(0.5, 2))

    async def _kill(self, victim: asyncio.subprocess.Process) -> None:
        victim.kill()
        await victim.wait()
        self.done["kill -9"] += 1
        await self.start()

    async def _stop(self, victim: asyncio.subprocess.Process) -> None:
        victim.send_signal(signal.SIGSTOP)
        await asyncio.sleep(self.workers.lease_s * 2)
        victim.send_signal(signal.SIGCONT)
        self.done["SIGSTOP"] += 1

    async def _restart_database(self, _: asyncio.subprocess.Process) -> None:
        await asyncio.to_thread(self.server.stop)
        await asyncio.to_thread(self.server.start)
        self.done["restart of PostgreSQL"] += 1

    async def answer(self, smith: Plansmith, runs: Mapping[str, str]) -> None:
        """Tell the truth of the file of effects when a call was cut off, as a person would."""
        for name, run_id in runs.items():
            with suppress(PlansmithError):
                run = (await smith.runs.journals.load_verified(run_id)).run
                for question in run.questions:
                    act = f"{name}-{'a' if question.endswith('s0') else 'b'}"
                    happened = act in self.workers.effects
                    if not happened:
                        self.asked_to_repeat.add(act)
                    await smith.answer(run_id, question, "done" if happened else "retry", by="ada")
                    self.answered["done" if happened else "retry"] += 1


async def _until_ended(
    smith: Plansmith, runs: Mapping[str, str], look: Callable[[], Awaitable[None]]
) -> int:
    deadline = time.monotonic() + PATIENCE_S
    while (left := await ended(smith, [*runs.values()], patience_s=2)) and (
        time.monotonic() < deadline
    ):
        await look()
    return left


async def trouble(workers: Workers, server: Server, sizes: Sizes) -> Row:
    """Workers are killed and stopped, and the database restarts, under load."""
    made = Trouble(workers, server)
    for _ in range(3):
        await made.start()
    async with workers.smith() as smith:
        names = [f"r{n}" for n in range(sizes.load)]
        runs = await submitted(smith, names, CALL_S)
        await made.make(sizes.trouble_s)
        left = await _until_ended(smith, runs, lambda: made.answer(smith, runs))
        statuses = Counter(
            [
                (await smith.runs.journals.load_verified(run)).run.status.value
                for run in runs.values()
            ]
        )
    effects = Counter(workers.effects)
    wanted = {f"{name}-{part}" for name in names for part in "ab"}
    repeated = {act: n for act, n in effects.items() if n > 1 and act not in made.asked_to_repeat}
    return {
        "runs": sizes.load,
        "trouble": dict(made.done),
        "asked": sum(made.answered.values()),
        "done": statuses["done"],
        "effects lost": len(wanted - set(effects)),
        "effects repeated unasked": len(repeated),
        "stuck": left,
    }


async def parked(workers: Workers, sizes: Sizes) -> Row:
    """Many runs wait for an answer: what they hold, how a worker starts, how some go on."""
    first = await workers.start("m0", "--concurrency", str(AT_ONCE))
    workers.let()
    async with workers.smith() as smith:
        plan = acting("a", "b", ask=True)
        run = await smith.submit(plan)
        await smith.decide(run.id, approve=plan.hash, by="ada")

        async def asks() -> bool:
            return "q" in (await smith.runs.journals.load_verified(run.id)).run.questions

        await until(asks)
        first.send_signal(signal.SIGTERM)
        await first.wait()
        ids = await _copied(smith, run.id, sizes.parked)
        began = time.monotonic()
        second = await workers.start("m0", "--concurrency", str(AT_ONCE))
        await until(lambda: "runs_sent" in workers.log(second))
        scanned = time.monotonic() - began
        queue = workers.queue()
        held = len(await queue.taken()) + len(await queue.waiting())
        held += len(await smith.runs.journals.ownership.in_use(set(ids)))
        await queue.close()
        some = ids[:100]
        began = time.monotonic()
        await asyncio.gather(*(smith.answer(each, "q", "yes", by="ada") for each in some))
        left = await ended(smith, some)
        return {
            "parked": sizes.parked,
            "workflows and claims held": held,
            "a worker has looked at all after s": round(scanned, 1),
            "its memory MB": _memory_mb(second.pid),
            "100 answered and ended after s": round(time.monotonic() - began, 1),
            "not ended": left,
        }


async def _copied(smith: Plansmith, run: str, count: int) -> list[str]:
    """Write a parked run again and again under new names."""
    events = [each async for each in smith.runs.journals.events(run)]
    [summary] = await smith.runs.lists.newest(limit=1)
    names = [f"01a00000-0000-7000-8000-{number:012x}" for number in range(count)]
    for start in range(0, count, 500):
        copies = [_copy(events, summary, name) for name in names[start : start + 500]]
        await asyncio.gather(
            *(
                smith.store.append(each, status=told.status.value, summary=told)
                for each, told in copies
            )
        )
    return names


def _copy(events: Sequence[Event], summary: RunSummary, run: str) -> tuple[list[Event], RunSummary]:
    copied: list[Event] = []
    for event in events:
        last = copied[-1] if copied else None
        copied.append(next_event(event.body, run=run, by=event.by, at=event.at, last=last))
    return copied, replace(summary, run=run)


def _memory_mb(process: int) -> int:
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return round(pages * resource.getpagesize() / 1e6)


async def rolling(workers: Workers, sizes: Sizes) -> Row:
    """Each of three workers is told to stop and replaced by another one, under load."""
    old = [await workers.start(f"old{n}", "--concurrency", str(AT_ONCE)) for n in range(3)]
    async with workers.smith() as smith:
        runs = await submitted(smith, [f"r{n}" for n in range(sizes.rolled)], CALL_S)
        began, codes = time.monotonic(), []
        for number, each in enumerate(old):
            await workers.start(f"new{number}", "--concurrency", str(AT_ONCE))
            each.send_signal(signal.SIGTERM)
            codes.append(await each.wait())
        rolled = time.monotonic() - began
        left = await ended(smith, [*runs.values()])
        found = [(await smith.runs.journals.load_verified(run)).run for run in runs.values()]
        asked = sum(bool(each.questions) for each in found)
    effects = Counter(workers.effects)
    return {
        "runs": sizes.rolled,
        "restarted after s": round(rolled, 1),
        "exit codes": codes,
        "asked": asked,
        "effects": f"{len(effects)} of {sizes.rolled * 2}",
        "effects repeated": sum(n > 1 for n in effects.values()),
        "stuck": left,
    }


async def measure(name: str, sizes: Sizes) -> list[Row]:
    """Do one part on a new database, and end every worker."""
    rows: list[Row] = []
    for count in sizes.workers if name == "throughput" else (0,):
        with tempfile.TemporaryDirectory() as folder, private_server(fsync=True) as server:
            lease_s = 20.0 if name == "idle" else 3.0
            workers = Workers(Path(folder), server.new_database("bench"), lease_s=lease_s)
            try:
                match name:
                    case "throughput":
                        rows.append(await throughput(workers, server, count, sizes))
                    case "idle":
                        rows += await idle(workers, server)
                    case "trouble":
                        rows.append(await trouble(workers, server, sizes))
                    case "parked":
                        rows.append(await parked(workers, sizes))
                    case _:
                        rows.append(await rolling(workers, sizes))
            finally:
                await workers.stop_all()
    return rows


PARTS: Final = {
    "throughput": f"Runs of two calls of {CALL_S:g} s, {AT_ONCE} at once a worker",
    "idle": "Transactions of one idle worker, among so many",
    "trouble": "Random kill -9 and SIGSTOP of workers, and a restart of PostgreSQL, under load",
    "parked": "Runs that wait for an answer",
    "rolling": "Rolling restart of three workers under load",
}
HEAD: Final = """# Workers

Made by `scripts/bench workers --write`: workers as processes that seem to be on machines of their
own, on one PostgreSQL with fsync, the calls only wait; a file of effects tells what was done.
"""


def table(found: Mapping[str, Sequence[Row]]) -> str:
    """One table a part."""
    lines = [HEAD]
    for name, rows in found.items():
        lines += [
            f"## {PARTS[name]}",
            "",
            f"| {' | '.join(rows[0])} |",
            "|--:" * len(rows[0]) + "|",
        ]
        lines += [f"| {' | '.join(_cell(each) for each in row.values())} |" for row in rows]
        lines.append("")
    return "\n".join(lines)


def _cell(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{count} {name}" for name, count in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def main() -> None:
    """Print the tables, or write them to the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}")
    parser.add_argument("--quick", action="store_true", help="small sizes, about a minute")
    parser.add_argument("--json", action="store_true", help="print one JSON object, no table")
    parser.add_argument("--write", action="store_true", help=f"also write {RESULT.name}")
    args = parser.parse_args()
    if unknown := set(args.parts) - set(PARTS):
        parser.error(f"there is no part {', '.join(sorted(unknown))}")
    sizes, began = QUICK if args.quick else Sizes(), time.monotonic()
    found: dict[str, list[Row]] = {}
    print(f"This takes about {1 if args.quick else 6} minutes on two idle cores.", file=sys.stderr)
    for name in args.parts or PARTS:
        start = time.monotonic()
        found[name] = asyncio.run(measure(name, sizes))
        print(f"{name}: {time.monotonic() - start:.0f} s", file=sys.stderr)
    print(json.dumps(found, indent=2) if args.json else table(found))
    print(f"in all {time.monotonic() - began:.0f} s", file=sys.stderr)
    if args.write:
        RESULT.write_text(table(found), encoding="utf-8")


if __name__ == "__main__":
    main()
