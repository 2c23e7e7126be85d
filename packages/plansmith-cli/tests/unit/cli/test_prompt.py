from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plansmith.plan.events import QuestionAsked
from plansmith_cli.keyboard import read_choice
from plansmith_cli.questions import read_answer

YES = {"y", "yes", "是", "好"}


@given(st.text())
def test_only_an_explicit_yes_approves(typed: str) -> None:
    assert (read_choice(typed).kind == "yes") == (typed.strip().lower() in YES)


@pytest.mark.parametrize(
    ("typed", "kind"),
    [
        ("", "later"),
        ("yes please", "later"),
        ("yy", "later"),
        ("ok", "later"),
        ("1", "later"),
        ("c", "later"),
        ("n", "no"),
        ("No", "no"),
        ("否", "no"),
        ("e", "edit"),
        ("c use Athens instead", "changes"),
    ],
)
def test_everything_else_does_not(typed: str, kind: str) -> None:
    assert read_choice(typed).kind == kind
    assert read_choice("c use Athens instead").text == "use Athens instead"


@pytest.mark.parametrize(
    ("fields", "typed", "value"),
    [
        ({}, " any text ", "any text"),
        ({}, "12", "12"),
        ({"options": ("red", "blue")}, "blue", "blue"),
        ({"options": ("red", "blue")}, "2", "blue"),
        ({"options": ("red", "blue")}, "9", "9"),
        ({"options": ("2", "1")}, "1", "1"),
        ({"answer_schema": {"type": "integer"}}, "12", 12),
        ({"answer_schema": {"type": "string"}}, "12", "12"),
        ({"answer_schema": {"type": "array"}}, '["a"]', ["a"]),
        ({"answer_schema": {"type": "integer"}}, "twelve", "twelve"),
    ],
)
def test_an_answer_is_what_its_question_can_take(
    fields: dict[str, Any], typed: str, value: object
) -> None:
    assert read_answer(QuestionAsked(question="q", text="?", kind="step", **fields), typed) == value
