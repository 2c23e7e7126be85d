"""The tour on a terminal: a key goes on, q ends."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.e2e.terminal import Person


@pytest.fixture
def person(tmp_path: Path) -> Person:
    return Person(tmp_path)


def test_a_key_goes_on_with_the_tour_and_q_ends_it_with_what_to_do_next(person: Person) -> None:
    with person.types("demo", columns=80) as terminal:
        terminal.until("1/4", "Enter goes on")
        terminal.type("\n")
        shown = terminal.until("2/4", "Enter goes on")
        assert "3/4" not in shown
        terminal.type("q")
        assert terminal.ended() == 0
        last = terminal.screen.text
    assert "3/4" not in last
    assert "plansmith model pull" in last
    assert "Enter goes on" not in last


def test_ctrl_c_ends_the_tour(person: Person) -> None:
    with person.types("demo") as terminal:
        terminal.until("1/4", "Enter goes on")
        terminal.ctrl_c()
        assert terminal.ended() == 130
    assert not [each for each in person.folder.iterdir() if each.name.startswith("plansmith-demo")]
