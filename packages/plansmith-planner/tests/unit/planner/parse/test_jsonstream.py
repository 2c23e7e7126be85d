"""`JsonStream`: steps handed over while the plan is being written."""

from __future__ import annotations

import json

import pytest

from plansmith.plan.data import Json
from plansmith_planner.parse.read import read_json
from plansmith_planner.parse.stream import Item, JsonStream, steps_in

STEPS: list[dict[str, Json]] = [
    {"id": "a", "tool": "x", "inputs": {"q": "one } two"}},
    {"id": "b", "tool": "y", "inputs": {"list": [1, {"deep": []}]}},
]


def fed(text: str, size: int = 1) -> list[tuple[int, Item]]:
    """Each item with the number of characters that had arrived when it was reported."""
    stream = JsonStream()
    seen: list[tuple[int, Item]] = []
    for start in range(0, len(text), size):
        end = min(len(text), start + size)
        seen.extend((end, item) for item in stream.feed(text[start:end]))
    seen.extend((len(text) + 1, item) for item in stream.close())
    return seen


@pytest.mark.parametrize("key", ["steps", "plan", "tasks", "execution_plan", "calls"])
def test_a_step_is_reported_with_its_last_brace(key: str) -> None:
    text = json.dumps({"title": "t", key: STEPS, "note": "n"})
    first_brace = text.index(json.dumps(STEPS[0])) + len(json.dumps(STEPS[0]))

    seen = fed(text)

    assert [item.value for _, item in seen] == STEPS
    assert [item.index for _, item in seen] == [0, 1]
    assert seen[0][0] == first_brace
    assert seen[1][0] < len(text)


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(STEPS),
        "Here is [1] the plan:\n```json\n" + json.dumps({"steps": STEPS}, indent=2) + "\n```",
        '<think>maybe {"steps": [{"id": "no"}]}</think>' + json.dumps({"steps": STEPS}),
        "plan = " + repr({"steps": STEPS}),
        "{steps: [ // first\n" + json.dumps(STEPS[0]) + ", /* { */ " + json.dumps(STEPS[1]) + ",]}",
        json.dumps({"plan": {"goal": "g", "steps": STEPS}}),
        "｛“steps”：" + json.dumps(STEPS) + "｝",
    ],
    ids=["array", "fence", "thought", "python", "comments", "wrapper", "full-width"],
)
@pytest.mark.parametrize("size", [1, 3, 1000])
def test_sloppy_texts_stream_as_well(text: str, size: int) -> None:
    seen = fed(text, size)

    assert [item.value for _, item in seen] == STEPS
    assert all(arrived <= len(text) for arrived, _ in seen)


def test_what_only_the_whole_text_shows_comes_at_the_end() -> None:
    text = '{"steps": [{"id": "a", {"id": "b"}'

    seen = fed(text)

    assert [item.value for _, item in seen] == [{"id": "a"}, {"id": "b"}]
    assert list(steps_in(read_json(text))) == [{"id": "a"}, {"id": "b"}]


def test_a_text_without_steps_reports_nothing() -> None:
    assert fed('{"answer": "hello {"}') == []
    assert fed("no plan at all, sorry.") == []


def test_other_arrays_are_no_steps() -> None:
    assert fed('{"sources": [{"id": 1}], "steps": [{"id": "a"}]}')[0][1].value == {"id": "a"}
