from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from lab.tests.training.public_sets import write_public_sets
from lab.training.rows.all import RowFiles, write_all

SHARE = 0.002


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rows")
    write_public_sets(folder / "sets")
    list(write_all(folder / "first", RowFiles(folder / "sets", 5, SHARE), 1))
    list(write_all(folder / "second", RowFiles(folder / "sets", 5, SHARE), 2))
    return folder


def _rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_one_command_makes_the_rows_of_all_families_for_both_parts(made: Path) -> None:
    for part in ("train", "validation"):
        plans = _rows(made / "first" / part / "plans.jsonl")
        assert {row["family"] for row in plans} == {"folder", "tools"}
        assert {row["family"] for row in _rows(made / "first" / part / "answers.jsonl")} == {
            "answer"
        }


def test_all_rows_are_the_same_however_many_processes_make_them(made: Path) -> None:
    for path in (made / "first").rglob("*.jsonl"):
        again = made / "second" / path.relative_to(made / "first")
        assert path.read_text(encoding="utf-8") == again.read_text(encoding="utf-8")


def test_no_request_of_validation_is_trained_on(made: Path) -> None:
    trained, held = (
        {row["request"].casefold() for row in _rows(made / "first" / part / "plans.jsonl")}
        for part in ("train", "validation")
    )
    assert held
    assert not trained & held
