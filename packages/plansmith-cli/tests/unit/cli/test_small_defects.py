"""Small promises of the command line: hashes, options, what is missing."""

from __future__ import annotations

import json

import pytest
from tests.unit.cli.conftest import Cli, Write

from plansmith import read_plan
from plansmith.errors import PlanInvalid

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
