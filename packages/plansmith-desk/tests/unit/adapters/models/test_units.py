from __future__ import annotations

import pytest

from plansmith_desk.model.grounding import grounded
from plansmith_desk.model.signatures import Offered

NUMBER = {"type": "number"}


def judged(request: str, name: str, value: float) -> object:
    """Returns what becomes of a drafted number of a tool of other people."""
    inputs = {"type": "object", "properties": {name: NUMBER}, "required": [name]}
    tool = Offered("lab.run", "Run it", inputs)
    call = {"tool": "lab.run", "args": {name: value}}
    return grounded([call], {"lab.run": tool}, request)[0]["args"][name]


@pytest.mark.parametrize(
    ("request_", "name", "drafted", "wanted"),
    [
        ("Run it for two minutes", "seconds", 2, 120),
        ("运行两分钟", "seconds", 2, 120),
        ("Run it for an hour", "run_minutes", 1, 60),
        ("Run it for half an hour", "durationSeconds", 0.5, 1800),
        ("给他2克", "dose_mg", 2, 2000),
        ("Send 1,500 grams", "weight_kg", 1500, 1.5),
        ("Hold it for a year", "months", 1, 12),
        ("Run it for two weeks", "days", 2, 14),
    ],
)
def test_a_number_copied_with_another_unit_is_told_in_the_unit_of_its_argument(
    request_: str, name: str, drafted: float, wanted: float
) -> None:
    assert judged(request_, name, drafted) == wanted


@pytest.mark.parametrize(
    ("request_", "name", "drafted"),
    [
        ("Run it for two minutes", "seconds", 120),
        ("运行半小时", "seconds", 1800),
        ("Run it for 30 minutes", "minutes", 30),
        ("Run it for 2 minutes and 2 seconds", "seconds", 2),
        ("Run 3 times for 20 minutes", "times", 3),
        ("Rent 3 rooms for two days", "rooms", 3),
        ("Bring 2 kg in 2 hours", "hours", 2),
    ],
)
def test_a_number_in_the_right_unit_stays(request_: str, name: str, drafted: float) -> None:
    assert judged(request_, name, drafted) == drafted


@pytest.mark.parametrize("request_", ["Run it for two minutes", "在2026年运行它"])
def test_a_number_that_no_amount_gives_is_asked_for(request_: str) -> None:
    assert judged(request_, "seconds", 7) == "?"
