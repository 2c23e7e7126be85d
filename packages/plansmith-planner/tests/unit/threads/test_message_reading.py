"""What messages are by their form: approvals, whys, answers, changes and requests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plansmith.plan.events import QuestionAsked
from plansmith.plan.plan import Plan
from plansmith.plan.run import Run, RunStatus
from plansmith.plan.steps import MAX_OPTIONS
from plansmith_planner.language.messages import is_rejection, is_why
from plansmith_planner.language.yes_or_no import goes_on, is_yes
from plansmith_planner.threads.entries import MessageRead
from plansmith_planner.threads.reading import Situation, Waiting, guess, read_by_rules

PLAN = Plan.model_validate({"goal": "g", "steps": [{"id": "s", "tool": "t"}]})
REVIEWED = Run(id="r1", phase=RunStatus.REVIEWING, plan=PLAN)
DONE = Run(id="r0", phase=RunStatus.DONE, plan=PLAN)


def waiting(kind: Any = "step", guards: bool = False, **fields: Any) -> Waiting:
    run = Run(id="r2", phase=RunStatus.RUNNING, plan=PLAN)
    asked = QuestionAsked(question="q", text="Which one?", step="s", kind=kind, **fields)
    return Waiting(run, asked, guards)


def situation(*questions: Waiting, runs: tuple[Run, ...] = (DONE,)) -> Situation:
    return Situation([each.run for each in questions] + [*runs], questions)


def certain(text: str, now: Situation) -> MessageRead:
    found = read_by_rules(text, now)
    assert found is not None
    return found


FORMS: list[tuple[Callable[[str], bool], bool, tuple[str, ...]]] = [
    (is_yes, True, ("yes", "y", "Yes!", "ok", "go ahead", "please proceed", "looks good")),
    (is_yes, True, ("approve it", "do it now", "好", "好的，执行吧", "同意", "可以，开始吧")),
    (is_yes, True, ("没问题", "批准这个计划")),
    (is_yes, False, ("yes, but cheaper", "ok, and book a hotel", "go to Rome", "no", "it")),
    (is_yes, False, ("不", "可以便宜点吗", "run the sales report", "start with the cheapest")),
    (is_yes, False, ("please", "好的，但换火车", "")),
    (is_rejection, False, ("no hotel", "cancel my flight to Rome", "stop at Rome first", "n = 5")),
    (is_rejection, False, ("not so expensive", "don't use the train", "不要酒店", "取消酒店")),
    (is_rejection, False, ("norway", "it", "")),
    (is_why, True, ("why Rome?", "Why is it so expensive", "and why that one?", "为什么是罗马？")),
    (is_why, True, ("where does the number 42 come from?", "how did you choose this?")),
    (is_why, True, ("how come it failed?", "罗马是从哪来的？", "那为什么这么贵")),
    (is_why, False, ("what is 2+2?", "Find out why sales fell", "怎么去机场？", "Rome")),
]


@pytest.mark.parametrize(
    ("is_form", "expected", "text"),
    [(form, expected, text) for form, expected, texts in FORMS for text in texts],
)
def test_a_mere_yes_a_mere_no_and_a_why_are_known_by_their_words(
    is_form: Callable[[str], bool], expected: bool, text: str
) -> None:
    assert is_form(text) is expected


def test_options_that_repeat_a_yes_in_many_readings_are_read_at_once() -> None:
    options = [f"go on{' go on' * 8} {number}" for number in range(MAX_OPTIONS)]
    options += [f"执行吧{'执行吧' * 17}{number}" for number in range(MAX_OPTIONS)]
    assert goes_on(options[0], "Which way?", options) is True


@pytest.mark.parametrize(
    "text",
    [
        *("no", "n", "No!", "no, thanks", "reject it", "don't do it", "cancel", "never mind", "不"),
        *("不要", "拒绝", "取消吧", "不要执行", "算了"),
    ],
)
def test_a_mere_no_in_a_message_rejects_nothing_and_is_no_new_request(text: str) -> None:
    assert is_rejection(text)
    about_plan = certain(text, situation(runs=(REVIEWED,)))
    assert (about_plan.kind, about_plan.run) == ("review", "r1")
    consent = Situation([DONE], (), [waiting(kind="consent", options=("allow", "refuse"))])
    about_consent = certain(text, consent)
    assert (about_consent.kind, about_consent.question) == ("review", "q")


def test_a_message_that_says_no_answers_the_one_question_that_takes_it() -> None:
    found = certain("no", situation(waiting(options=("yes", "no"))))
    assert (found.kind, found.value) == ("answer", "no")


@pytest.mark.parametrize("text", ["Rome", "the blue one", "about 300 euros", "罗马", "just me"])
def test_a_short_message_answers_the_one_question_that_takes_any_words(text: str) -> None:
    found, sure = guess(text, situation(waiting()))
    assert (found.kind, found.value, sure) == ("answer", text, True)


@pytest.mark.parametrize(
    "text", ["What time is it in Tokyo?", "find me a hotel too", "查一下天气", "draw a chart of it"]
)
def test_a_message_that_asks_or_orders_is_left_to_judgement_while_a_question_waits(
    text: str,
) -> None:
    assert read_by_rules(text, situation(waiting())) is None
    found, sure = guess(text, situation(waiting()))
    assert (found.kind, sure) == ("request", False)


@pytest.mark.parametrize(
    "text",
    ["cheaper, please", "without the hotel", "take the train instead", "便宜一点", "不要酒店"],
)
def test_words_of_change_change_the_plan_under_review(text: str) -> None:
    found, sure = guess(text, situation(runs=(REVIEWED,)))
    assert (found.kind, found.run, sure) == ("change", "r1", True)


def test_a_question_about_a_plan_under_review_changes_nothing_by_its_form() -> None:
    found, sure = guess("is there a cheaper one?", situation(runs=(REVIEWED,)))
    assert (found.kind, sure) == ("request", False)


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        ({"type": "integer"}, "12", 12),
        ({"type": "number"}, "1,200.5", 1200.5),
        ({"type": "boolean"}, "yes", True),
        ({"type": "boolean"}, "否", False),
        ({"enum": ["low", "high"]}, "low", "low"),
    ],
)
def test_a_typed_answer_is_read_from_the_words_of_a_message(
    schema: dict[str, Any], text: str, value: Any
) -> None:
    found = certain(text, situation(waiting(answer_schema=schema)))
    assert (found.kind, found.value) == ("answer", value)


def test_what_does_not_fit_the_type_of_a_question_is_not_its_answer() -> None:
    now = situation(waiting(answer_schema={"type": "integer"}))
    assert read_by_rules("many", now) is None
    assert guess("many", now)[0].kind == "request"


def test_a_question_for_consent_takes_no_message() -> None:
    asked = waiting(kind="consent", options=("allow", "refuse"))
    now = Situation([asked.run], (), (asked,))
    for text in ("allow", "yes", "ok go ahead"):
        assert certain(text, now).kind == "review"


@given(text=st.text(max_size=300), guards=st.booleans(), review=st.booleans())
def test_no_text_is_read_as_an_approval_or_as_the_answer_to_a_decision(
    text: str, guards: bool, review: bool
) -> None:
    consent = waiting(kind="consent", options=("allow", "refuse"))
    question = waiting(guards=guards, options=("yes", "no"))
    now = Situation([question.run, *([REVIEWED] if review else [])], (question,), (consent,))
    found = read_by_rules(text, now) or guess(text, now)[0]
    assert found.kind in {"request", "answer", "change", "why", "review"}
    if found.kind == "answer":
        assert found.value in {"yes", "no"}
        assert text.casefold().strip(" .,!") not in {"ok", "allow"}
