"""Writes what scripts/bench compare has measured as a page."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Final

from lab.bench.compare_cases import CASES, FRAMEWORKS, JOBS, PROGRAMS, TITLES, Outcome
from lab.bench.compare_lines import code_lines
from lab.bench.runner_process import RIVALS

RESULTS: Final = Path(__file__).parent / "results" / "compare.md"
PACKAGES: Final = (
    *("langgraph", "langgraph-checkpoint-sqlite", "pydantic-ai-slim", "dbos", "prefect"),
)
INTRO: Final = """\
# The same jobs in four frameworks

Made by `scripts/bench compare --write`. [What this means](../../../docs/compare.md) is told with
the programs, which are in `lab/bench/compare_programs/`.
"""
CRASHES: Final = """\
## After a crash

A program is killed with SIGKILL at the point that a row names, restarted the way its framework's
documentation says, and runs to its end. A cell has what a log of the outside world shows: `ok`
(each call took effect as often as without a crash), or what differed. *Again* counts calls that
took effect more often than that, *lost* those that never did, *asked* the questions whether a call
took effect, and *approval* how often a person had to say yes again.
"""


_TELL_VERSIONS: Final = """\
import json, sys
from importlib.metadata import version
print(json.dumps({name: version(name) for name in sys.argv[1:]}))
"""


def page(measured: Mapping[tuple[str, int], Outcome]) -> str:
    """Returns the page with both tables."""
    shown = [name for name in FRAMEWORKS if any(key[0] == name for key in measured)]
    jobs = [name for name in JOBS if any(CASES[key[1]].job == name for key in measured)]
    parts = [INTRO, _versions(), *_lines_table(shown, jobs), CRASHES]
    for job in jobs:
        parts += [f"### {job.capitalize()}: {JOBS[job]}\n", *_crash_table(shown, job, measured)]
    return "\n".join(parts).rstrip() + "\n"


def cell(found: Outcome) -> str:
    """Says in few words what a case came to."""
    words = [
        f"{count} {what}"
        for count, what in (
            (found.changes_again, "change again" if found.changes_again == 1 else "changes again"),
            (found.lost, "lost"),
            (found.approvals_again, "approval again"),
            (found.reads_again, "read again" if found.reads_again == 1 else "reads again"),
            (found.questions, "asked"),
        )
        if count
    ]
    if not found.ended:
        words.append("did not end")
    return ", ".join(words) or "ok"


def _found(found: Outcome | None) -> str:
    return "not measured" if found is None else cell(found)


def _lines_table(shown: Iterable[str], jobs: Iterable[str]) -> Iterator[str]:
    yield "## Lines of code\n"
    yield "Lines that hold code, in one format; no blank lines, comments or docstrings.\n"
    yield from _table(
        ["job", *(TITLES[name] for name in shown)],
        (
            [job, *(str(code_lines(PROGRAMS / f"{name}_{job}.py")) for name in shown)]
            for job in jobs
        ),
    )


def _crash_table(
    shown: Iterable[str], job: str, measured: Mapping[tuple[str, int], Outcome]
) -> Iterator[str]:
    shown = list(shown)
    yield from _table(
        ["killed", *(TITLES[name] for name in shown)],
        (
            [case.title, *(_found(measured.get((name, number))) for name in shown)]
            for number, case in enumerate(CASES)
            if case.job == job
        ),
    )


def _table(head: list[str], rows: Iterable[list[str]]) -> Iterator[str]:
    yield "| " + " | ".join(head) + " |"
    yield "|---" * len(head) + "|"
    for row in rows:
        yield "| " + " | ".join(row) + " |"
    yield ""


def _versions() -> str:
    found: dict[str, str] = {}
    if RIVALS.exists():
        told = subprocess.run(
            [str(RIVALS), "-c", _TELL_VERSIONS, *PACKAGES],
            capture_output=True,
            check=True,
            text=True,
        )
        found = json.loads(told.stdout)
    others = "".join(f", {name} {number}" for name, number in found.items())
    python = ".".join(map(str, sys.version_info[:3]))
    return f"Python {python}, plansmith {version('plansmith')}{others}.\n"
