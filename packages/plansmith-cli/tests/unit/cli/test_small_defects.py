"""Small promises of the command line and the library: hashes, marks of sources, tables, rules."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.unit.cli.conftest import Cli, Write

from plansmith import Plansmith, read_plan, tool
from plansmith.errors import PlanInvalid
from plansmith.testing import ScriptedModel

LOOK = {"id": "a", "tool": "look", "inputs": {"name": "x"}}


@tool(effect="read")
def rows(count: int) -> list[dict[str, Any]]:
    """Gives rows."""
    return [{"region": f"R{number}", "total": number} for number in range(count)]


def test_a_shown_plan_file_has_its_hash_and_can_be_read_again(cli: Cli, write: Write) -> None:
    shown = cli("show", write(LOOK), "--json")[1]
    stated = json.loads(shown)
    assert stated["hash"] == json.loads(cli("check", "plan.json", "--json")[1])["hash"]
    assert read_plan(shown).hash == stated["hash"]
    with pytest.raises(PlanInvalid, match="hash is not the hash of this plan"):
        read_plan(stated | {"steps": [LOOK | {"inputs": {"name": "y"}}]})


async def test_results_are_a_table_without_a_model() -> None:
    steps = [
        {"id": "found", "tool": "rows", "inputs": {"count": 2}},
        {"id": "answer", "instruction": "The totals: {{found}}", "style": "results"},
    ]
    async with Plansmith(tools=[rows]) as smith:
        run = await smith.do(read_plan({"goal": "g", "steps": steps}))
    assert run.answer == "The totals:\n\n| region | total |\n|---|---|\n| R0 | 0 |\n| R1 | 1 |"


async def test_marks_of_sources_are_the_reports_and_not_part_of_an_answer() -> None:
    steps = [
        {"id": "found", "tool": "rows", "inputs": {"count": 1}},
        {"id": "short", "instruction": "Tell {{found}} in short"},
        {"id": "copy", "tool": "rows", "inputs": {"count": 1}, "after": ["short"]},
        {"id": "quoted", "say": "It says: {{short}}"},
        {"id": "answer", "instruction": "Tell {{found}} at length"},
    ]
    said = "One region [step:found]."
    async with Plansmith(ScriptedModel(said, said), tools=[rows]) as smith:
        run = await smith.do(read_plan({"goal": "g", "steps": steps}))
    assert run.answer == "One region."
    assert run.result("quoted") == "It says: One region."
    assert "[`found`]" in run.report


@pytest.mark.parametrize(
    ("asked", "called", "inputs"),
    [
        ("Save 'Buy milk' as todo.txt", "files.write", {"path": "todo.txt", "text": "Buy milk"}),
        ("Copy a.txt to b.txt", "files.copy", {"path": "a.txt", "to": "b.txt"}),
    ],
)
def test_rules_take_what_was_said(
    cli: Cli, asked: str, called: str, inputs: dict[str, str]
) -> None:
    run = json.loads(cli("plan", asked, "--model", "rules", "--json")[1])
    assert run["locale"] == "en"
    [first, *_] = run["plan"]["steps"]
    assert (first["tool"], first["inputs"]) == (called, inputs)


def test_a_mistyped_option_is_told_the_one_that_was_meant(cli: Cli) -> None:
    code, _, err = cli("ask", "x", "--yes-read-onyl")
    assert code == 2
    assert "did you mean --yes-read-only?" in err


def test_a_core_installation_is_told_the_command_that_brings_the_runtime(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("plansmith_cli.extras.find_spec", lambda _: None)
    _, _, err = cli("model", "pull", "--offline")
    assert "pip install" in err
    assert "xllamacpp" in err


@pytest.mark.parametrize("option", ["--yes", "--yes-read", "--js"])
def test_the_beginning_of_an_option_is_no_option(cli: Cli, write: Write, option: str) -> None:
    cli("run", write(LOOK), "--no-input")
    code, _, said = cli("go", "last", option)
    assert (code, "unrecognized arguments" in said) == (2, True)
