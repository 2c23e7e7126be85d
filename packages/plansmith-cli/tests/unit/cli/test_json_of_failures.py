"""`--json` prints one JSON document whatever happens: refusals, wrong usage, crashes."""

from __future__ import annotations

import argparse
import json
from typing import Any

import pytest
from tests.unit.cli.conftest import Cli, Write

from plansmith_cli.command_table import COMMANDS
from plansmith_cli.commands import plans

LOOK = {"id": "a", "tool": "look", "inputs": {"name": "x"}}
NOT_UTF_8 = "\udcff"  # as such a byte of the command line reaches a program


def error_of(out: str) -> dict[str, Any]:
    (key, told) = json.loads(out).popitem()
    assert key == "error"
    assert told.keys() >= {"code", "message", "hint", "exit"}
    found: dict[str, Any] = told
    return found


@pytest.mark.parametrize("name", [*COMMANDS, "no-such-command"])
def test_wrong_usage_of_every_command_is_told_as_json(name: str, cli: Cli) -> None:
    code, out, err = cli(*name.split(), "--json", "--no-such-flag", "a", "b", "c", "d", NOT_UTF_8)
    assert code == 2
    told = error_of(out)
    assert (told["code"], told["exit"]) == ("usage", 2)
    assert told["message"].partition(":")[2] or "no command" in told["message"]
    assert err


REFUSED: dict[str, list[str]] = {
    "run": ["nowhere.json"],
    "runs watch": ["last"],
    "approve": ["last", "HASH"],
    "reject": ["last"],
    "answer": ["last", "yes"],
    "runs edit": ["last", "--file", "nowhere.json"],
    "runs change": ["last", "more"],
    "runs undo": ["last"],
    "runs pause": ["last"],
    "go": ["last"],
    "runs retry": ["last"],
    "runs cancel": ["last"],
    "report": ["last"],
    "show": ["nowhere.json"],
    "check": ["nowhere.json"],
    "diff": ["nowhere.json", "nowhere.json"],
    "runs replay": ["last"],
    "store verify": ["last"],
    "ask": [" "],
    "plan": [" "],
    "chat": ["--thread", "last"],
    "threads": ["show", "last"],
    "tools": ["show", "nothing"],
    "agents": ["show", "nothing"],
    "templates": ["show", "nothing"],
    "schedule": ["show", "nothing"],
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_refusal_is_told_as_json(name: str, cli: Cli) -> None:
    code, out, _ = cli(*name.split(), *REFUSED[name], "--json")
    told = error_of(out)
    assert code == told["exit"] != 0
    assert told["message"]


def test_a_plan_that_is_not_usable_is_told_with_its_problems(cli: Cli, write: Write) -> None:
    code, out, _ = cli("run", write(LOOK | {"after": ["a"]}), "--tools", "tools.py", "--json")
    told = error_of(out)
    assert (code, told["code"], told["problems"][0]["code"]) == (3, "invalid", "PS305")


def test_what_waits_for_a_person_is_the_run_itself(cli: Cli, write: Write) -> None:
    note = {"id": "n", "tool": "note", "inputs": {"text": "x"}}
    cli("run", write(note), "--tools", "tools.py", "--no-input")
    code, out, _ = cli("approve", "last", "--no-input", "--json")
    assert (code, json.loads(out)["status"]) == (5, "reviewing")


def test_a_crash_is_told_as_json_and_whole_on_stderr(
    cli: Cli, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(_: argparse.Namespace) -> int:
        raise RuntimeError("a mistake")

    monkeypatch.setattr(plans, "CHECK", plans.CHECK._replace(main=crash))
    code, out, err = cli("check", write(LOOK), "--json")
    told = error_of(out)
    assert (code, told["exit"], told["kind"]) == (1, 1, "Crash")
    assert "a mistake" in told["message"]
    assert "Traceback" in err
    code, out, err = cli("check", write(LOOK))
    assert (code, out) == (1, "")


def test_text_after_two_dashes_is_no_wish_for_json(cli: Cli) -> None:
    code, out, _ = cli("show", "--", "--json")
    assert (code, out) == (2, "")
