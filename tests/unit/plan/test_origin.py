"""Where a run came from: fields now, and the texts of the first release as they were."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from plansmith.plan.data import canonical_json
from plansmith.plan.events import Actor, RunCreated, next_event, read_event
from plansmith.plan.fold import fold
from plansmith.plan.origin import Origin
from plansmith.testing.clock import FakeClock

OLD: list[tuple[str, dict[str, Any]]] = [
    ("schedule:s1", {"kind": "schedule", "id": "s1"}),
    ("template:weather@2", {"kind": "template", "id": "weather@2"}),
    ("a2a:context:1", {"kind": "a2a", "id": "context:1"}),
    ("planning", {"kind": "notes"}),
    ("0198", {"kind": "run", "id": "0198"}),
    ("0198@17", {"kind": "run", "id": "0198", "event": 17}),
    ("other@x", {"kind": "run", "id": "other@x"}),
    ("@3", {"kind": "run", "id": "@3"}),
    ("openmanus:1:p", {"kind": "run", "id": "openmanus:1:p"}),
    (
        "valuecell handoff c t u",
        {"kind": "conversation", "id": "c", "thread": "t", "user": "u", "handed_over": True},
    ),
    (
        "valuecell direct c t u",
        {"kind": "conversation", "id": "c", "thread": "t", "user": "u"},
    ),
]


@pytest.mark.parametrize(("text", "fields"), OLD)
def test_an_origin_of_the_first_release_is_read_into_fields(
    text: str, fields: dict[str, Any]
) -> None:
    origin = Origin.model_validate(text)
    assert origin.to_json() == fields


@given(st.text(max_size=40) | st.sampled_from([text for text, _ in OLD]))
def test_an_old_event_is_written_back_byte_for_byte_whatever_its_origin(text: str) -> None:
    body = {"type": "run_created", "request": "r"} | ({"origin": text} if text else {})
    read = RunCreated.from_json(body)
    assert canonical_json(read.to_json()) == canonical_json(
        {name: value for name, value in body.items() if name != "type"}
    )
    moved = read.replace(folder="/home")
    assert moved.to_json().get("origin", "") == text


def test_a_new_event_has_an_origin_of_fields_that_the_run_keeps() -> None:
    origin = Origin(kind="run", id="first", event=4)
    created = RunCreated(request="r", origin=origin)
    assert created.to_json()["origin"] == {"kind": "run", "id": "first", "event": 4}
    ada, now = Actor(kind="person", name="ada"), FakeClock().now()
    event = next_event(created, run="second", by=ada, at=now)
    again = read_event(event.to_json())
    assert again == event
    assert again.fresh_hash() == event.hash
    assert fold([again]).origin == origin


def test_a_request_of_its_own_writes_no_origin() -> None:
    assert "origin" not in RunCreated(request="r").to_json()
    assert Origin().to_json() == {"kind": "request"}


@pytest.mark.parametrize("wrong", [{"kind": "moon"}, {"kind": "run", "to": "x"}, 7, ["schedule"]])
def test_what_is_no_origin_is_refused(wrong: object) -> None:
    with pytest.raises(ValidationError):
        Origin.model_validate(wrong)
