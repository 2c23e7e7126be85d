"""Small promises of the command line: hashes, options, what is missing."""

from __future__ import annotations

import json

import pytest
from tests.unit.cli.conftest import Cli, Write

from plansmith import Plansmith, read_plan
from plansmith.errors import PlanInvalid
from plansmith_cli.describe import revision_lines

PLANNED = "plan_proposed"
LOOK = {"id": "a", "tool": "look", "inputs": {"name": "x"}}


def test_a_shown_plan_file_has_its_hash_and_can_be_read_again(cli: Cli, write: Write) -> None:
    shown = cli("show", write(LOOK), "--json")[1]
    stated = json.loads(shown)
    assert stated["hash"] == json.loads(cli("check", "plan.json", "--json")[1])["hash"]
    assert read_plan(shown).hash == stated["hash"]
    with pytest.raises(PlanInvalid, match="hash is not the hash of this plan"):
        read_plan(stated | {"steps": [LOOK | {"inputs": {"name": "y"}}]})


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


def test_a_noun_alone_lists_and_an_option_before_the_command_is_told_its_place(cli: Cli) -> None:
    for noun in ("tools", "model", "templates", "schedule"):
        assert cli(noun) == cli(noun, "list")
    assert "options follow the command" in cli("--lang", "zh", "runs")[2]


def test_a_check_goes_on_behind_a_wrong_field(cli: Cli, write: Write) -> None:
    wrong = {"id": "b", "tool": "lok", "input": {}}
    code, out, _ = cli("check", write(LOOK, wrong), "--tools", "tools.py", "--json")
    found = json.loads(out)
    codes = [each["code"] for each in found["problems"]]
    assert (code, found["hash"], codes[:2]) == (3, None, ["PS003", "PS101"])


def test_what_a_paused_run_needs_to_go_on_is_told(cli: Cli, write: Write) -> None:
    cli("run", write({"id": "n", "tool": "note", "inputs": {"text": "x"}}), "--tools", "tools.py")
    assert "that has it with --tools" in cli("runs", "pause", "last")[2]
    assert "that has it with --tools" not in cli("runs", "pause", "last", "--tools", "tools.py")[2]


def test_a_request_that_cannot_be_planned_is_told_what_is_ready(cli: Cli) -> None:
    _, out, err = cli("ask", "sing me a song", "--model", "rules", "--no-input")
    assert "is set up" not in out
    assert "csv-overview" in err


def test_the_review_of_a_copy_names_both_files(cli: Cli, write: Write) -> None:
    copy = {"id": "c", "tool": "files.copy", "inputs": {"path": "tools.py", "to": "b.py"}}
    assert "changes `tools.py → b.py`" in cli("run", write(copy), "--no-input")[2]


async def test_a_change_that_gives_the_same_plan_is_told() -> None:
    async with Plansmith() as smith:
        run = await smith.submit(read_plan({"steps": [{"id": "a", "say": "Hello!"}]}))
        events = [each for each in await smith.store.events(run.id) if each.body.type == PLANNED]
    assert [*revision_lines([*events, *events])][1] == "planning again gave the same plan"
