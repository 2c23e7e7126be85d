from __future__ import annotations

import json
import re
from collections import Counter
from datetime import date, datetime, timedelta
from random import Random
from typing import Any

import pytest
from jsonschema_rs import validator_for
from lab.training.prompts import Renderer
from lab.training.rows.check import Checker
from lab.training.rows.row import Row
from lab.training.rows.workflow_sets import nearest_offered
from lab.training.rows.workflow_tools import work_tools
from lab.training.rows.workflows import workflow_rows

COUNT = 1_200


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return [*workflow_rows(4, "train", COUNT)]


def _offered(row: Row) -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in row.tools if not isinstance(each, str)}


def _calls(rows: list[Row], name: str) -> list[tuple[Row, dict[str, Any]]]:
    """Returns the calls of a tool under all its names, by its descriptions."""
    [about] = [tuple(each.about.values()) for each in work_tools() if each.name == name]
    return [
        (row, call)
        for row in rows
        for call in row.calls
        if str(_offered(row)[call["tool"]]["description"]).startswith(about)
    ]


def test_the_same_seed_gives_the_same_workflow_rows() -> None:
    assert workflow_rows(2, "train", 40) == workflow_rows(2, "train", 40)
    assert workflow_rows(2, "train", 40) != workflow_rows(3, "train", 40)


def test_workflow_rows_have_both_languages_and_every_kind(rows: list[Row]) -> None:
    kinds = Counter((row.kind, row.lang) for row in rows)
    assert {kind for kind, _ in kinds} >= {"single", "calls", "missing", "unfit"}
    assert all(kinds["calls", lang] > COUNT // 8 for lang in ("en", "zh"))


def test_calls_of_workflow_rows_fit_the_schemas_that_are_offered(rows: list[Row]) -> None:
    for row in rows:
        for call in row.calls:
            schema = _offered(row)[call["tool"]]["input_schema"]
            known = {
                name: each
                for name, each in call["args"].items()
                if not re.fullmatch(r"\?|\$\d", str(each))
            }
            assert set(schema["required"]) <= set(call["args"]) <= set(schema["properties"])
            assert validator_for({**schema, "required": []}).is_valid(known), row.line()


def test_workflow_rows_become_plans_with_the_reader_of_the_product(rows: list[Row]) -> None:
    checker = Checker()
    faults = [checker.fault(json.loads(row.line())) for row in rows[:200]]
    assert not any(faults), faults


def test_a_result_is_referred_to_only_behind_its_call(rows: list[Row]) -> None:
    chains = [row for row in rows if "$1" in row.line()]
    assert len(chains) > COUNT // 5
    assert any(len(row.calls) > 2 and "$2" in row.line() for row in chains)
    for row in rows:
        for place, call in enumerate(row.calls):
            named = map(int, re.findall(r"\$(\d)", json.dumps(call["args"])))
            assert all(0 < each <= place for each in named), row.line()


def test_currencies_in_words_become_codes(rows: list[Row]) -> None:
    made = _calls(rows, "currency.convert")
    assert made
    for _, call in made:
        values = [each for each in call["args"].values() if isinstance(each, str)]
        assert all(re.fullmatch(r"[A-Z]{3}|\$\d|\?", each) for each in values)


def test_a_reminder_has_the_words_of_the_request_and_a_whole_date_and_time(
    rows: list[Row],
) -> None:
    made = _calls(rows, "reminders.set")
    assert made
    for row, call in made:
        text, at = call["args"].values()
        assert text.casefold() in row.request.casefold()
        assert not text.casefold().startswith(("remind", "提醒"))
        assert at == "?" or re.fullmatch(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:00Z)?", at), at


def test_tomorrow_is_the_day_after_now_in_workflow_rows(rows: list[Row]) -> None:
    said = [
        row
        for row in rows
        if row.calls
        and ("明天" in row.request or re.search(r"(?<!after )\btomorrow\b", row.request))
    ]
    assert said
    for row in said:
        day = date.fromisoformat(row.now.split()[1]) + timedelta(days=1)
        assert day.isoformat() in row.line(), row.line()


def test_a_moment_without_a_day_is_the_next_one_to_come(rows: list[Row]) -> None:
    for row in rows:
        now = datetime.strptime(row.now, "%A %Y-%m-%d %H:%M")  # noqa: DTZ007
        for found in re.findall(r'"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d)', row.line()):
            moment = datetime.fromisoformat(" ".join(found))
            assert moment >= now.replace(hour=0, minute=0), row.line()


def test_an_open_value_is_asked_for_and_nothing_else_is_made_up(rows: list[Row]) -> None:
    missing = [row for row in rows if row.kind == "missing"]
    assert missing
    for row in missing:
        [call] = row.calls
        assert "?" in call["args"].values(), row.line()


def test_tools_of_validation_rows_are_asked_for_in_no_training_row(rows: list[Row]) -> None:
    held = {name for each in work_tools() if each.held for name in (each.name, *each.others)}
    plain = {re.sub(r"[._-]", "", name).casefold() for name in held}

    def asked(some: list[Row]) -> set[str]:
        return {
            re.sub(r"[._-]", "", str(call["tool"])).casefold() for row in some for call in row.calls
        }

    assert not plain & asked(rows)
    assert plain & asked([*workflow_rows(4, "validation", 60)])


def test_lists_of_many_tools_are_shared_by_enough_rows_to_be_read_once() -> None:
    renderer = Renderer()
    made = workflow_rows(11, "train", 600)
    starts = Counter(
        renderer.render(json.loads(row.line())).long_start for row in made if len(row.tools) > 13
    )
    assert starts
    assert sorted(starts.values())[-2] >= 48


def test_a_duration_is_told_in_the_seconds_that_an_argument_names(rows: list[Row]) -> None:
    found = [
        (row.request, value)
        for row in rows
        for call in row.calls
        for name, value in call["args"].items()
        if "seconds" in name and isinstance(value, int)
    ]
    assert found
    for request, value in found:
        for count in re.findall(r"(\d+) ?(?:minutes\b|分钟)", request):
            assert value == 60 * int(count) or value % 60 or f"{value}" in request, request


def test_of_many_tools_the_nearest_are_offered_with_those_of_the_calls() -> None:
    rng = Random(3)
    [row, *_] = [each for each in workflow_rows(11, "train", 300) if len(each.tools) > 13]
    near = nearest_offered(rng, row)
    assert 5 < len(near.tools) < len(row.tools)
    names = {each["name"] for each in near.tools if not isinstance(each, str)}
    assert {call["tool"] for call in row.calls} <= names


def test_values_of_a_request_do_not_run_into_each_other(rows: list[Row]) -> None:
    """A number of a thing before a date keeps a space."""
    for row in rows:
        for call in row.calls:
            for value in call["args"].values():
                if isinstance(value, str) and re.fullmatch(r"[A-Z]+-\d+", value):
                    assert not re.search(rf"{re.escape(value)}\d{{4}}-\d\d", row.request), row
