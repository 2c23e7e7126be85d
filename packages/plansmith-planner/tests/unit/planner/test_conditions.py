"""A condition that the request sets and the plan leaves out is told; what only sounds so is not."""

from __future__ import annotations

import pytest

from plansmith import Effect, Plansmith, ToolSpec, read_plan, tool
from plansmith.plan.events import ReviewAsked
from plansmith.testing import ScriptedModel
from plansmith_planner.language.left_out import find_conditions, left_out

SET = {
    "Sum a.csv, and if the total is above 500, write it to big.txt": "if the total is above 500",
    "Order 100 bolts if fewer than 10 are left": "if fewer than 10 are left",
    "If it rains tomorrow, send Ann a message": "If it rains tomorrow",
    "Check the stock and if it is low order more": "if it is low order more",
    "Only if Bob agrees, book the room": "Only if Bob agrees",
    "If a.csv has more than 1,000 rows: write big.txt": "If a.csv has more than 1,000 rows",
    "if a.csv has a row write big.txt, else no.txt": "if a.csv has a row write big.txt",
    "Send the report unless it is empty": "unless it is empty",
    "When the invoice is due, then send a reminder": "When the invoice is due",
    "合计 sales.csv，如果总额超过 500，就写入 big.txt": "如果总额超过 500",
    "若库存不足，订购一百个": "若库存不足",
    "除非下雨，发消息给安": "除非下雨",
    "只有鲍勃同意，才预订会议室": "只有鲍勃同意",
}
NOT_SET = (
    "Sum sales.csv and round it if possible",
    "List the invoices, if any, in letters",
    "If you can, write it to a.txt",
    "Write it to a.txt, if you don't mind",
    "Let me know if the total is above 500",
    "Tell me if a file mentions invoices",
    "Check if the site is up",
    "See if there is a newer version and list it",
    "What if the price doubles?",
    "What happens if I cancel the contract? Look in contract.txt",
    "Is it a problem if the file is empty?",
    "Find out what happens if the contract is cancelled",
    "Append 'if it rains, stay at home' to todo.txt",
    "Write a poem as if you were a cat",
    "Shorten the text if necessary",
    "Add a heading, even if it looks odd",
    "Write notes.md when you are done",
    "如果可以，写入 a.txt",
    "如果需要，请缩短",
    "检查文件是否存在",
    "如果涨价会怎样？",
    "列出若干文件",
)


@pytest.mark.parametrize(("request_text", "words"), SET.items())
def test_a_condition_is_found_in_the_words_of_the_request(request_text: str, words: str) -> None:
    assert find_conditions(request_text) == [words]


@pytest.mark.parametrize("request_text", NOT_SET)
def test_questions_politeness_and_quotes_set_no_condition(request_text: str) -> None:
    assert find_conditions(request_text) == []


WRITE = {"id": "w", "tool": "files.write", "inputs": {"path": "big.txt", "text": "{{s}}"}}
NOTE = {"id": "n", "tool": "files.append", "inputs": {"path": "big.txt", "text": "much"}}
SUM = {"id": "s", "tool": "tables.sql", "inputs": {"query": "select sum(amount) from sales"}}


@pytest.mark.parametrize(
    ("steps", "is_told"),
    [
        ([SUM, WRITE], True),
        ([SUM, WRITE | {"when": {"gt": ["{{s}}", 500]}}], False),
        ([SUM | {"inputs": {"query": "select * from sales where amount > 500"}}, WRITE], False),
        ([SUM | {"inputs": {"query": "select sum(amount) from sales where region = 'a'"}}], False),
        ([SUM | {"inputs": {"query": "select sum(x) from s where x > 1"}}, NOTE], True),
        ([{"id": "a", "agent": "writer", "task": "write it if it is above 500"}], False),
        ([{"id": "p", "template": "unknown"}], False),
        ([{"id": "m", "over": ["a"], "each": WRITE | {"id": "e", "when": {"gt": [1, 0]}}}], False),
    ],
)
def test_it_is_told_if_nothing_in_the_plan_depends_on_it(
    steps: list[dict[str, object]], is_told: bool
) -> None:
    plan = read_plan({"steps": steps})
    tools = [ToolSpec(name="tables.sql", effect=Effect.READ)]
    found = [each for each in left_out([next(iter(SET))], plan, tools) if each.code == "PS506"]
    assert [each.code for each in found] == ["PS506"] * is_told
    assert all("if the total is above 500" in each.line() for each in found)


@tool(effect="write")
def order(item: str) -> str:
    """Order more of an item."""
    return f"ordered {item}"


async def test_the_plan_of_a_model_carries_the_condition_it_leaves_out_as_a_warning() -> None:
    goal = "Order bolts if fewer than 10 are left"
    step = {"id": "o", "tool": "order", "inputs": {"item": "bolts"}}
    plan = {"goal": goal, "enough_context": True, "steps": [step]}
    decided = {"decision": "plan", "reason": "so", "query": goal}
    async with Plansmith(ScriptedModel(decided, plan), tools=[order]) as smith:
        run = await smith.plan(goal)
        assert [each.code for each in run.problems] == ["PS506"]
        bodies = [event.body async for event in smith.events(run.id)]
        [asked] = [each for each in bodies if isinstance(each, ReviewAsked)]
        assert run.problems[0].message not in asked.reasons
        submitted = await smith.submit(read_plan({"steps": [step]}), request=goal)
        assert submitted.problems == ()
