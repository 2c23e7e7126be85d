"""The comparison of frameworks: what it counts, and what Plansmith's programs do when killed."""

from __future__ import annotations

from pathlib import Path

import pytest
from lab.bench.compare_cases import CASES, Case, outcome
from lab.bench.compare_docs import DOCS, programs, with_part
from lab.bench.compare_lines import code_lines
from lab.bench.compare_run import PlainProgram, drive, environment
from lab.bench.compare_table import INTRO, RESULTS, cell, page

REPORT = next(case for case in CASES if case.kill == "write after")


def effects(case: Case) -> list[str]:
    """The log of a program that made each call as often as it should."""
    calls = [name for name, count in case.expected.items() for _ in range(count)]
    asks = ["ask approval\tWrite?"] * case.approvals
    return [*asks, *(f"effect {name}\t" for name in calls)]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.job} {case.title}")
def test_a_log_with_every_call_once_is_right(case: Case) -> None:
    found = outcome(case, effects(case), ended=True)
    assert (found.right, cell(found)) == (True, "ok")


def test_repeated_calls_lost_calls_and_questions_are_counted_apart() -> None:
    lines = [line for line in effects(REPORT) if line != "effect read beta\t"]
    lines += ["effect write\tx", "effect read alpha\t", "ask approval\tWrite?", "ask unknown\tDid?"]
    found = outcome(REPORT, lines, ended=False)
    assert cell(found) == (
        "1 change again, 1 lost, 1 approval again, 1 read again, 1 asked, did not end"
    )


def test_only_lines_that_hold_code_are_counted(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        '"""Two\nlines."""\n\n# a comment\nimport sys\n\n\ndef main() -> None:\n    """Says."""\n'
        '    print(\n        """a\nb""",  # three lines of text and call\n    )\n    sys.exit()\n'
    )
    assert code_lines(program) == 7


def test_the_page_shows_every_program_as_it_is_run_with_the_number_of_its_lines() -> None:
    page_now = DOCS.read_text(encoding="utf-8")
    assert with_part(page_now, "programs", programs()) == page_now


def test_the_page_and_the_results_tell_the_same() -> None:
    page_now, results = (each.read_text(encoding="utf-8") for each in (DOCS, RESULTS))
    assert with_part(page_now, "measured", results.partition(INTRO)[2]) == page_now


def test_a_case_nobody_measured_is_said_to_be_so() -> None:
    measured = {("plansmith", 0): outcome(CASES[0], effects(CASES[0]), ended=True)}
    text = page(measured)
    assert "| no crash | ok |" in text
    assert "| in the third read | not measured |" in text


def lived(case: Case, folder: Path) -> str:
    env = environment(case, folder) | {"COMPARE_SETTLE": "0"}
    program = PlainProgram("plansmith", case.job, folder, env)
    try:
        return cell(drive(case, program, folder))
    finally:
        program.close()


def test_a_write_that_died_is_asked_about_and_not_repeated(tmp_path: Path) -> None:
    assert lived(REPORT, tmp_path) == "1 asked"


def test_a_poll_that_died_is_made_again_and_the_rounds_stay_counted(tmp_path: Path) -> None:
    case = next(case for case in CASES if case.kill == "poll 2 after")
    assert lived(case, tmp_path) == "1 read again"
