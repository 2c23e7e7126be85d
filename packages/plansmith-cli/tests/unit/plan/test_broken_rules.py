"""What is wrong with a value is told in words, never as a regular expression."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from plansmith import Plan
from plansmith.errors import PlansmithError, Refused
from plansmith.plan.data import Record
from plansmith.plan.limits import why_invalid
from plansmith.plan.timing import Timing
from plansmith.templates.template import given_template
from plansmith_cli.config import Settings
from plansmith_server.settings import NoticeSettings


@pytest.mark.parametrize(
    ("model", "value", "says"),
    [
        (Settings, {"keep_runs": "long"}, "such as 12h, 90d or 8w"),
        (Settings, {"models": {"plan": {"output": "x"}}}, "auto, json_schema, tool or text"),
        (Timing, {"daily_at": "7 o'clock"}, "a time of day such as 07:15"),
        (NoticeSettings, {"host": "a\nb"}, "must be one line"),
    ],
)
def test_a_value_in_the_wrong_form_is_told_what_form_is_right(
    model: type[Record], value: dict[str, object], says: str
) -> None:
    with pytest.raises(ValidationError) as found:
        model.model_validate(value)
    told = why_invalid(found.value)
    assert says in told
    assert "^" not in told


def test_a_bad_name_of_a_template_is_told_what_names_look_like() -> None:
    with pytest.raises(Refused, match="must begin with a letter or digit") as found:
        given_template("not a name", Plan(steps=()))
    assert "^" not in str(found.value)
    assert isinstance(found.value, PlansmithError)
