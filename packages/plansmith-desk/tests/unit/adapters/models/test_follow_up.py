"""Follow-ups are completed by the request before them, without making anything up."""

from __future__ import annotations

import pytest

from plansmith_desk.model.drafting import completed, follows, put_in_place

TOTAL = "What is the total amount for the region North in sales.csv?"


@pytest.mark.parametrize(
    ("before", "request_", "whole"),
    [
        (TOTAL, "And for South?", TOTAL.replace("North", "South")),
        (TOTAL, "what about South?", TOTAL.replace("North", "South")),
        (
            "Show the last 5 lines of app.log",
            "and of error.log",
            "Show the last 5 lines of error.log",
        ),
        ("What was sold in Q1?", "now the same for Q2", "What was sold in Q2?"),
        ("Total of 2025 in a.csv", "and 2026?", "Total of 2026 in a.csv"),
        ("What is the weather in Oslo?", "And New York?", "What is the weather in New York?"),
    ],
)
def test_what_a_follow_up_names_takes_the_place_of_its_like(
    before: str, request_: str, whole: str
) -> None:
    assert put_in_place(request_, [before]) == whole


@pytest.mark.parametrize(
    ("before", "request_"),
    [
        ("Fly from Oslo to Rome", "and to Paris?"),
        (TOTAL, "And for South in stock.csv?"),
        (TOTAL, "Draw a chart for South"),
        (TOTAL, "why?"),
        ("Which notes mention tea?", "and coffee?"),
    ],
)
def test_a_follow_up_that_could_mean_more_is_left_to_the_model(before: str, request_: str) -> None:
    assert put_in_place(request_, [before]) == ""


def test_a_completed_follow_up_with_something_made_up_is_not_used() -> None:
    assert completed("Total for South in stock.csv", "And South?", [TOTAL]) == "And South?"
    assert completed("", "And South?", [TOTAL]) == "And South?"
    kept = "What is the total amount for South in sales.csv?"
    assert completed(kept, "And South?", [TOTAL]) == kept


def test_a_request_that_stands_alone_is_no_follow_up() -> None:
    assert not follows("Draw a bar chart of the sales in sales.csv by region, please", [TOTAL])
    assert not follows("And South?", [])
    assert follows("那上海呢？", [TOTAL])
