"""How fast, small and safe plans are run, beside LangGraph, DBOS and a hand-written floor."""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from tests.postgres import NoServerError, Server, private_server

from lab.bench import runner_crash as crashes
from lab.bench import runner_dags as dags
from lab.bench.profile import calls_a_plan
from lab.bench.runner_engines import ENGINES, WIDE
from lab.bench.runner_extent import (
    IN_TURNS,
    ONCE,
    TURNS,
    TURNS_A_ROUND,
    is_measured,
    is_once,
    is_rival,
    takes_turn,
)
from lab.bench.runner_figures import Facts, Measured, Samples
from lab.bench.runner_json import to_json
from lab.bench.runner_process import RIVALS, ROOT, Worker, WorkerFailedError
from lab.bench.runner_startup import startup
from lab.bench.runner_table import render

RESULT: Final = ROOT / "lab" / "bench" / "results" / "runner.md"
CRASHES: Final[Mapping[str, Callable[..., Samples]]] = {
    "crash": crashes.crash,
    "cold": crashes.cold,
    "long": crashes.long_run,
    "open": crashes.open_runs,
}


@dataclass
class Bench:
    """Asks one process at a time, each with a store of its own."""

    engines: list[str]
    server: Server | None
    folder: Path
    quick: bool
    rounds: int
    left_out: list[str]
    measured: Measured = field(default_factory=list[dict[str, Samples]])
    _numbers: Iterator[int] = field(default_factory=itertools.count)
    _dice: random.Random = field(default_factory=lambda: random.Random(0))

    def all_of(self) -> None:
        """Every scenario; the engines take turns in an order that changes."""
        for _ in range(self.rounds):
            self._round()
        for scenario in ONCE:
            for name in self._in_any_order():
                if is_once(name, scenario, quick=self.quick):
                    self._measure(name, scenario, 0, partial(self._once, name, scenario))

    def _round(self) -> None:
        """Each engine keeps one process and one store for all turns of a round."""
        with ExitStack() as at_the_end:
            workers: dict[str, Worker] = {}
            for name in self.engines:
                workers[name] = self._worker(name, self._place(name))
                at_the_end.callback(workers[name].kill)
            for place in range(self._turns_a_round):
                turn = len(self.measured)
                self.measured.append({name: {} for name in self.engines})
                for scenario in IN_TURNS:
                    for name in self._in_any_order():
                        if takes_turn(name, scenario, turn, quick=self.quick):
                            ask = partial(self._ask, workers[name], scenario, turn, first=not place)
                            self._measure(name, scenario, turn, ask)

    def _measure(self, name: str, scenario: str, turn: int, measure: Callable[[], Samples]) -> None:
        start = time.monotonic()
        try:
            self.measured[turn][name] |= measure()
        except WorkerFailedError as failure:
            if not is_rival(name):
                raise SystemExit(f"{scenario}: {failure}") from failure
            # A peer that breaks must not cost the figures of all others.
            self.engines.remove(name)
            self.left_out.append(f"{name}, from {scenario} on: {str(failure).splitlines()[-1]}")
            say(f"{scenario}: {failure}")
        spent = time.monotonic() - start
        say(f"{turn + 1}/{self._turns} {scenario:8} {name:34} {spent:6.1f} s")

    def _ask(self, worker: Worker, scenario: str, turn: int, *, first: bool) -> Samples:
        worker.tell(scenario, quick=self.quick, turn=turn, turns=self._turns, is_first=first)
        return worker.answer()

    def _once(self, name: str, scenario: str) -> Samples:
        if scenario in CRASHES:
            return self._crashed(name, scenario)
        width = 4 if scenario == "narrow" else WIDE
        worker = self._worker(name, self._place(name), width)
        try:
            worker.tell(scenario, quick=self.quick, turn=0, turns=1, is_first=True)
            return worker.answer()
        finally:
            worker.kill()

    def _crashed(self, name: str, scenario: str) -> Samples:
        places: dict[str, str] = {}

        def begin(what: str, log: Path) -> Worker:
            # The process that goes on has the store of the one that was killed.
            place = places.setdefault(log.name, self._place(name))
            worker = self._worker(name, place, log=log)
            worker.tell(what)
            return worker

        with tempfile.TemporaryDirectory(dir=self.folder) as logs:
            return CRASHES[scenario](begin, Path(logs), quick=self.quick)

    def _worker(
        self, name: str, where: str, width: int = WIDE, *, log: Path | None = None
    ) -> Worker:
        complaints = self.folder / f"{next(self._numbers)}.txt"
        return Worker(name, where, width, complaints=complaints, log=log)

    def _place(self, name: str) -> str:
        number = next(self._numbers)
        if "PostgreSQL" in name:
            assert self.server
            return self.server.new_database(f"bench_{number}")
        return str(self.folder / f"{number}.db")

    def _in_any_order(self) -> list[str]:
        return self._dice.sample(self.engines, len(self.engines))

    @property
    def _turns_a_round(self) -> int:
        return TURNS if self.quick else TURNS_A_ROUND

    @property
    def _turns(self) -> int:
        return self.rounds * self._turns_a_round


