"""Sentences: English text with fields, said in the reader's language."""

from __future__ import annotations

import json

import pytest

from plansmith.plan.events import RunFinished
from plansmith.plan.sentence import Sentence, check_sentence, in_language, joined, read_sentence


def test_a_sentence_is_its_english_text_and_can_be_said_in_chinese() -> None:
    said = Sentence("end.failed", steps=["a", "b"])
    assert said == "failed: a, b"
    assert in_language(said, "zh-CN") == "失败：a、b"
    assert in_language(said, "de-AT") == "failed: a, b"
    assert in_language("as somebody wrote it", "zh") == "as somebody wrote it"


def test_sentences_are_made_of_sentences() -> None:
    why = Sentence("a step asks for another plan")
    said = joined([why, "", Sentence("end.same_plan")])
    assert said == "a step asks for another plan; planning again gave the same plan"
    assert in_language(said, "zh") == "有步骤要求换一个计划；重新计划得到同样的计划"
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
def test_a_stored_sentence_is_refused_when_it_is_checked_as_when_it_is_read(value: object) -> None:
    for read in (read_sentence, check_sentence):
        with pytest.raises(ValueError, match=r"text|deep"):
            read(value)
    with pytest.raises(ValueError, match=r"text|str|deep"):
        RunFinished.from_json({"status": "done", "reason": value})
