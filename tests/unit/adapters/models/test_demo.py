from __future__ import annotations

import json
from typing import Any

import pytest

from plansmith.adapters.models.demo import DemoModel, keyword
from plansmith.dialects.native import schema
from plansmith.errors import ModelRefused
from plansmith.plan.data import Json
from plansmith.plan.refs import value_text
from plansmith.planner.briefing.fence import fence
from plansmith.planner.listen import listen
from plansmith.planner.triage import SCHEMA
from plansmith.ports import Message


@pytest.mark.parametrize(
    ("request_text", "word"),
    [
        ("Which files here mention invoices?", "invoice"),
        ('Find "net profit" in my files', "net profit"),
        ("Show me the address", "address"),
        ("哪些文件提到发票？", "发票"),
        ("查找关于合同的文件", "合同"),
        ("", "plan"),
    ],
)
def test_the_demo_takes_one_word_of_the_request(request_text: str, word: str) -> None:
    assert keyword(request_text) == word


async def said(text: str, form: Any = None) -> str:
    return (await listen(DemoModel().stream([Message("user", text)], schema=form))).text


async def test_the_demo_plans_every_request_and_answers_again_and_again() -> None:
    request = fence("request", "Which files mention invoices?")
    assert json.loads(await said(request, SCHEMA))["decision"] == "plan"
    for _ in range(2):
        plan = json.loads(await said(request, schema()))
        assert plan["steps"][1]["inputs"] == {"text": "invoice", "folder": "."}


async def test_the_demo_does_not_pretend_to_change_a_plan() -> None:
    with pytest.raises(ModelRefused, match="cannot change a plan"):
        await said(fence("previous plan", "{}") + fence("request", "x"), schema())


async def test_the_demo_words_its_own_search_and_says_what_it_is() -> None:
    file: Json = {"path": "a.txt", "count": 3, "lines": [{"line": 1, "text": "x"}]}
    found = value_text({"text": "invoice", "files": [file], "searched": 4})
    told = await said(fence("what to say", f"Say what was found: {found}"))
    assert "scripted demo" in told
    assert "of 4 text files, 1 has it" in told
    assert "- a.txt (1, …)" in told
    assert "脚本演示" in await said(fence("要说的话", f"说出找到了什么: {found}"))


@pytest.mark.parametrize("text", ["anything", 'cut {"text": "x", "fi', '{"text": 1}'])
async def test_the_demo_claims_nothing_where_it_has_found_nothing(text: str) -> None:
    assert "there is none here" in await said(text)
