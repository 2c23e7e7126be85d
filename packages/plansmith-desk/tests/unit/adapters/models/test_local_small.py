"""What makes up for a small model: shorter tools, calls for each, results in words."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any, cast

import pytest
from tests.unit.adapters.models.local_gbnf import Writer, parse_grammar

from plansmith.check.check_plan import check_plan
from plansmith.errors import ModelFailed
from plansmith.plan.capability import ToolSpec
from plansmith.plan.data import Json
from plansmith.plan.plan import Plan
from plansmith.ports import ContextBlock, Delta, Message, PlanBrief, Prompt
from plansmith.testing import ScriptedModel
from plansmith.tools.toolset import fields, flag, items
from plansmith_desk.files.tools import FILE_TOOLS
from plansmith_desk.model.call_language import calls_grammar, is_rows
from plansmith_desk.model.calls_to_plan import plan_of_calls
from plansmith_desk.model.grounding import grounded
from plansmith_desk.model.prompt import DraftTask
from plansmith_desk.model.signatures import Offered, easiest, offered, signature, slim
from plansmith_desk.tables.specs import DESCRIBE, SQL
from plansmith_planner.model_calls import read_answer
from plansmith_planner.models.fact_checked import FactCheckedModel, is_small
from plansmith_planner.parse.reply import parse

TEXT = {"type": "string"}
ROWS = {"type": "array", "items": {"type": "object"}}
WRITE = ToolSpec(
    name="files.write", input_schema=fields({"path": TEXT, "text": TEXT}, "path", "text")
)
DRAW = ToolSpec(
    name="charts.draw", input_schema=fields({"rows": ROWS, "path": TEXT}, "rows", "path")
)
# A way to ask for rows in parts, with many arguments and objects inside lists.
_WHERE = fields({"column": TEXT, "is": {"enum": ["=", "<", "<=", ">"]}, "value": {}}, "column")
_SUM = fields(
    {"function": {"enum": ["count", "distinct", "sum"]}, "column": TEXT, "as": TEXT}, "function"
)
QUERY = ToolSpec(
    name="tables.find",
    input_schema=fields(
        {
            "table": {"type": ["string", "array"]},
            "columns": items(TEXT),
            "where": items(_WHERE),
            "join": fields({"table": TEXT, "on": items(fields({"left": TEXT}, "left"))}, "table"),
            "group_by": items(TEXT),
            "aggregate": items(_SUM),
            "distinct": flag("Leave out rows that are there already."),
            "sort": items(fields({"column": TEXT}, "column")),
            "encoding": {"enum": [f"windows-{page}" for page in range(1250, 1263)]},
        },
        "table",
    ),
    output_schema=fields({"rows": ROWS}, "rows"),
)
SPECS = (*FILE_TOOLS, WRITE, DRAW, QUERY)


TOOLS = {spec.name: replace(offered(spec), is_safe=False) for spec in SPECS}


def call(tool: str, **args: Any) -> dict[str, Any]:
    return {"tool": tool, "args": args}


def plan(*calls: dict[str, Any]) -> dict[str, Any]:
    made = plan_of_calls(calls, TOOLS, "do it")
    read = parse(json.dumps(made))
    assert read.plan is not None
    errors = [each for each in check_plan(read.plan, SPECS) if each.severity == "error"]
    assert not errors
    steps = cast("list[dict[str, Any]]", made["steps"])
    return {step["id"]: step for step in steps}


def test_a_tool_with_many_arguments_is_told_without_its_details() -> None:
    short = slim(TOOLS["tables.find"])
    assert list(short.fields) == [
        *("table", "columns", "where", "join", "group_by", "aggregate", "sort"),
    ]
    assert 'function: "count"|"distinct"|"sum"' in signature(short)
    assert slim(TOOLS["files.search"]).fields == TOOLS["files.search"].fields


def test_of_two_ways_to_ask_a_source_the_one_in_sql_is_offered() -> None:
    tools = [offered(spec) for spec in (QUERY, SQL, DESCRIBE)]
    assert [tool.name for tool in easiest(tools)] == ["tables.sql", "tables.describe"]
    assert [tool.name for tool in easiest(tools[:1])] == ["tables.find"]


REFUND = Offered(
    "refund",
    "Pay an order back",
    fields({"order_id": TEXT, "since": TEXT, "on": {**TEXT, "format": "date"}}, "order_id"),
)
MOMENT = "2026-11-15T09:29:20+00:00"


@pytest.mark.parametrize(
    ("request_", "name", "kept"),
    [
        ("refund A7", "since", False),
        ("退 A7", "since", False),
        ("refund A7 since today", "since", True),
        ("Refund my last order A7", "on", False),
        ("Refund A7 next week", "on", True),
    ],
)
def test_a_moment_is_told_or_follows_from_a_word(request_: str, name: str, *, kept: bool) -> None:
    moment = MOMENT if name == "since" else MOMENT[:10]
    made = [call("refund", order_id="A7", **{name: moment})]
    context = "Known (table): 2026-01-02 11 15 09 29 20 00" if name == "since" else ""
    found = grounded(made, {"refund": REFUND}, request_, context)[0]["args"]
    assert found.get(name) == (moment if kept else None)


@pytest.mark.parametrize(
    "request_", ["Refund my last order", "Refund this order now", "退掉上周的订单"]
)
def test_the_clock_is_no_value_of_an_argument_that_is_no_time(request_: str) -> None:
    made = [call("refund", order_id=MOMENT), call("refund", order_id="2026-11-15")]
    for kept in grounded(made, {"refund": REFUND}, request_):
        assert kept["args"]["order_id"] == "?"


def test_a_value_of_the_draft_before_is_no_value_of_the_request() -> None:
    step = {"id": "r", "tool": "refund", "inputs": {"order_id": "77"}}
    previous = Plan.model_validate({"goal": "g", "steps": [step]})
    brief = PlanBrief("Refund my last order", tools=SPECS, now=MOMENT, previous=previous)
    task = DraftTask.of(brief)
    assert "77" in task.remark
    kept = grounded(
        [call("refund", order_id="77")], {"refund": REFUND}, task.request_text, task.context
    )
    assert kept[0]["args"]["order_id"] == "?"


def test_a_list_of_things_that_have_the_argument_is_worked_on_one_by_one() -> None:
    steps = plan(call("files.list"), call("files.read", path="$1"))
    assert steps["read"]["kind"] == "map"
    assert steps["read"]["over"] == {"$from": "list", "$path": ["files"]}
    assert steps["read"]["each"]["inputs"] == {"path": {"$from": "item", "$path": ["path"]}}


def test_a_result_that_is_no_text_is_quoted_before_it_is_written() -> None:
    steps = plan(call("files.search", text="x"), call("files.write", path="a.md", text="$1"))
    assert list(steps) == ["search", "search_text", "write", "answer"]
    assert steps["write"]["inputs"] == {"path": "a.md", "text": "{{search_text}}"}
    assert steps["search_text"]["instruction"] == "{{search}}"
    assert steps["search_text"]["style"] == "results"


def test_the_text_of_a_file_is_written_as_it_is() -> None:
    steps = plan(call("files.read", path="a.md"), call("files.write", path="b.md", text="$1"))
    assert steps["write"]["inputs"]["text"] == {"$from": "read", "$path": ["text"]}


def test_a_whole_result_is_no_path_so_it_is_asked_for() -> None:
    steps = plan_of_calls(
        [call("tables.find", table="a.csv"), call("files.read", path="$1")], TOOLS, "x"
    )["steps"]
    assert cast("Any", steps)[1]["inputs"] == {}


def test_rows_come_out_of_calls_and_are_never_written_down() -> None:
    assert is_rows(ROWS)
    assert not is_rows({"type": "array", "items": TEXT})
    rules = parse_grammar(calls_grammar("draw it", [TOOLS["charts.draw"]]))
    drafts = [json.loads(Writer(rules, seed).write()) for seed in range(60)]
    rows = {each["args"]["rows"] for draft in drafts for each in draft.get("calls", ())}
    assert "?" in rows
    assert all(each == "?" or each.startswith("$") for each in rows)


def test_where_a_call_gives_rows_they_are_taken_from_it_and_not_asked_for() -> None:
    tools = [TOOLS["charts.draw"], TOOLS["tables.find"]]
    rules = parse_grammar(calls_grammar("draw it", tools))
    written = [json.loads(Writer(rules, seed).write()) for seed in range(120)]
    drafts = [draft["calls"] for draft in written if "calls" in draft]
    assert {draft[0]["tool"] for draft in drafts} == {"tables.find"}
    rows = [each["args"]["rows"] for draft in drafts for each in draft if "rows" in each["args"]]
    assert rows
    assert all(each.startswith("$") for each in rows)


def test_every_block_of_context_is_told_also_under_one_title() -> None:
    known = tuple(ContextBlock("database table", text) for text in ("orders", "customers"))
    task = DraftTask.of(PlanBrief("how many?", tools=(QUERY,), known=known))
    assert task.context == "Known (database table): orders\nKnown (database table): customers"


def test_a_plan_before_is_told_in_the_language_of_calls() -> None:
    steps = [
        {"id": "a", "tool": "files.read", "inputs": {"path": "x"}},
        {"id": "b", "tool": "files.write", "inputs": {"text": "{{a}}", "path": "{{zz.k}}"}},
    ]
    before = Plan.model_validate({"steps": steps})
    task = DraftTask.of(PlanBrief("again", tools=(QUERY,), previous=before))
    assert '"args":{"text":"$1","path":"?"}' in task.remark


@pytest.mark.parametrize(
    ("args", "kept"),
    [
        ({"where": [{"column": "amount", "is": ">", "value": 90}]}, True),
        ({"where": [{"column": "day", "is": "<=", "value": "2020-01-01"}]}, False),
        ({"aggregate": [{"function": "sum", "column": "amount"}]}, True),
        ({"aggregate": [{"function": "sum", "column": "profit"}]}, False),
    ],
)
def test_the_parts_of_an_object_are_told_too(args: dict[str, Any], *, kept: bool) -> None:
    made = [call("tables.find", table="sales.csv", **args)]
    context = "Known (columns of files): sales.csv: day (date), amount (number)"
    found = grounded(made, TOOLS, "amounts above 90 in sales.csv", context)[0]["args"]
    assert found == ({"table": "sales.csv", **args} if kept else {"table": "sales.csv"})


@pytest.mark.parametrize(
    ("path", "kept"),
    [("todo.md", True), ("sales.csv", True), ("sales_above.csv", False), ("orders", False)],
)
def test_a_path_is_one_that_was_told_as_it_stands(path: str, *, kept: bool) -> None:
    context = "Known (database table): orders above\nKnown (columns of files): sales.csv: day"
    found = grounded([call("files.read", path=path)], TOOLS, "read todo.md above", context)
    assert found[0]["args"] == {"path": path if kept else "?"}


@pytest.mark.parametrize(
    ("name", "small"),
    [
        ("openai:qwen3:1.7b", True),
        ("openai:smollm2-135m", True),
        ("openai:Qwen/Qwen3-8B", False),
        ("openai:mixtral-8x7b", False),
        ("openai:gpt-5.4-mini", False),
        ("anthropic:claude-sonnet-5", False),
    ],
)
def test_a_small_model_is_known_by_its_name(name: str, *, small: bool) -> None:
    assert is_small(name) is small


ASKED = [Message("user", "There are 12 boats in “Bergen”. How many?")]


async def test_a_text_of_a_small_model_gets_out_only_if_it_holds() -> None:
    model = FactCheckedModel(ScriptedModel("12 boats", "13 boats", "15", name="small"))
    assert (await read_answer(model.stream(Prompt(ASKED)))).text == "12 boats"
    with pytest.raises(ModelFailed, match="13"):
        await read_answer(model.stream(Prompt(ASKED)))
    schema: dict[str, Json] = {"type": "integer"}
    assert (await read_answer(model.stream(Prompt(ASKED, schema=schema)))).text == "15"
    assert model.name == "small"


class Closes:
    """Counts its streams that were closed."""

    name = "closes"
    closed = 0

    async def stream(self, prompt: Prompt) -> AsyncIterator[Delta]:
        try:
            inner = ScriptedModel("a long text").stream(prompt)
            async for delta in inner:
                yield delta
        finally:
            self.closed += 1


async def test_a_checked_text_that_is_left_is_left_behind_it_too() -> None:
    inner = Closes()
    pieces = FactCheckedModel(inner).stream(Prompt(ASKED))
    await anext(aiter(pieces))
    await cast("Any", pieces).aclose()
    assert inner.closed == 1
