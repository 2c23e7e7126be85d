"""What a person gives beside the request, as the journal keeps it."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plansmith.errors import Misconfigured
from plansmith.plan.data import canonical_json
from plansmith.plan.events import RunCreated
from plansmith.plan.limits import BudgetLimits
from plansmith.plan.planning import PlanRequest
from plansmith.plan.run_options import Profile, RunOptions, read_options
from plansmith.ports import Message

TEXT = st.text(min_size=1, max_size=9)
MONEY = (
    st.decimals(1, 99, places=4).map(str) | st.integers(1, 99) | st.floats(0.01, 9, allow_nan=False)
)
BUDGETS = st.fixed_dictionaries(
    {},
    optional={
        "money": MONEY,
        "tokens": st.integers(1),
        "steps": st.integers(1),
        "seconds": st.integers(1) | st.floats(0.5, 100),
    },
).filter(bool)
OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "locale": TEXT,
        "target": TEXT,
        "top_k": st.integers(1),
        "max_steps": st.integers(1),
        "mode": st.sampled_from(["review", "read_only"]),
        "dialect": TEXT,
        "budget": BUDGETS,
        "history": st.lists(
            st.tuples(st.sampled_from(["user", "assistant"]), TEXT).map(list), min_size=1
        ),
        "profile": st.fixed_dictionaries(
            {"name": TEXT}, optional={"goals": st.lists(TEXT, min_size=1)}
        ),
    },
)


@given(OPTIONS)
def test_stored_options_are_written_back_byte_for_byte(
    options: dict[str, Any],
) -> None:
    stored = read_options(options).to_json()
    body: dict[str, Any] = {"request": "r"} | ({"options": stored} if stored else {})
    created = RunCreated.from_json(body)
    assert canonical_json(created.to_json()) == canonical_json(body)
    assert canonical_json(created.replace(folder="").to_json()) == canonical_json(body)


def test_a_request_comes_back_from_its_options_as_it_was() -> None:
    wanted = PlanRequest(
        "r",
        locale="zh",
        target="coder",
        profile=Profile(name="Ada", goals=("less",), tone="warm"),
        history=(Message("user", "hello"), Message("assistant", "hi")),
        top_k=3,
        max_steps=9,
        budget=BudgetLimits(money=Decimal("0.5")),
        mode="review",
        dialect="sage",
    )
    stored = RunOptions.model_validate(wanted.options().to_json())
    assert PlanRequest.of("r", stored) == wanted


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
