"""Python calls and processor time that a plan takes, by stage, so that a regression is seen."""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import json
import pstats
import signal
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

from lab.bench import runner_dags as dags
from lab.bench.runner_engines import WIDE, Engine
from lab.bench.runner_smith import Smith

PLANS: Final = 100
STEPS: Final = 10
REPEATS: Final = 5
EARLIER: Final = 3
OTHER: Final = "asyncio and other"
THREADS: Final = "other threads"
# Where a stage begins. A call belongs to the innermost of these that it was made from; whatever
# is not named here counts for its caller.
STAGES: Final[Mapping[str, str]] = {
    "plansmith.app.Plansmith.submit": "submit",
    "plansmith.runs.intake": "submit",
    "plansmith.runs.registry": "submit",
    "plansmith.app.Plansmith.run": "loop",
    "plansmith.runs.execution": "loop",
    "plansmith.engine.executor": "loop",
    "plansmith.engine.wakeups": "loop",
    "plansmith.engine.state": "loop",
    "plansmith.engine.journal": "events",
    "plansmith.plan.events": "events",
    "plansmith.plan.fold": "events",
    "plansmith.store": "store",
    "plansmith.engine.call": "tools",
    "plansmith_desk": "tools",
    "plansmith.report": "report",
}
SHOWN: Final = ("submit", "loop", "events", "store", "tools", "report", OTHER)


@dataclass(frozen=True)
class Profile:
    """Calls and milliseconds of processor time a plan, by stage of the main thread.

    Those of other threads (a store's writer) are apart: how they fall depends on the moment.
    """

    calls: Mapping[str, float]
    cpu_ms: Mapping[str, float]

    @property
    def total_calls(self) -> float:
        """All calls of the main thread, builtins too, as cProfile counts them."""
        return sum(count for stage, count in self.calls.items() if stage != THREADS)


def store_url(store: str, folder: Path) -> str:
    """The URL of a new store: `memory`, or `sqlite` with every commit on the disk."""
    number = len(list(folder.glob("profile*.db")))
    return "memory" if store == "memory" else f"sqlite:///{folder / f'profile{number}.db'}"


def calls_a_plan(
    store: str, folder: Path, *, at_once: int = PLANS, earlier: int = EARLIER, same: bool = False
) -> float:
    """Python calls a plan, of the main thread, as cProfile counts them, after `earlier` runs.

    The plans differ, unless they are the `same`: one plan that is run again and again.
    Up to ten at once the count on the memory store is the same every time; with more of them, how
    many ends are met by one wake-up depends on the moment.
    """
    profiler = cProfile.Profile()

    async def count() -> None:
        async with _warm(store_url(store, folder), earlier) as smith:
            jobs = _jobs(smith, "p")
            if same:
                await _run(smith, jobs[:1])
                jobs = jobs[:1] * PLANS
            with profiler:
                for place in range(0, PLANS, at_once):
                    await _run(smith, jobs[place : place + at_once])

    asyncio.run(count())
    counted: Any = pstats.Stats(profiler)
    return float(counted.total_calls) / PLANS


def calls_by_stage(store: str, folder: Path) -> dict[str, float]:
    """Python calls a plan, and those of other threads."""
    counter = _CallCounter()

    async def count() -> None:
        async with _warm(store_url(store, folder)) as smith:
            jobs = _jobs(smith, "p")
            with counter:
                await _run(smith, jobs)

    threading.setprofile(counter.see_thread)
    try:
        asyncio.run(count())
    finally:
        threading.setprofile(None)
    return {stage: count / PLANS for stage, count in counter.counts.items()}


def cpu_by_stage(store: str, folder: Path) -> dict[str, float]:
    """Milliseconds of processor time a plan."""
    spent: dict[str, float] = defaultdict(float)

    async def sample() -> None:
        async with _warm(store_url(store, folder)) as smith:
            for turn in range(REPEATS):
                jobs = _jobs(smith, f"p{turn}")
                with _sampling(spent):
                    await _run(smith, jobs)

    asyncio.run(sample())
    return {stage: seconds * 1000 / (PLANS * REPEATS) for stage, seconds in spent.items()}


@asynccontextmanager
async def _warm(url: str, earlier: int = EARLIER) -> AsyncIterator[Engine]:
    smith = Smith(url, WIDE)
    try:
        await _run(smith, _jobs(smith, "warm", earlier))
        yield smith
    finally:
        await smith.stop()


def _jobs(engine: Engine, name: str, count: int = PLANS) -> list[Any]:
    return [engine.prepare(dags.chain(STEPS, f"{name}{place:03}")) for place in range(count)]


