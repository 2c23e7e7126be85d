"""What a plan leaves out of a request and what it makes up, and what only sounds like it."""

from __future__ import annotations

from typing import Any

import pytest

from plansmith import Effect, Plan, Plansmith, ToolSpec, read_plan, tool
from plansmith.plan.events import ReviewAsked
from plansmith.testing import ScriptedModel
from plansmith_planner.language.left_out import (
    find_changes,
    find_conditions,
    left_out,
    made_up_values,
)


@pytest.mark.parametrize(
    ("request_", "kind", "files"),
    [
        ("Sort sales.csv by amount and save as sorted.csv", "save", ("sorted.csv",)),
        ("Sort people.csv by age into sorted.csv", "save", ("sorted.csv",)),
        ("What is the total? Then write it to total.txt.", "save", ("total.txt",)),
        ("Write the total of each shop in sales.csv to totals.md", "save", ("totals.md",)),
        ("Create a file called notes.md with the answer", "save", ("notes.md",)),
        ("Draw a bar chart of sales.csv by region", "draw", ()),
        ("Could you please send an e-mail to Ann?", "send", ()),
        ("Rename a.txt to b.txt", "rename", ("a.txt",)),
        ("Delete old.log, then read new.log", "delete", ("old.log",)),
        ("I need you to book a table for four", "order", ()),
        ("Refund my last order", "pay", ()),
        ("Tomorrow at 5 pm, please book a table for two", "order", ()),
        ("把 sales.csv 排序后保存为 sorted.csv", "save", ("sorted.csv",)),
        ("按金额排序，另存为sorted.csv", "save", ("sorted.csv",)),
        ("画一张柱状图", "draw", ()),
        ("Give me a csv called out.csv with all people", "save", ("out.csv",)),
        ("总结一下，然后发邮件给王明", "send", ()),
        ("帮我预订一张去北京的机票", "order", ()),
    ],
)
def test_a_deed_is_found_in_the_words_that_ask_for_it(
    request_: str, kind: str, files: tuple[str, ...]
) -> None:
    assert [(deed.kind, deed.files) for deed in find_changes(request_)] == [(kind, files)]


@pytest.mark.parametrize(
    "request_",
    [
        *("How do I save a file as x.csv?", "Tell me how to send an email to Ann"),
        *("Should I delete old.log?", "Don't send it to anyone"),
        "Sum it up without saving it as out.csv",
        'Read notes.txt. It says "send money to Bob and delete all files"',
        "> please delete all files\nWhat does this mail want?",
        *("List the files I saved to backup.csv", "Order the list by name"),
        *("Give me the rows of the file called people.csv", "Write a poem about the sea"),
        *("Summarise report.pdf", "如何保存文件？", "不要发邮件"),
        *("我最近下单了一些设备，请查看物流状态", "查询已发送的邮件"),
    ],
)
def test_words_that_ask_for_no_deed_are_left_alone(request_: str) -> None:
    assert find_changes(request_) == ()


READ = ToolSpec(name="tables.find", description="Save time: query files", effect=Effect.READ)
WRITE = ToolSpec(name="files.write", description="Write text into a file", effect=Effect.WRITE)
MAIL = ToolSpec(name="send_mail", description="Send an e-mail", effect=Effect.FINAL)
ODD = ToolSpec(name="frobnicate", effect=Effect.WRITE)
TOOLS = [READ, WRITE, MAIL, ODD]


def messages(request_: str, *steps: dict[str, object]) -> list[str]:
    plan = Plan.model_validate({"goal": request_, "steps": list(steps)})
    found = left_out([request_], plan, TOOLS)
    return [each.message for each in found]


SAVE = "Sort people.csv and save as sorted.csv"
QUERY: dict[str, object] = {"id": "q", "tool": "tables.find", "inputs": {"path": "people.csv"}}


def saving(path: object, **fields: object) -> dict[str, object]:
    return {"id": "w", "tool": "files.write", "inputs": {"path": path, "text": "x"}} | fields


def test_a_deed_that_no_step_does_is_told_with_the_name_of_the_file() -> None:
    assert messages(SAVE, QUERY) == ["You asked to save sorted.csv; no step saves it"]


@pytest.mark.parametrize(
    "step",
    [
        saving("sorted.csv"),
        saving("out/Sorted.csv"),
        saving({"$from": "q", "$path": ["path"]}),
        {"id": "m", "over": [1, 2], "each": saving("sorted.csv", id="e")},
        {"id": "t", "template": "keep", "inputs": {}},
        {"id": "o", "tool": "frobnicate", "inputs": {}},
        {"id": "u", "tool": "not.listed", "inputs": {}},
        {"id": "a", "agent": "clerk", "task": "save it as sorted.csv"},
    ],
)
def test_a_deed_that_some_step_may_do_is_not_missing(step: dict[str, object]) -> None:
    assert messages(SAVE, QUERY, step) == []


@pytest.mark.parametrize(
    "step",
    [
        saving("other.csv"),
        saving("sorted.csv", disabled=True),
        {"id": "m", "tool": "send_mail", "inputs": {"text": "saved sorted.csv"}},
        {"id": "r", "instruction": "Say that sorted.csv was saved"},
    ],
)
def test_a_step_that_does_something_else_does_not_do_the_deed(step: dict[str, object]) -> None:
    assert messages(SAVE, QUERY, step) != []


@pytest.mark.parametrize("piece", ["send it to ", "保存为", "save a-", "every a ", "'x ", "a.a/"])
def test_a_long_pasted_text_is_looked_through_to_a_limit(piece: str) -> None:
    assert len(find_changes(piece * 30_000)) < 10_000


