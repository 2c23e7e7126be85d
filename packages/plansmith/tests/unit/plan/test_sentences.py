"""Sentences: English text with fields, said in the reader's language."""

from __future__ import annotations

import json

import pytest
from pydantic import ValidationError, field_validator

from plansmith.plan.data import Record
from plansmith.plan.events import RunFinished
from plansmith.plan.sentence import Sentence, in_language, joined, read_sentence
from plansmith.plan.timing import Timing
from plansmith.plan.validation_errors import why_invalid


def test_a_sentence_is_its_english_text_and_can_be_said_in_chinese() -> None:
    sentence = Sentence("end.failed", steps=["a", "b"])
    assert sentence == "failed: a, b"
    assert in_language(sentence, "zh-CN") == "失败：a、b"
    assert in_language(sentence, "de-AT") == "failed: a, b"
    assert in_language("as somebody wrote it", "zh") == "as somebody wrote it"


def test_sentences_are_made_of_sentences() -> None:
    why = Sentence("a step asks for another plan")
    sentence = joined([why, "", Sentence("end.same_plan")])
    assert sentence == "a step asks for another plan; planning again gave the same plan"
    assert in_language(sentence, "zh") == "有步骤要求换一个计划；重新计划得到同样的计划"
    assert joined([]) == ""
    assert joined([why]) is why


def test_numbers_are_grouped_and_braces_in_a_value_stay_as_they_are() -> None:
    assert Sentence("and {count} more problems", count=12000) == "and 12,000 more problems"
    hostile = "{reason} {steps} {code} {fields} %s \u202e"
    assert Sentence("end.no_plan", reason=hostile).endswith(f": {hostile}")


def test_a_sentence_is_stored_as_its_text_and_fields_and_read_back() -> None:
    body = RunFinished(
        status="failed", reason=Sentence("end.no_plan", reason=Sentence("ps.no_plan"))
    )
    stored = json.loads(json.dumps(body.to_json()))
    assert stored["reason"] == {"text": "end.no_plan", "fields": {"reason": {"text": "ps.no_plan"}}}
    read = RunFinished.from_json(stored)
    assert read == body
    assert in_language(read.reason, "zh") == "没有得到计划：没有计划"
    assert body.shown_json()["reason"] == "no plan could be made: no plan"
    assert body.shown_json("zh")["reason"] == "没有得到计划：没有计划"


def _deep(levels: int) -> object:
    value: object = {"text": "hint.none_known"}
    for _ in range(levels):
        value = {"text": "ps.quoted", "fields": {"text": value}}
    return value


@pytest.mark.parametrize(
    "value",
    [
        7,
        None,
        ["hint.none_known"],
        {},
        {"text": 1},
        {"text": "ps.quoted", "fields": None},
        {"text": "ps.quoted", "fields": ["a"]},
        {"text": "ps.quoted", "fields": {"text": {"no": "code"}}},
        {"text": "ps.quoted", "fields": {}, "more": 1},
        {"text": "ps.quoted", "fields": {"text": [{"text": "x", "fields": {"y": {}}}]}},
        _deep(60),
    ],
)
def test_what_is_no_stored_sentence_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match=r"text|deep"):
        read_sentence(value)
    with pytest.raises(ValueError, match=r"text|str|deep"):
        RunFinished.from_json({"status": "done", "reason": value})


class Shop(Record):
    open: bool = True

    @field_validator("open")
    @classmethod
    def _is_open(cls, value: bool) -> bool:
        if not value:
            raise ValueError(Sentence("the store is closed"))
        return value


def test_a_rule_is_told_in_the_language_of_the_reader() -> None:
    with pytest.raises(ValidationError) as found:
        Shop(open=False)
    assert "the store is closed" in why_invalid(found.value)
    assert "存储已关闭" in in_language(why_invalid(found.value), "zh")


def test_a_value_in_the_wrong_form_is_told_what_form_is_right() -> None:
    with pytest.raises(ValidationError) as found:
        Timing.model_validate({"daily_at": "7 o'clock"})
    assert "a time of day such as 07:15" in why_invalid(found.value)
    assert "^" not in why_invalid(found.value)


def test_who_changes_a_plan_is_told_to_make_another_one() -> None:
    with pytest.raises(AttributeError, match=r"a Shop cannot be changed: .*\.replace\(open=…\)"):
        Shop().open = False