async def _run(engine: Engine, jobs: Sequence[Any]) -> None:
    async def whole(job: Any) -> None:
        await engine.run(await engine.submit(job))

    await asyncio.gather(*map(whole, jobs))


@cache
def _stage(module: str, code: CodeType) -> str | None:
    name = f"{module}.{code.co_qualname}"
    while name:
        if name in STAGES:
            return STAGES[name]
        name = name.rpartition(".")[0]
    return None


def _stage_of(frame: FrameType | None) -> str:
    while frame is not None:
        found = _stage(frame.f_globals.get("__name__", ""), frame.f_code)
        if found is not None:
            return found
        frame = frame.f_back
    return OTHER


class _CallCounter:
    """Counts calls as cProfile does, but for the stage on top of the stack."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._stack: list[str] = []
        self._is_on = False

    def __enter__(self) -> None:
        self._is_on = True
        sys.setprofile(self._see)

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        self._is_on = False

    def see_thread(self, frame: FrameType, event: str, arg: object) -> None:
        """Count for another thread: it has to be told before the thread starts."""
        del frame, arg
        if self._is_on and event in ("call", "c_call"):
            self.counts[THREADS] += 1

    def _see(self, frame: FrameType, event: str, arg: object) -> None:
        del arg
        outer = self._stack[-1] if self._stack else OTHER
        if event == "call":
            stage = _stage(frame.f_globals.get("__name__", ""), frame.f_code) or outer
            self._stack.append(stage)
            self.counts[stage] += 1
        elif event == "return" and self._stack:
            self._stack.pop()
        elif event == "c_call":
            self.counts[outer] += 1


@contextmanager
def _sampling(spent: dict[str, float]) -> Iterator[None]:
    """Every millisecond, the time the main thread has used since goes to the stage it is in."""
    last = time.thread_time()

    def take(_: int, frame: FrameType | None) -> None:
        nonlocal last
        now = time.thread_time()
        spent[_stage_of(frame)] += now - last
        last = now

    start = time.process_time() - last
    before: Callable[[int, FrameType | None], Any] | int | None
    before = signal.signal(signal.SIGPROF, take)
    signal.setitimer(signal.ITIMER_PROF, 0.001, 0.001)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
        take(0, None)
        # The two clocks are read one after the other: without other threads it may be below 0.
        spent[THREADS] += max(time.process_time() - last - start, 0.0)


def table(found: Mapping[str, Profile]) -> str:
    """The stages in rows, calls and milliseconds in columns."""
    stores = list(found)
    head = [f"{store}, {what}" for store in stores for what in ("calls a plan", "ms a plan")]
    lines = [f"| | {' | '.join(head)} |", "|---|" + "--:|" * len(head)]
    for stage in (*SHOWN, THREADS):
        cells = [
            form.format(values.get(stage, 0))
            for store in stores
            for form, values in (
                ("{:,.0f}", found[store].calls),
                ("{:.2f}", found[store].cpu_ms),
            )
        ]
        lines.append(f"| {stage} | {' | '.join(cells)} |")
    totals = [
        cell
        for each in found.values()
        for cell in (f"{each.total_calls:,.0f}", f"{sum(each.cpu_ms.values()):.2f}")
    ]
    return "\n".join([*lines, f"| total (calls: main thread) | {' | '.join(totals)} |"])


def rule() -> str:
    """Which modules begin which stage."""
    homes = {
        stage: ", ".join(
            name.removeprefix("plansmith.") for name, own in STAGES.items() if own == stage
        )
        for stage in SHOWN
    }
    lines = [f"- {stage}: {where}" for stage, where in homes.items() if where]
    listed = "\n".join(lines)
    return f"""\
{PLANS} different plans of {STEPS} steps that do nothing, submitted and run at once. A call, or a
millisecond of processor time, belongs to the innermost of these modules on its stack:

{listed}
- {OTHER}: the rest
- {THREADS}: such as the writer of a SQLite store
"""


def main() -> None:
    """Print a table, or one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object, no table")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        found = {
            store: Profile(calls_by_stage(store, folder), cpu_by_stage(store, folder))
            for store in ("memory", "sqlite")
        }
    if args.json:
        told = {
            store: {
                "calls": dict(each.calls),
                "total_calls": each.total_calls,
                "cpu_ms": dict(each.cpu_ms),
                "total_cpu_ms": sum(each.cpu_ms.values()),
            }
            for store, each in found.items()
        }
        print(json.dumps({"plans": PLANS, "steps": STEPS, "stores": told}, indent=2))
    else:
        print(f"# Profile\n\n{rule()}\n{table(found)}")


if __name__ == "__main__":
    main()