def versions() -> list[str]:
    """What the rivals' environment holds."""
    packages = ("langgraph", "langgraph-checkpoint-sqlite", "langgraph-checkpoint-postgres", "dbos")
    code = f"from importlib.metadata import version\nfor p in {packages}: print(p, version(p))"
    done = subprocess.run([RIVALS, "-c", code], check=True, capture_output=True, text=True)
    return done.stdout.splitlines()


def say(words: str) -> None:
    """Show that it is going on."""
    print(words, file=sys.stderr, flush=True)


def _server(at_the_end: ExitStack, left_out: list[str]) -> Server | None:
    try:
        return at_the_end.enter_context(private_server(fsync=True))
    except NoServerError as error:
        left_out.append(f"everything on PostgreSQL: {error}")
        say(f"left out: {left_out[-1]}")
        return None


def _measure(args: argparse.Namespace) -> Facts:
    if not args.own and not RIVALS.exists():
        raise SystemExit("LangGraph and DBOS are not installed: scripts/setup rivals, or --own")
    start, load = time.monotonic(), [os.getloadavg()[0]]
    left_out = ["LangGraph and DBOS: --own was given"] if args.own else []
    with ExitStack() as at_the_end:
        folder = Path(at_the_end.enter_context(tempfile.TemporaryDirectory()))
        server = _server(at_the_end, left_out)
        engines = [
            name
            for name in ENGINES
            if is_measured(name, quick=args.quick)
            and not (args.own and is_rival(name))
            and (server or "PostgreSQL" not in name)
        ]
        bench = Bench(
            engines, server, folder, args.quick, 1 if args.quick else args.rounds, left_out
        )
        bench.all_of()
        say("start-up and calls a plan")
        spent = startup(folder, rivals=not args.own)
        calls = {
            f"{store}{', one plan again' if same else ''}": calls_a_plan(store, folder, same=same)
            for store in ("memory", "sqlite")
            for same in (False, True)
        }
        database = server.sql("SHOW server_version").split()[0] if server else ""
    return Facts(
        quick=args.quick,
        measured=bench.measured,
        startup=spent,
        calls=calls,
        payload=dags.chain(10, "p0000").payload() / 10,
        rivals=[] if args.own else versions(),
        database=database,
        left_out=left_out,
        load=[*load, os.getloadavg()[0]],
        seconds=time.monotonic() - start,
    )


def main() -> None:
    """Measure everything, print the tables, or write them to the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer engines and samples: 4 minutes")
    parser.add_argument("--json", action="store_true", help="print one JSON object, no tables")
    parser.add_argument("--rounds", type=int, default=3, help="how often all is measured")
    parser.add_argument("--own", action="store_true", help="without LangGraph and DBOS")
    parser.add_argument("--write", action="store_true", help=f"also write {RESULT.name}")
    parser.add_argument(
        "--samples", type=Path, help="keep all samples here, or take them from here"
    )
    args = parser.parse_args()
    if args.samples and args.samples.exists():
        facts = Facts(**json.loads(args.samples.read_text(encoding="utf-8")))
    else:
        facts = _measure(args)
    if args.samples:
        args.samples.write_text(json.dumps(asdict(facts)), encoding="utf-8")
    text = render(facts)
    print(json.dumps(to_json(facts), indent=2) if args.json else text)
    if args.write:
        RESULT.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
