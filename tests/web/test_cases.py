"""The cases that the page's reducer and differences are held to are what the library says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.web.make_cases import CASES, STORIES, state_json

from plansmith import Plan
from plansmith.plan.diff import diff_plans
from plansmith.plan.events import EVENT_TYPES, read_event
from plansmith.plan.fold import fold

FILES = sorted(CASES.glob("*.json"))


def read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_case_folds_to_its_states_and_its_plans_differ_as_it_says(path: Path) -> None:
    case = read(path)
    events = [read_event(each) for each in case["events"]]
    states = {str(each.number): state_json(fold(events[: each.number])) for each in events}
    assert states == case["states"]
    for each in case["diffs"]:
        before, after = (Plan.model_validate(each[name]) for name in ("before", "after"))
        assert diff_plans(before, after).to_json() == each["diff"]


def test_there_is_a_case_for_every_story_and_for_every_type_of_event() -> None:
    assert {path.stem for path in FILES} == {story.__name__ for story in STORIES}
    seen = {event["body"]["type"] for path in FILES for event in read(path)["events"]}
    assert seen == {each.type for each in EVENT_TYPES}
