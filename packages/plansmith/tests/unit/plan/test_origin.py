"""Where a run came from, as the first event of its journal keeps it."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from plansmith.plan.events import Actor, RunCreated, next_event, read_event
from plansmith.plan.fold import fold
from plansmith.plan.run_options import Origin
from plansmith.testing.clock import FakeClock


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
