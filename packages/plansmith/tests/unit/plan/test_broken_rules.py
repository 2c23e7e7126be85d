"""What is wrong with a value is told in words and in the reader's language."""

from __future__ import annotations

import pytest
from pydantic import ValidationError, field_validator

from plansmith.plan.data import Record
from plansmith.plan.limits import why_invalid
from plansmith.plan.sentence import Sentence, in_language
from plansmith.plan.timing import Timing


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
