"""`plansmith serve worker` and `store workers` say what is wrong before they start anything."""

from __future__ import annotations

import json

import pytest
from tests.unit.cli.conftest import Cli

WRONG = {
    "sqlite": (
        ["serve", "worker", "--store", "sqlite:///runs.db"],
        "workers need a store on PostgreSQL",
    ),
    "drain": (["serve", "worker", "--drain", "-1"], "--drain cannot be -1"),
    "none": (["serve", "worker", "--concurrency", "0"], "0 is not 1 or more"),
    "alone": (["serve", "--concurrency", "2"], "--concurrency needs --engine"),
    "engine": (["serve", "--engine", "temporal"], "invalid choice: 'temporal'"),
    "served": (["serve", "--engine", "dbos", "--port", "0"], "workers need a store on PostgreSQL"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_command_says_what_to_do(name: str, cli: Cli) -> None:
    words, why = WRONG[name]
    code, out, err = cli(*words)
    assert (code, out) == (2, "")
    assert why in err


def test_workers_of_a_file_are_refused_as_json(cli: Cli) -> None:
    code, out, _ = cli("store", "workers", "--json")
    told = json.loads(out)["error"]
    assert (code, told["exit"]) == (2, 2)
    assert "postgresql://" in told["hint"]
