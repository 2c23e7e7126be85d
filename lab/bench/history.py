"""How listing, searching, counting and the start of a server grow with the runs that are stored."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import resource
import sqlite3
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple
from urllib.error import HTTPError

from tests.postgres import Server, private_server

from lab.bench.runner_figures import Spread, spread
from plansmith import Plan, Plansmith, read_plan, tool
from plansmith.plan.events import Event, RunCreated, next_event
from plansmith.plan.summary import RunSummary
from plansmith.store.summaries import DAY_TOTALS, OPEN_RUNS, STATUS_COUNTS, page_query

RESULT: Final = Path(__file__).parent / "results" / "history.md"
SIZES: Final = (100, 5_000, 10_000, 100_000)
FAILED_EVERY, NEEDLE_EVERY, BATCH = 100, 1_000, 500
PATIENCE_S: Final = 120.0
# Each is asked first of a server that has just started, and then once more.
DOORS: Final[Mapping[str, str]] = {
    "list": "/v1/runs?limit=50",
    "filter": "/v1/runs?status=failed&limit=50",
    "search": "/v1/runs?q=needle&limit=50",
    "usage": "/v1/metrics",
    "counts": "/metrics",
}
DATABASE: Final = "history"
START: Final = "server start"
COMMAND: Final = "plansmith runs"


@tool(effect="read")
async def look(at: str) -> str:
    """Looks somewhere, and finds nothing under water."""
    if at == "water":
        raise ValueError("too deep")
    return at


class Model(NamedTuple):
    """A real run that is written again and again."""

    events: Sequence[Event]
    summary: RunSummary


@dataclass
class History:
    """A store that grows: real runs, written again under new names with their summaries."""

    url: str
    size: int = 0
    _models: list[Model] = field(default_factory=list["Model"])

    async def grow(self, size: int) -> None:
        """Until there are so many runs."""
        async with Plansmith(tools=[look], store=self.url) as smith:
            if not self._models:
                self._models = [await _model(smith, at) for at in ("home", "water")]
                self.size = len(self._models)
            while self.size < size:
                numbers = range(self.size, min(size, self.size + BATCH))
                copies = [self._copy(number) for number in numbers]
                await asyncio.gather(
                    *(
                        smith.store.append(events, status=summary.status.value, summary=summary)
                        for events, summary in copies
                    )
                )
                self.size += len(copies)

    def _copy(self, number: int) -> Model:
        events, summary = self._models[number % FAILED_EVERY == 0]
        words = "needle" if number % NEEDLE_EVERY == 0 else "hay"
        run, request = f"01a00000-0000-7000-8000-{number:012x}", f"{words} {number}"
        copied: list[Event] = []
        for event in events:
            body = event.body if copied else RunCreated(request=request)
            last = copied[-1] if copied else None
            copied.append(next_event(body, run=run, by=event.by, at=event.at, last=last))
        return Model(copied, replace(summary, run=run, request=request))


async def _model(smith: Plansmith, at: str) -> Model:
    step = {"id": "s", "tool": "look", "inputs": {"at": at}}
    plan = read_plan({"goal": "Look", "steps": [step]})
    assert isinstance(plan, Plan)
    run = await smith.run((await smith.submit(plan)).id)
    [summary] = await smith.runs.lists.newest(limit=1)
    return Model([event async for event in smith.events(run.id)], summary)


class Measured(NamedTuple):
    """Milliseconds by size and door, and how the database finds its answers."""

    times: Mapping[int, Mapping[str, list[float]]]
    plans: str


@dataclass
class Served:
    """A server process, and how long it took until it was ready."""

    address: str
    token: str
    start_ms: float

    def wait_until_ready(self) -> None:
        """It says 503 while it resumes open runs."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                self.ask_ms("/readyz")
            except HTTPError as error:
                if error.code != 503 or time.monotonic() > deadline:
                    raise
                time.sleep(0.01)
            else:
                return

    def ask_ms(self, path: str) -> float:
        """How long an answer takes; `PATIENCE_S` if none came by then."""
        request = urllib.request.Request(
            self.address + path, headers={"Authorization": f"Bearer {self.token}"}
        )
        start = time.perf_counter()
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
                answer.read()
        except TimeoutError:
            pass
        return (time.perf_counter() - start) * 1000


@contextmanager
def served(url: str, folder: Path) -> Iterator[Served]:
    """`plansmith serve` as a process of its own, until it is ready."""
    token = folder / "token"
    start = time.perf_counter()
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "plansmith_cli", "serve", "--no-browser", "--port", "0"),
            *("--token-file", str(token), "--store", url, "--model", "rules"),
        ],
        stderr=subprocess.PIPE,
        env=_environment(folder),
        cwd=folder,
        text=True,
    )
    try:
        assert process.stderr
        line = process.stderr.readline()
        found = re.search(r"(http://[^/]+)/\?token=", line)
        if found is None:
            raise SystemExit(f"the server did not start: {line}{process.stderr.read()}")
        server = Served(found[1], token.read_text().strip(), 0.0)
        server.wait_until_ready()
        server.start_ms = (time.perf_counter() - start) * 1000
        yield server
    finally:
        process.kill()
        process.communicate()


def measure(url: str, folder: Path) -> dict[str, list[float]]:
    """Milliseconds of every door on a new server, of its second answer, and of the command."""
    found: dict[str, list[float]] = {START: []}
    for name, path in DOORS.items():
        with served(url, folder) as server:
            found[START].append(server.start_ms)
            found[name] = [server.ask_ms(path)]
            found[f"{name} again"] = [server.ask_ms(path)]
    found[COMMAND] = [_command_ms(url, folder) for _ in range(3)]
    return found


