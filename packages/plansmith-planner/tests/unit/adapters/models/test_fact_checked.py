"""A small model's text gets out only if every number, name and file in it is in its source."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import nullcontext
from typing import Any, cast

import pytest

from plansmith.errors import ModelFailed
from plansmith.plan.data import Json
from plansmith.ports import Delta, Message, Prompt
from plansmith.testing import ScriptedModel
from plansmith_planner.model_calls import read_answer
from plansmith_planner.models import fact_checked

FACTS = "Sales.csv has 1,204 rows; the mean is 3.50 at 09:30. Winner: “Blue Note”."


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("There are 1204 rows, 3.5 on average [step:s1].", ""),
        ("1. 1,204 rows\n2. the mean, 3.50\n- at 09:30", ""),
        ('The winner is "Blue Note", says sales.csv.', ""),
        ("There are 1240 rows.", "1240"),
        ("The mean is 35.", "35"),
        ('The winner is "Red Note".', "Red Note"),
        ("See other.csv.", "other.csv"),
    ],
)
def test_wording_that_adds_something_to_the_facts_is_refused(text: str, wrong: str) -> None:
    assert fact_checked.unfounded(text, FACTS) == ([wrong] if wrong else [])
    with pytest.raises(ModelFailed, match="in no result") if wrong else nullcontext():
        fact_checked.check_wording(text, FACTS)


@pytest.mark.parametrize(
    ("text", "source", "wrong"),
    [
        ("租约于2027年3月31日到期。", "It ends on March 31, 2027.", []),
        ("It ends on 31 March.", "到期日：2027-03-31", []),
        ("It ends in March 2027.", "到期日：2027/3/31", []),
        ("It ends on 31 May 2027.", "到期日：2027年3月31日", ["2027-05-31"]),
        ("第3月", "It ends on 2027-03-31", ["3"]),
        ("门票4欧元，18:15关门。", "开放至18:15，4欧元", []),
        ("票价18.15欧元。", "开放至18:15，4欧元", ["18.15"]),
        ("总价12,000元。", "总价1.2万元，定金３，０００元", []),
        ("定金3000元。", "总价1.2万元，定金３，０００元", []),
        ("总价1.2万元。", "总价12000元", []),
        ("总价1.2万元。", "| 总价（万元） |\n| 1.2 |", []),
        ("总价1.2万元。", "总价1.2元", ["1.2"]),
        ("总价1.3万元。", "总价1.2万元", ["1.3"]),
        ("The price is 3,500,000.", "350万元", []),
        ("South has 20.", "North,10\nSouth,7,20", []),
        ("It costs 200.", "The price is 1,200", ["200"]),
        ("Call 13800138001.", "Telephone 13800138000", ["13800138001"]),
        ("It is 0.3.", "0.30000000000000004", []),
        ("It costs 3,5万 yuan.", "35000", []),
    ],
)
def test_figures_and_dates_are_compared_as_both_languages_write_them(
    text: str, source: str, wrong: list[str]
) -> None:
    assert fact_checked.unfounded(text, source) == wrong


@pytest.mark.parametrize(
    ("name", "small"),
    [
        ("openai:qwen3:1.7b", True),
        ("openai:smollm2-135m", True),
        ("openai:Qwen/Qwen3-8B", False),
        ("openai:mixtral-8x7b", False),
        ("openai:gpt-5.4-mini", False),
    ],
)
def test_a_small_model_is_known_by_its_name(name: str, *, small: bool) -> None:
    assert fact_checked.is_small(name) is small


ASKED = [Message("user", "There are 12 boats in “Bergen”. How many?")]


class Closes:
    """Counts its streams that were closed."""

    name = "closes"
    closed = 0

    async def stream(self, prompt: Prompt) -> AsyncIterator[Delta]:
        try:
            async for delta in ScriptedModel("a long text").stream(prompt):
                yield delta
        finally:
            self.closed += 1


async def test_a_text_of_a_small_model_gets_out_only_if_it_holds() -> None:
    model = fact_checked.FactCheckedModel(ScriptedModel("12 boats", "13 boats", "15", name="small"))
    assert (await read_answer(model.stream(Prompt(ASKED)))).text == "12 boats"
    with pytest.raises(ModelFailed, match="13"):
        await read_answer(model.stream(Prompt(ASKED)))
    schema: dict[str, Json] = {"type": "integer"}
    assert (await read_answer(model.stream(Prompt(ASKED, schema=schema)))).text == "15"
    inner = Closes()
    pieces = fact_checked.FactCheckedModel(inner).stream(Prompt(ASKED))
    await anext(aiter(pieces))
    await cast("Any", pieces).aclose()
    assert inner.closed == 1
