"""The same three jobs in Plansmith, LangGraph, pydantic-ai and Prefect: lines, and crashes."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path

from bench.compare_cases import CASES, FRAMEWORKS, JOBS, Case, Outcome
from bench.compare_prefect import PrefectProgram, PrefectServer
from bench.compare_run import PlainProgram, Program, drive, environment
from bench.compare_table import RESULTS, page

# By framework and number of the case.
Measured = dict[tuple[str, int], Outcome]


def measure(frameworks: Sequence[str], jobs: Sequence[str], folder: Path) -> Measured:
    """Runs every case of the jobs in every framework, one after the other."""
    return dict(_cases(frameworks, jobs, folder))


def _cases(
    frameworks: Sequence[str], jobs: Sequence[str], folder: Path
) -> Iterator[tuple[tuple[str, int], Outcome]]:
    for framework in frameworks:
        with ExitStack() as stack:
            server: PrefectServer | None = None
            if framework == "prefect":
                home = folder / "prefect"
                home.mkdir()
                server = stack.enter_context(closing(PrefectServer(home)))
            for number, case in enumerate(CASES):
                if case.job in jobs:
                    place = folder / f"{framework}-{case.job}-{number}"
                    place.mkdir()
                    found = _run(framework, case, place, server)
                    print(framework, case.job, case.title, found, file=sys.stderr, flush=True)
                    yield (framework, number), found


def _run(framework: str, case: Case, folder: Path, server: PrefectServer | None) -> Outcome:
    env = environment(case, folder)
    program: Program
    if server:
        program = PrefectProgram(server, case.job, folder, env)
    else:
        program = PlainProgram(framework, case.job, folder, env)
    with closing(program):
        return drive(case, program, folder)


def main() -> None:
    """Measures, and prints the tables; with --write, writes them to bench/results."""
    parser = argparse.ArgumentParser(prog="scripts/bench compare", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=FRAMEWORKS, default=list(FRAMEWORKS))
    parser.add_argument("--jobs", nargs="+", choices=list(JOBS), default=list(JOBS))
    parser.add_argument("--keep", type=Path, help="an empty folder for logs and stores")
    parser.add_argument("--write", action="store_true", help="write bench/results/compare.md")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        measured = measure(given.only, given.jobs, given.keep or Path(name))
    text = page(measured)
    print(text)
    if given.write:
        RESULTS.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
