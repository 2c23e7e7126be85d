"""What a person gives beside the request, as the journal keeps it."""

from __future__ import annotations

from typing import Any

import pytest

from plansmith.errors import Misconfigured
from plansmith.plan.run_options import read_options


@pytest.mark.parametrize(
    ("given_", "place"),
    [
        ({"mode": "at_once"}, "mode"),
        ({"budget": {"mony": 1}}, "budget.mony"),
        ({"budget": {"money": "much"}}, "budget.money"),
        ({"budget": {"money": "NaN"}}, "budget.money"),
        ({"budget": {"tokens": -5}}, r"budget.tokens must be at least 1 \(got -5\)"),
        ({"budget": {"money": 0}}, r"budget.money must be more than 0 \(got 0\)"),
        ({"budget": {"seconds": 0}}, "budget.seconds must be more than 0"),
        ({"history": [["user"]]}, "history"),
        ({"top_k": "3"}, "top_k"),
        ({"colour": "red"}, "colour"),
        ({"team": {"name": "moon"}}, "team.name"),
    ],
)
def test_an_option_that_cannot_be_is_refused_by_its_name(
    given_: dict[str, Any], place: str
) -> None:
    with pytest.raises(Misconfigured, match=place):
        read_options(given_)