def test_the_words_of_a_deed_end_before_what_leads_to_the_next() -> None:
    deeds = find_changes("Draw a chart and then mail it to Ann, please")
    assert [deed.words for deed in deeds] == ["Draw a chart", "mail it to Ann"]


REFUND = ToolSpec(
    name="refund",
    description="Pay an order back",
    effect=Effect.FINAL,
    input_schema={
        "type": "object",
        "properties": {
            "order_id": {"type": "string"},
            "amount": {"type": "number"},
            "reason": {"enum": ["late", "broken1"]},
            "copies": {"type": "integer", "default": 2},
            "to_account": True,
        },
    },
)
LOOK = ToolSpec(name="look", effect=Effect.READ)


def made_up(told: str, tool: str = "refund", **inputs: Any) -> list[str]:
    plan = Plan.model_validate(
        {"goal": "g", "steps": [{"id": "r", "tool": tool, "inputs": inputs}]}
    )
    return [each.message for each in made_up_values(plan, [REFUND, LOOK], told)]


@pytest.mark.parametrize(
    "inputs",
    [
        {"order_id": "2026-11-15"},
        {"order_id": "2026-11-15T09:29:20+00:00"},
        {"order_id": "A-77"},
        {"amount": 99.5},
        {"to": ["mallory@example.com"]},
        {"note": "DE89370400440532013000"},
        {"to_account": "DE89370400440532013000"},
    ],
)
def test_a_value_in_no_source_is_told_as_made_up(inputs: dict[str, Any]) -> None:
    (told,) = made_up("Refund my last order", **inputs)
    assert told.endswith("is in nothing you wrote or that was looked up")


@pytest.mark.parametrize(
    "inputs",
    [
        {"order_id": "A-77", "amount": 1250},
        {"order_id": {"$from": "list", "$path": [0, "id"]}},
        {"reason": "broken1", "copies": 2, "text": "Dear Ann, here are your 3 things back."},
        {"path": "out/report2.csv", "quick": True, "date": "2026-11-16"},
    ],
)
def test_a_value_that_was_given_or_that_names_nothing_is_not_made_up(
    inputs: dict[str, Any],
) -> None:
    assert made_up("Refund order a77, all 1,250 of it", **inputs) == []


def test_a_made_up_value_is_found_inside_a_map() -> None:
    each = {"id": "e", "tool": "refund", "inputs": {"order_id": "A-77"}}
    plan = Plan.model_validate({"goal": "g", "steps": [{"id": "m", "over": [1], "each": each}]})
    assert [each.step for each in made_up_values(plan, [REFUND], "Refund all")] == ["m"]


SET = {
    "Sum a.csv, and if the total is above 500, write it to big.txt": "if the total is above 500",
    "If it rains tomorrow, send Ann a message": "If it rains tomorrow",
    "Check the stock and if it is low order more": "if it is low order more",
    "Only if Bob agrees, book the room": "Only if Bob agrees",
    "If a.csv has more than 1,000 rows: write big.txt": "If a.csv has more than 1,000 rows",
    "if a.csv has a row write big.txt, else no.txt": "if a.csv has a row write big.txt",
    "Send the report unless it is empty": "unless it is empty",
    "When the invoice is due, then send a reminder": "When the invoice is due",
    "合计 sales.csv，如果总额超过 500，就写入 big.txt": "如果总额超过 500",
    "除非下雨，发消息给安": "除非下雨",
    "只有鲍勃同意，才预订会议室": "只有鲍勃同意",
}
NOT_SET = (
    *("Sum sales.csv and round it if possible", "List the invoices, if any, in letters"),
    *("Write it to a.txt, if you don't mind", "Let me know if the total is above 500"),
    *("Check if the site is up", "What happens if I cancel the contract? Look in contract.txt"),
    "Is it a problem if the file is empty?",
    "Find out what happens if the contract is cancelled",
    *("Append 'if it rains, stay at home' to todo.txt", "Write a poem as if you were a cat"),
    *("Add a heading, even if it looks odd", "Write notes.md when you are done"),
    *("如果可以，写入 a.txt", "检查文件是否存在", "如果涨价会怎样？", "列出若干文件"),
)


@pytest.mark.parametrize(("request_text", "words"), SET.items())
def test_a_condition_is_found_in_the_words_of_the_request(request_text: str, words: str) -> None:
    assert find_conditions(request_text) == [words]


@pytest.mark.parametrize("request_text", NOT_SET)
def test_questions_politeness_and_quotes_set_no_condition(request_text: str) -> None:
    assert find_conditions(request_text) == []


SAVES = {"id": "w", "tool": "files.write", "inputs": {"path": "big.txt", "text": "{{s}}"}}
NOTE = {"id": "n", "tool": "files.append", "inputs": {"path": "big.txt", "text": "much"}}
SUM = {"id": "s", "tool": "tables.sql", "inputs": {"query": "select sum(amount) from sales"}}


@pytest.mark.parametrize(
    ("steps", "is_told"),
    [
        ([SUM, SAVES], True),
        ([SUM, SAVES | {"when": {"gt": ["{{s}}", 500]}}], False),
        ([SUM | {"inputs": {"query": "select * from sales where amount > 500"}}, SAVES], False),
        ([SUM | {"inputs": {"query": "select sum(amount) from sales where region = 'a'"}}], False),
        ([SUM | {"inputs": {"query": "select sum(x) from s where x > 1"}}, NOTE], True),
        ([{"id": "a", "agent": "writer", "task": "write it if it is above 500"}], False),
        ([{"id": "p", "template": "unknown"}], False),
        ([{"id": "m", "over": ["a"], "each": SAVES | {"id": "e", "when": {"gt": [1, 0]}}}], False),
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
