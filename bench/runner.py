"""How fast, small and safe plans are run, beside LangGraph, DBOS and a hand-written floor."""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from tests.postgres import Server, private_server

from bench import runner_crash as crashes
from bench.runner_dags import LOG
from bench.runner_early import first_action
from bench.runner_engines import ENGINES
from bench.runner_goals import Facts, Measured, Samples
from bench.runner_table import render

ROOT: Final = Path(__file__).parent.parent
RESULT: Final = ROOT / "bench" / "results" / "runner.md"
RIVALS: Final = ROOT / ".venv-rivals" / "bin" / "python"
# Those that take long, or hardly vary, are measured once.
EVERY_ROUND: Final = ("chain", "fan", "uneven", "narrow", "plans")
ONCE: Final = ("storage", "parked")
CRASHES: Final[Mapping[str, Callable[..., Samples]]] = {
    "crash": crashes.crash,
    "cold": crashes.cold,
    "long": crashes.long_run,
    "open": crashes.open_runs,
}
IMPORTS: Final = {
    "plansmith": "import plansmith",
    "Plansmith, ready to use": "from plansmith import Plansmith",
    "langgraph": "import langgraph.graph",
    "dbos": "import dbos",
}


@dataclass
class Bench:
    """Starts one process after the other, each with a store of its own."""

    server: Server
    folder: Path
    quick: bool
    rounds: int
    measured: Measured = field(default_factory=list[dict[str, Samples]])
    _names: Iterator[int] = field(default_factory=itertools.count)

    def all_of(self, engines: Sequence[str]) -> None:
        """Every scenario; the engines take turns in an order that changes."""
        dice = random.Random(0)
        for turn in range(self.rounds):
            self.measured.append({name: {} for name in engines})
            scenarios = [*EVERY_ROUND, *(() if turn else (*ONCE, *CRASHES))]
            for scenario in scenarios:
                for name in dice.sample(engines, len(engines)):
                    if _applies(scenario, name):
                        self._one(name, scenario, turn)

    def _one(self, name: str, scenario: str, turn: int) -> None:
        start = time.monotonic()
        if scenario in CRASHES:
            found = self._crashed(name, scenario)
        else:
            process = self._begin(name, scenario, self._place(name), turn=turn)
            found = _samples(process)
        self.measured[-1][name] |= found
        spent = time.monotonic() - start
        say(f"{turn + 1}/{self.rounds} {scenario:8} {name:34} {spent:6.1f} s")

    def _crashed(self, name: str, scenario: str) -> Samples:
        places: dict[str, str] = {}

        def begin(what: str, log: Path) -> subprocess.Popen[str]:
            # The process that goes on has the store of the one that was killed.
            place = places.setdefault(log.name, self._place(name))
            return self._begin(name, what, place, log=log)

        with tempfile.TemporaryDirectory(dir=self.folder) as logs:
            return CRASHES[scenario](begin, Path(logs), quick=self.quick)

    def _begin(
        self, name: str, scenario: str, where: str, *, turn: int = 0, log: Path | None = None
    ) -> subprocess.Popen[str]:
        python = str(RIVALS) if is_rival(name) else sys.executable
        speed, part = "quick" if self.quick else "full", f"{turn}/{self.rounds}"
        return subprocess.Popen(
            [python, "-m", "bench.runner_worker", *(name, scenario, where, speed, part)],
            cwd=ROOT,
            env=os.environ | ({LOG: str(log)} if log else {}),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def _place(self, name: str) -> str:
        number = next(self._names)
        if "PostgreSQL" in name:
            return self.server.new_database(f"bench_{number}")
        return str(self.folder / f"{number}.db")


def _samples(process: subprocess.Popen[str]) -> Samples:
    said, complaint = process.communicate(timeout=600)
    if process.returncode:
        raise SystemExit(f"{process.args!r}\n{complaint[-4000:]}")
    found: Samples = json.loads(said.splitlines()[-1])
    return found


def _applies(scenario: str, name: str) -> bool:
    if scenario == "open":
        return name.startswith("Plansmith") and "memory" not in name
    if scenario in ("crash", "long", "storage"):
        return "memory" not in name
    # First come, first served would be all a barrier of supersteps can do.
    return scenario != "narrow" or name.startswith(("floor", "Plansmith"))


def is_rival(name: str) -> bool:
    """Whether an engine lives in the rivals' environment."""
    return name.startswith(("LangGraph", "DBOS"))


def imports() -> dict[str, float]:
    """Milliseconds of processor time that an import adds to a bare interpreter."""
    found: dict[str, float] = {}
    for name, statement in IMPORTS.items():
        python = sys.executable if "lansmith" in name else str(RIVALS)
        if Path(python).exists():
            times = [_cpu(python, "-c", statement) - _cpu(python, "-c", "") for _ in range(5)]
            found[name] = sorted(times)[2]
    bare = [
        _cpu(sys.executable, "-m", "plansmith", "--help") - _cpu(sys.executable, "-c", "")
        for _ in range(5)
    ]
    return found | {"plansmith --help": sorted(bare)[2]}


def _cpu(*command: str) -> float:
    before = os.times()
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    after = os.times()
    spent = (after.children_user + after.children_system) - (
        before.children_user + before.children_system
    )
    return spent * 1000


def versions() -> list[str]:
    """What the rivals' environment holds."""
    packages = ("langgraph", "langgraph-checkpoint-sqlite", "langgraph-checkpoint-postgres", "dbos")
    code = f"from importlib.metadata import version\nfor p in {packages}: print(p, version(p))"
    done = subprocess.run([RIVALS, "-c", code], check=True, capture_output=True, text=True)
    return done.stdout.splitlines()


def say(words: str) -> None:
    """Show that it is going on."""
    print(words, file=sys.stderr, flush=True)


@contextmanager
def _set_up(args: argparse.Namespace) -> Iterator[Bench]:
    with private_server(fsync=True) as server, tempfile.TemporaryDirectory() as folder:
        yield Bench(server, Path(folder), args.quick, 1 if args.quick else args.rounds)


def _measure(args: argparse.Namespace) -> Facts:
    engines = [name for name in ENGINES if not (args.own and is_rival(name))]
    load = [os.getloadavg()[0]]
    with _set_up(args) as bench:
        database = bench.server.sql("SHOW server_version").split()[0]
        bench.all_of(engines)
        early = [asyncio.run(first_action(early=how, quick=args.quick)) for how in (True, False)]
    load.append(os.getloadavg()[0])
    return Facts(
        measured=bench.measured,
        early=early,
        imports=imports(),
        rivals=[] if args.own else versions(),
        database=database,
        load=load,
    )


def main() -> None:
    """Measure everything, print the tables, or write them to the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a smoke test: figures mean little")
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
    print(text)
    if args.write:
        RESULT.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
