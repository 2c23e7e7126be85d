"""`JsonStream`: steps handed over while the plan is being written."""

from __future__ import annotations

import json

import pytest

from plansmith.plan.data import Json
from plansmith_planner.parse.stream import JsonStream

STEPS: list[dict[str, Json]] = [
    {"id": "a", "tool": "x", "inputs": {"q": "one } two"}},
    {"id": "b", "tool": "y", "inputs": {"list": [1, {"deep": []}]}},
]


def fed(text: str, size: int = 1) -> list[tuple[int, dict[str, Json]]]:
    """Each step with the number of characters that had arrived when it was reported."""
    stream = JsonStream()
    ends = range(size, len(text) + size, size)
    return [(end, step) for end in ends for step in stream.feed(text[end - size : end])]


@pytest.mark.parametrize("key", ["steps", "plan", "tasks", "execution_plan", "calls"])
def test_a_step_is_reported_with_its_last_brace(key: str) -> None:
    text = json.dumps({"sources": [{"id": 1}], key: STEPS, "note": "n"})

    assert fed(text) == [
        (text.index(json.dumps(step)) + len(json.dumps(step)), step) for step in STEPS
    ]


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(STEPS),
        "Here is [1] the plan:\n```json\n" + json.dumps({"steps": STEPS}, indent=2) + "\n```",
        '<think>maybe {"steps": [{"id": "no"}]}</think>' + json.dumps({"steps": STEPS}),
        "plan = " + repr({"steps": STEPS}),
        "{steps: " + json.dumps(STEPS)[:-1] + ",]}",
        json.dumps({"plan": {"goal": "g", "steps": STEPS}}),
    ],
    ids=["array", "fence", "thought", "python", "bare keys", "wrapper"],
)
@pytest.mark.parametrize("size", [1, 3, 1000])
def test_texts_as_models_write_them_stream(text: str, size: int) -> None:
    assert [step for _, step in fed(text, size)] == STEPS


@pytest.mark.parametrize(
    "text", ['{"answer": "hello {"}', "no plan at all.", '{"steps": [/* {"id": "a"} */]}']
)
def test_a_text_without_steps_reports_nothing(text: str) -> None:
    assert fed(text) == []
