"""A request with times in it, before a person: nothing is scheduled without an explicit yes."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest
from tests import forked
from tests.e2e.terminal import PLANSMITH, Person


@pytest.fixture
def person(tmp_path: Path) -> Person:
    return Person(tmp_path)


def listed(person: Person) -> Any:
    """The schedules, as another command tells them."""
    done = forked.run(
        [*PLANSMITH, "schedule", "list", "--json"],
        cwd=person.folder,
        env=person.environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


WORDS = "every weekday at 9 list the files here"


def test_a_yes_keeps_it_and_anything_else_does_not(person: Person) -> None:
    with person.types("ask", WORDS) as screen:
        shown = screen.until("Keep it as a schedule?")
        assert "cron 0 9 * * 1-5 UTC; next:" in shown
        assert shown.count(" 09:00 UTC") == 3
        screen.type("sure\n")
        assert screen.ended() == 5
    assert listed(person) == []
    with person.types("ask", WORDS) as screen:
        screen.until("Keep it as a schedule?")
        screen.type("y\n")
        screen.until("kept as the schedule")
        assert screen.ended() == 0
    [kept] = listed(person)
    assert (kept["name"], kept["state"]) == ("list the files here", "active")
    assert len(kept["approved"]) == 64


def test_keep_goes_on_until_it_is_told_to_stop(person: Person) -> None:
    with person.types("schedule", "keep") as screen:
        screen.until("firing schedules")
        screen.ctrl_c()
        assert screen.ended() == 0
    with person.types("schedule", "keep") as screen:
        screen.until("firing schedules")
        screen.process.send_signal(signal.SIGTERM)
        assert screen.ended() == 0
