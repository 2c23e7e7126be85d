from __future__ import annotations

import json

import pytest

from plansmith.errors import ModelRefused
from plansmith.plan.data import Json
from plansmith.plan.plan import Plan
from plansmith.ports import Brief, Message, PlanBrief, Prompt, ReplyBrief, TriageBrief
from plansmith_desk.model.demo import DemoModel, keyword
from plansmith_planner.model_calls import read_answer


@pytest.mark.parametrize(
    ("request_text", "word"),
    [
        ("Which files here mention invoices?", "invoice"),
        ('Find "net profit" in my files', "net profit"),
        ("Show me the address", "address"),
        ("哪些文件提到发票？", "发票"),
        ("查找关于合同的文件", "合同"),
        ("", ""),
    ],
)
def test_the_demo_takes_one_word_of_the_request(request_text: str, word: str) -> None:
    assert keyword(request_text) == word


async def reply_to(brief: Brief | None) -> str:
    prompt = Prompt([Message("user", "whatever the messages say")], brief=brief)
    return (await read_answer(DemoModel().stream(prompt))).text


async def test_the_demo_plans_every_request_and_answers_again_and_again() -> None:
    request = "Which files mention invoices?"
    assert json.loads(await reply_to(TriageBrief(request)))["decision"] == "plan"
    assert "查找" in await reply_to(PlanBrief("哪些文件提到发票？", "zh-CN"))
    for _ in range(2):
        plan = json.loads(await reply_to(PlanBrief(request)))
        assert plan["steps"][1]["inputs"] == {"text": "invoice", "folder": "."}
    with pytest.raises(ModelRefused, match="cannot change a plan"):
        await reply_to(PlanBrief(request, previous=Plan()))


async def test_the_demo_tells_what_its_steps_found_and_says_what_it_is() -> None:
    file: Json = {"path": "a.txt", "count": 3, "lines": [{"line": 1, "text": "x"}]}
    found: Json = {"text": "invoice", "files": [file], "searched": 4}
    answer = await reply_to(ReplyBrief("Say what was found: {{search}}", {"{{search}}": found}))
    assert answer.startswith("This is the scripted demo")
    assert '1 file mentions "invoice": a.txt.' in answer
    assert "脚本演示" in await reply_to(ReplyBrief("说出: {{s}}", {"{{s}}": found}, locale="zh-CN"))
    assert "scripted demo" in await reply_to(None)
