"""What a question is about is said by its fields, never by its name."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.plan.test_fold import BEGINNING, RUNNING, run

from plansmith.plan import events as e
from plansmith.plan.fold import GO_ON


def lifted(**fields: Any) -> dict[e.LimitName, int]:
    """What a person grants by going on after this question."""
    asked = e.QuestionAsked.from_json({"question": "q", "text": "?"} | fields)
    word = e.QuestionAnswered(question=asked.question, answer=GO_ON)
    return dict(run(*RUNNING, asked, word).grants)


def test_a_limit_is_lifted_by_the_field_whatever_the_name() -> None:
    assert lifted(kind="limit", limit="replans", question="whatever") == {"replans": 1}
    assert lifted(kind="limit", question="shared_budget:2") == {}


@pytest.mark.parametrize("kind", ["step", "call", "request"])
def test_no_question_of_a_plan_lifts_a_limit_by_its_name(kind: str) -> None:
    assert lifted(kind=kind, question="budget:1") == {}
    assert lifted(kind=kind, question="replans:1", step="a") == {}


def test_a_limit_that_nobody_knows_is_refused() -> None:
    with pytest.raises(ValueError, match="limit"):
        e.QuestionAsked.from_json({"question": "q", "text": "?", "kind": "limit", "limit": "moon"})


def test_a_run_says_nothing_of_options_and_origin_that_nobody_gave() -> None:
    begun = run(*BEGINNING)
    assert begun.options.to_json() == {}
    assert begun.origin.kind == "request"
