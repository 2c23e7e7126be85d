from __future__ import annotations

import pytest

from plansmith.check.names import reads
from plansmith.plan.capability import Effect, ToolSpec


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("get_order", True),
        ("FlightSearch", True),
        ("查询天气", True),
        ("search_and_book", False),
        ("order_pizza", False),
        ("thing", False),
    ],
)
def test_a_tool_that_says_nothing_of_its_effect_is_judged_by_its_name(
    name: str, expected: bool
) -> None:
    assert reads(ToolSpec(name=name)) is expected
    assert not reads(ToolSpec(name=name, effect=Effect.WRITE))
    assert reads(ToolSpec(name=name, effect=Effect.READ))
