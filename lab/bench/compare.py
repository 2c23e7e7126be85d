"""The same three jobs in Plansmith, LangGraph, pydantic-ai and Prefect: lines, and crashes."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path

from lab.bench.compare_cases import CASES, FRAMEWORKS, JOBS, Case, Outcome
from lab.bench.compare_docs import DOCS, programs, with_part
from lab.bench.compare_prefect import PrefectProgram, PrefectServer
from lab.bench.compare_run import PlainProgram, Program, drive, environment
from lab.bench.compare_table import INTRO, RESULTS, cell, page

# By framework and number of the case.
Measured = dict[tuple[str, int], Outcome]


def measure(framework: str, numbers: Sequence[int], folder: Path) -> Iterator[tuple[int, Outcome]]:
    """Runs cases in a framework, one after the other."""
    with ExitStack() as stack:
        server: PrefectServer | None = None
        if framework == "prefect" and numbers:
            home = folder / "prefect"
            home.mkdir()
            server = stack.enter_context(closing(PrefectServer(home)))
        for number in numbers:
            case = CASES[number]
            place = folder / f"{framework}-{case.job}-{number}"
            place.mkdir()
            found = _run(framework, case, place, server)
            print(f"{framework}, {case.job}, {case.title}: {cell(found)}", file=sys.stderr)
            yield number, found


def read_rows(path: Path) -> Measured:
    """Reads what was measured before."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    rows = map(json.loads, lines)
    return {(framework, number): Outcome(*found) for framework, number, found in rows}


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
    """Measures, and prints the tables; with --write, writes them to lab/bench/results."""
    parser = argparse.ArgumentParser(prog="scripts/bench compare", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=FRAMEWORKS, default=list(FRAMEWORKS))
    parser.add_argument("--jobs", nargs="+", choices=list(JOBS), default=list(JOBS))
    parser.add_argument("--rows", type=Path, help="a file of rows, to go on where it stopped")
    parser.add_argument("--keep", type=Path, help="an empty folder for logs and stores")
    parser.add_argument("--write", action="store_true", help="write the results and docs")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        rows = given.rows or Path(name) / "rows.jsonl"
        for framework in given.only:
            known = read_rows(rows)
            numbers = [
                number
                for number, case in enumerate(CASES)
                if case.job in given.jobs and (framework, number) not in known
            ]
            for number, found in measure(framework, numbers, given.keep or Path(name)):
                with rows.open("a", encoding="utf-8") as file:
                    print(json.dumps([framework, number, found]), file=file)
        text = page(read_rows(rows))
    print(text)
    if given.write:
        RESULTS.write_text(text, encoding="utf-8")
        shown = with_part(DOCS.read_text(encoding="utf-8"), "programs", programs())
        shown = with_part(shown, "measured", text.partition(INTRO)[2])
        DOCS.write_text(shown, encoding="utf-8")


if __name__ == "__main__":
    main()
