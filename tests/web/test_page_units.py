"""What the page computes without a browser, its lock, its types, and cases it shares with us."""

from __future__ import annotations

import json
import re
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hatchling.builders.wheel import WheelBuilder
from tests.web.browser import ROOT, build_page, needs_packages
from tests.web.make_cases import CASES, STORIES, state_json

from plansmith import Plan
from plansmith.plan.diff import diff_plans
from plansmith.plan.events import EVENT_TYPES, read_event
from plansmith.plan.fold import fold

WEB = ROOT / "web"


def test_the_page_folds_compares_and_draws_as_it_should() -> None:
    needs_packages()
    command = [str(ROOT / "scripts" / "page"), "test"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    output = done.stdout + done.stderr
    assert done.returncode == 0, output[max(output.find("\nnot ok"), 0) :][:6000]


def test_the_lock_is_exact_and_names_no_host() -> None:
    wanted = json.loads((WEB / "package.json").read_text())
    locked = json.loads((WEB / "package-lock.json").read_text())
    assert wanted["overrides"] == {"rolldown": "1.2.15"}
    assert list(wanted["dependencies"]) == ["preact"]
    for name, entry in locked["packages"].items():
        assert not name or (entry["integrity"] and "resolved" not in entry), name


def test_the_page_is_inside_the_wheel_as_its_types_allow(tmp_path: Path) -> None:
    build_page()  # which checks the types first
    (path,) = WheelBuilder(str(ROOT / "packages" / "plansmith-server")).build(
        directory=str(tmp_path)
    )
    with zipfile.ZipFile(path) as wheel:
        names = set(wheel.namelist())
        index = wheel.read("plansmith_server/page/index.html").decode()
    files = re.findall(r'(?:src|href)="\./([^"]+)"', index)
    assert len(files) > 3
    assert {f"plansmith_server/page/{each}" for each in files} <= names

    # Nothing inline, and nothing from outside.
    assert not re.search(r"https?://|<style|style=|\son\w+=", index)
    assert re.findall(r"<script[^>]*>([^<]*)</script>", index) == [""]


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
