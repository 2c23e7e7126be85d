from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.unit.cli.conftest import Cli

CALL = {"type": "tool", "name": "look", "arguments": {"name": "x"}}
REFUSED: dict[str, Any] = {
    "tasks": [{"title": "Pay", "query": "pay", "agent_name": "desk", "pattern": "daily"}],
    "adequate": False,
    "reason": "no account",
}


def file(folder: Path, value: Any) -> str:
    (folder / "plan.json").write_text(json.dumps(value), encoding="utf-8")
    return "plan.json"


def test_a_plan_in_a_dialect_is_checked_by_the_check_command(intake: Path, cli: Cli) -> None:
    name = file(intake, [CALL])
    code, out, _ = cli("check", name, "--dialect", "sage", "--tools", "tools.py", "--json")
    assert (code, json.loads(out)["ok"]) == (0, True)
    assert json.loads(out)["hash"]
    wrong = file(intake, [CALL | {"name": "lok"}, 5])
    code, out, _ = cli("check", wrong, "--dialect", "sage", "--tools", "tools.py")
    assert code == 3
    assert "PS101" in out
    assert "PS014" in out


def test_a_plan_in_a_dialect_is_run_by_the_run_command(intake: Path, cli: Cli) -> None:
    name = file(intake, [CALL])
    words = ("--dialect", "sage", "--tools", "tools.py", "--yes-read-only", "--json")
    code, out, _ = cli("run", name, *words)
    assert code == 0
    assert json.loads(out)["status"] == "done"


def test_a_plan_that_refuses_is_not_run_by_the_run_command(intake: Path, cli: Cli) -> None:
    code, _, told = cli("run", file(intake, REFUSED), "--dialect", "valuecell")
    assert code == 3
    assert "pattern" in told


def test_an_unknown_dialect_is_refused_by_the_command_line_with_the_list(cli: Cli) -> None:
    code, _, told = cli("check", "plan.json", "--dialect", "klingon")
    assert code == 2
    assert "valuecell" in told