def query_plans(explain: Callable[[str], Sequence[str]]) -> str:
    """How a database finds the newest runs, failed ones, open ones, counts and sums."""
    asked = {
        "newest": page_query((), without_summary=False),
        "failed": page_query(("failed",), without_summary=False),
        "open": OPEN_RUNS,
        "counts": STATUS_COUNTS,
        "sums": DAY_TOTALS,
    }
    lines: list[str] = []
    for name, query in asked.items():
        filled = query.replace(":before", str(2**31 - 1)).replace(":most", "50")
        lines += [f"{name}:", *(f"  {line}" for line in explain(filled))]
    return "\n".join(lines)


def _explained_by_sqlite(path: Path, query: str) -> list[str]:
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute(f"EXPLAIN QUERY PLAN {query}").fetchall()
    depths = {0: -1}
    for row in rows:
        depths[row[0]] = depths[row[1]] + 1
    return [f"{'  ' * depths[row[0]]}{row[3]}" for row in rows]


def _explained_by_postgres(server: Server, query: str) -> list[str]:
    server.sql("ANALYZE", database=DATABASE)
    return server.sql(f"EXPLAIN (COSTS OFF) {query}", database=DATABASE).splitlines()


def _command_ms(url: str, folder: Path) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, "-m", "plansmith_cli", "runs", "--store", url],
        env=_environment(folder),
        cwd=folder,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime) * 1000


def _environment(folder: Path) -> dict[str, str]:
    return os.environ | {"XDG_DATA_HOME": str(folder / "data")}


HEAD: Final = """\
# Many stored runs

Made by `scripts/bench history --write`. Real runs, written again under new names with their
summaries through the store's port, one in 100 failed. Milliseconds until a new server is ready, of
its first answer to each request, and of the second; `plansmith runs` is processor time. List: the
50 newest; filter: 50 failed ones; search: 50 with a word; usage: tokens and costs of all; counts:
runs by status for Prometheus. Last column: the largest store / the smallest.

"""


def page(found: Mapping[str, Measured]) -> str:
    """The tables of all stores, each with how the database finds its answers."""
    parts = [
        f"## {store}\n\n{table(measured.times)}\n"
        f"How it finds the answers among {max(measured.times):,} runs:\n\n"
        f"```text\n{measured.plans}\n```\n"
        for store, measured in found.items()
    ]
    return HEAD + "\n".join(parts)


def table(found: Mapping[int, Mapping[str, list[float]]]) -> str:
    """What was measured in rows, sizes in columns."""
    sizes = list(found)
    lines = [
        f"| | {' | '.join(f'{size:,} runs' for size in sizes)} | growth |",
        "|---|" + "--:|" * (len(sizes) + 1),
    ]
    for name in found[sizes[0]]:
        spreads = [_spread(found[size][name]) for size in sizes]
        growth = f"{spreads[-1].median / spreads[0].median:.1f} x"
        lines.append(f"| {name} | {' | '.join(_cell(each) for each in spreads)} | {growth} |")
    return "\n".join(lines) + "\n"


def _spread(samples: Sequence[float]) -> Spread:
    made = spread(samples)
    assert made
    return made


def _cell(found: Spread) -> str:
    if found.median >= PATIENCE_S * 1000:
        return f"over {found.median:,.0f}"
    return f"{found.median:,.0f}" + (
        f" ({found.low:,.0f}-{found.high:,.0f})" if found.n > 1 else ""
    )


def main() -> None:
    """Print the table, or write it to the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--sizes", type=int, nargs="+", default=SIZES, help="how many runs are stored"
    )
    parser.add_argument("--sqlite-only", action="store_true", help="leave PostgreSQL out")
    parser.add_argument("--json", action="store_true", help="print one JSON object, no table")
    parser.add_argument("--write", action="store_true", help=f"also write {RESULT.name}")
    args = parser.parse_args()
    found: dict[str, Measured] = {}
    with tempfile.TemporaryDirectory() as name, ExitStack() as at_the_end:
        folder = Path(name)
        file = folder / "runs.db"
        times = measured("SQLite", f"sqlite:///{file}?synchronous=normal", folder, args.sizes)
        plans = query_plans(partial(_explained_by_sqlite, file))
        found["SQLite"] = Measured(times, plans)
        if not args.sqlite_only:
            server = at_the_end.enter_context(private_server(fsync=True))
            url = server.new_database(DATABASE)
            times = measured("PostgreSQL", url, folder, args.sizes)
            plans = query_plans(partial(_explained_by_postgres, server))
            found["PostgreSQL"] = Measured(times, plans)
    if args.json:
        print(json.dumps({store: each.times for store, each in found.items()}, indent=2))
    else:
        print(page(found))
    if args.write:
        RESULT.write_text(page(found), encoding="utf-8")


def measured(
    store: str, url: str, folder: Path, sizes: Sequence[int]
) -> dict[int, dict[str, list[float]]]:
    """Grows a store, and measures it at every size."""
    history, times = History(url), dict[int, dict[str, list[float]]]()
    for size in sorted(sizes):
        start = time.monotonic()
        asyncio.run(history.grow(size))
        made = time.monotonic() - start
        times[size] = measure(history.url, folder)
        spent = time.monotonic() - start - made
        told = f"{size:,} runs: made in {made:.0f} s, measured in {spent:.0f} s"
        print(f"{store}, {told}", file=sys.stderr)
    return times


if __name__ == "__main__":
    main()
