"""How much a command tells: -q the answer alone, -v stages, model, times and tokens."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.commands import Cli

LOOK = {"id": "a", "tool": "look", "inputs": {"name": "x"}}
SAYS = {"id": "answer", "say": "It is {{a.name}}"}
NOTE = {"id": "n", "tool": "note", "inputs": {"text": "hello"}}
PY = ("--tools", "tools.py")


@pytest.fixture(autouse=True)
def letters(intake: Path) -> None:
    (intake / "may.txt").write_text("Two invoices\n", encoding="utf-8")


def test_quiet_prints_the_answer_alone(cli: Cli) -> None:
    plan = cli.write(LOOK, SAYS)
    assert cli("run", plan, *PY, "-q") == (0, "It is x\n", "")
    told = cli("run", plan, *PY)
    assert (told[:2], bool(told.err)) == ((0, "It is x\n"), True)


def test_quiet_tells_what_is_wrong_with_an_answer_on_stderr(cli: Cli) -> None:
    asked = ("ask", "Which files here mention invoices?", "--yes-read-only", "--no-input")
    _, out, err = cli(*asked, "-q", "--model", "rules", code=0, out="may.txt")
    assert "made by rules" not in out
    assert "made by rules" in err


def test_quiet_decisions_and_plans_tell_nothing_but_their_outcome(cli: Cli) -> None:
    cli("run", cli.write(NOTE, SAYS | {"say": "noted"}), *PY, "--no-input")
    hash_ = cli("show last --json")[1].split('"hash": "')[1][:64]
    assert cli("approve last", hash_, *PY, "-q") == (0, "", "")
    assert cli("go last", *PY, "-q") == (0, "noted\n", "")
    _, out, err = cli("plan", "What is 2 + 3?", "-q", "--model", "rules", code=0)
    assert out
    assert not err


def test_verbose_tells_stages_the_model_times_and_tokens(cli: Cli) -> None:
    asked = ("ask", "Which files here mention invoices?", "--yes-read-only", "--no-input")
    verbose = cli(*asked, "-v", "--model", "rules")[2]
    assert "draft: rules" in verbose
    assert "tokens" in verbose
    assert "Time" in verbose or "time" in verbose
    plain = cli(*asked, "--model", "rules")[2]
    assert "draft: rules" not in plain
