from __future__ import annotations

from datetime import date, timedelta
from itertools import islice
from random import Random

import pytest
from jsonschema_rs import validator_for
from lab.training.rows.domains import Part
from lab.training.rows.row import Row
from lab.training.rows.toolbox_data import toolboxes
from lab.training.rows.toolboxes import ToolboxRows

COUNT = 150
PARTS: tuple[Part, ...] = ("train", "validation")


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return [*islice(ToolboxRows(Random(4), "train").rows(), COUNT)]


def test_there_are_many_families_of_foreign_tools() -> None:
    assert len({each.name.partition(".")[0] for each in toolboxes()}) >= 35


def test_calls_of_foreign_tools_fit_the_schemas_that_their_rows_offer(rows: list[Row]) -> None:
    for row in rows:
        offered = {each["name"]: each for each in row.tools if not isinstance(each, str)}
        for call in row.calls:
            schema = offered[call["tool"]]["input_schema"]
            known = {name: each for name, each in call["args"].items() if each not in ("?", "$1")}
            assert set(schema["required"]) <= set(call["args"]) <= set(schema["properties"])
            assert validator_for({**schema, "required": []}).is_valid(known), row.line()


def test_tomorrow_is_the_day_after_now_in_calls_of_foreign_tools(rows: list[Row]) -> None:
    said = [row for row in rows if row.calls and _says_tomorrow(row.request)]
    assert said
    for row in said:
        day = date.fromisoformat(row.now.split()[1]) + timedelta(days=1)
        assert day.isoformat() in row.line()


def _says_tomorrow(request: str) -> bool:
    return "明天" in request or ("tomorrow" in request and "after tomorrow" not in request)


def test_a_request_without_a_fitting_foreign_tool_gets_an_apology(rows: list[Row]) -> None:
    assert all(row.reply for row in rows if row.kind == "unfit")
    assert all("$1" not in str(row.calls[0]) for row in rows if row.calls)


def test_foreign_tools_of_validation_rows_are_never_asked_for_in_training() -> None:
    trained, held = (
        {each.of.name for each in (ToolboxRows(Random(n), part).pick() for n in range(300))}
        for part in PARTS
    )
    assert held
    assert not trained & held
