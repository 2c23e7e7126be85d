"""The cases that the page's reducer and differences are held to are what the library says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.web.make_cases import CASES, STORIES, state_json

from plansmith import Plan
from plansmith.plan.data import Json
from plansmith.plan.diff import diff_plans
from plansmith.plan.events import EVENT_TYPES, read_event
from plansmith.plan.fold import fold
from plansmith.report.build import make_report
from plansmith.report.html import to_html
from plansmith.report.markdown import to_markdown

FILES = sorted(CASES.glob("*.json"))


def read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_case_folds_to_its_states_and_its_plans_differ_as_it_says(path: Path) -> None:
    case = read(path)
    events = [read_event(each) for each in case["events"]]
    told = {str(each.number): state_json(fold(events[: each.number])) for each in events}
    assert told == case["states"]
    for each in case["diffs"]:
        before, after = (Plan.model_validate(each[name]) for name in ("before", "after"))
        assert diff_plans(before, after).to_json() == each["diff"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_case_can_be_reported_on(path: Path) -> None:
    events = [read_event(each) for each in read(path)["events"]]
    run = fold(events)
    results: dict[str, Json] = {name: name for name in run.steps if "/" not in name}
    report = make_report(run, run.status, results, events)
    assert to_markdown(report).startswith("# ")
    assert "</html>" in to_html(report)


def test_there_is_a_case_for_every_story_and_for_every_type_of_event() -> None:
    assert {path.stem for path in FILES} == {story.__name__ for story in STORIES}
    seen = {event["body"]["type"] for path in FILES for event in read(path)["events"]}
    assert seen == {each.type for each in EVENT_TYPES}
