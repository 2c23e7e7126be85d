from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from lab.tests.training.public_sets import write_public_sets
from lab.training.rows.public import PublicRows
from lab.training.rows.public_sets import PublicSets
from lab.training.rows.row import Row


@pytest.fixture
def rows(tmp_path: Path) -> list[Row]:
    write_public_sets(tmp_path)
    return [*PublicRows(PublicSets(tmp_path), Random(1)).rows()]


def test_results_of_earlier_steps_become_references_in_public_rows(rows: list[Row]) -> None:
    [first, *_] = [row for row in rows if row.kind == "calls"]
    assert first.calls == (
        {"tool": "getRiver", "args": {"river": "Nile"}},
        {"tool": "sendNote", "args": {"to": "Kim", "text": "$1"}},
    )
    assert {"getRiver", "sendNote"} <= {each["name"] for each in first.tools if each}  # type: ignore[index]


def test_a_public_row_with_a_value_that_the_request_does_not_say_is_left_out(
    rows: list[Row],
) -> None:
    assert not [row for row in rows if row.request == "How deep is the lake?"]


def test_a_value_that_is_cut_from_a_public_request_is_asked_for(rows: list[Row]) -> None:
    missing = [row for row in rows if row.kind == "missing"]
    assert missing
    assert all("?" in call["args"].values() for row in missing for call in row.calls)


def test_single_public_requests_say_all_values_of_their_calls(rows: list[Row]) -> None:
    single = [row for row in rows if row.kind == "single"]
    assert single
    for row in single:
        [call] = row.calls
        assert all(str(value) in row.request for value in call["args"].values())


def test_a_request_that_no_public_tool_fits_gets_an_apology_in_its_language(
    rows: list[Row],
) -> None:
    replies = {row.lang: row.reply for row in rows if row.kind == "unfit"}
    assert replies["en"] == "None of the tools here can do this."
    assert replies["zh"].startswith("这里没有")


def test_several_public_requests_in_one_have_a_call_each_and_all_their_tools(
    rows: list[Row],
) -> None:
    several = [row for row in rows if row.kind == "calls" and "$1" not in str(row.calls)]
    assert several
    for row in several:
        assert len(row.calls) > 1
        offered = {each["name"] for each in row.tools if not isinstance(each, str)}
        assert {call["tool"] for call in row.calls} <= offered
