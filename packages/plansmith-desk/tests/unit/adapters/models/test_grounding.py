"""What a small model invents or copies badly: asked for, left out, put right, never passed on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import nullcontext
from typing import Any, cast

import pytest

from plansmith.errors import ModelFailed
from plansmith.plan.data import Json
from plansmith.plan.plan import Plan
from plansmith.ports import Delta, Message, PlanBrief, Prompt
from plansmith.testing import ScriptedModel
from plansmith_desk.model.grounding import grounded
from plansmith_desk.model.prompt import DraftTask, Offered
from plansmith_desk.model.wording import strange_names
from plansmith_planner.model_calls import read_answer
from plansmith_planner.models import fact_checked

TEXT = {"type": "string"}
NUMBER = {"type": "number"}


def offered(name: str, required: tuple[str, ...] = (), **fields: Any) -> Offered:
    return Offered(name, "", {"type": "object", "properties": fields, "required": list(required)})


READ = offered("files.read", ("path",), path=TEXT)
SEND = offered(
    "mail.send", ("to", "body"), to=TEXT, body=TEXT, copies=NUMBER, kind={"enum": ["rich"]}
)
BOOK = offered("room.book", ("day", "seats"), day={**TEXT, "format": "date"}, seats=NUMBER)
REFUND = offered("refund", ("order_id",), order_id=TEXT, since=TEXT, on={**TEXT, "format": "date"})
FIND = offered(
    "tables.find",
    ("table",),
    table=TEXT,
    where={"type": "array", "items": {"properties": {"is": {"enum": [">", "<="]}}}},
)
TOOLS = {tool.name: tool for tool in (READ, SEND, BOOK, REFUND, FIND)}


def call(tool: str, **args: Any) -> dict[str, Any]:
    return {"tool": tool, "args": args}


def judged(made: dict[str, Any], request: str, context: str = "") -> Any:
    [found] = grounded([made], TOOLS, request, context)
    return found["args"]


MOMENT = "2026-11-15T09:29:20+00:00"


@pytest.mark.parametrize(
    ("request_", "made", "kept"),
    [
        ("read a.txt", call("files.read", path="a.txt"), None),
        ("read it", call("files.read", path="report.pdf"), {"path": "?"}),
        ("the answer is $1", call("files.read", path="$1"), {"path": "?"}),
        ("Mail 'see you' to Bo", call("mail.send", to="bo", body="See you"), None),
        (
            "Mail Bo",
            call("mail.send", to="Bo", body="Hello Bo", copies=2),
            {"to": "Bo", "body": "?"},
        ),
        ("Mail Bo hello", call("mail.send", to="Bo", body="hello", kind="rich"), None),
        ("给小王发邮件说你好", call("mail.send", to="小王", body="你好"), None),
        ("告诉Bo明天Smith来", call("mail.send", to="Bo", body="smiths: Bo"), None),
        ("用英文跟小王说你好", call("mail.send", to="Xiao Wang", body="Hello!"), None),
        (
            "把这个发给他",
            call("mail.send", to="mallory@evil.example", body="C:/secrets.txt"),
            {"to": "?", "body": "?"},
        ),
        ("for two on 2026-03-04", call("room.book", day="2026-03-04", seats=2), None),
        ("for two on the 4th of March 2026", call("room.book", day="2026-03-04", seats=2), None),
        (
            "for two on the 4th",
            call("room.book", day="2026-03-09", seats=9),
            {"day": "?", "seats": "?"},
        ),
        ("book it for tomorrow", call("room.book", day="2026-03-09", seats="?"), None),
        ("定两个座位", call("room.book", day="?", seats=2), None),
        ("refund A7", call("refund", order_id="A7", since=MOMENT), {"order_id": "A7"}),
        ("refund A7 since today", call("refund", order_id="A7", since=MOMENT), None),
        ("My last order A7", call("refund", order_id="A7", on=MOMENT[:10]), {"order_id": "A7"}),
        ("Refund A7 next week", call("refund", order_id="A7", on=MOMENT[:10]), None),
        ("Refund this order now", call("refund", order_id=MOMENT), {"order_id": "?"}),
        ("退掉上周的订单", call("refund", order_id=MOMENT[:10]), {"order_id": "?"}),
    ],
)
def test_what_was_not_told_is_asked_or_left_out(
    request_: str, made: dict[str, Any], kept: dict[str, Any] | None
) -> None:
    assert judged(made, request_) == (made["args"] if kept is None else kept)


@pytest.mark.parametrize(
    ("made", "kept"),
    [
        (call("files.read", path="todo.md"), True),
        (call("files.read", path="sales.csv"), True),
        (call("files.read", path="sales_above.csv"), False),
        (call("files.read", path="orders"), False),
        (call("tables.find", table="sales.csv", where=[{"is": ">", "value": 90}]), True),
        (
            call("tables.find", table="sales.csv", where=[{"is": "<=", "value": "2020-01-01"}]),
            False,
        ),
    ],
)
def test_a_path_and_the_parts_of_an_object_are_those_of_the_request_or_the_folder(
    made: dict[str, Any], *, kept: bool
) -> None:
    context = "Known (database table): orders above\nKnown (columns of files): sales.csv: day"
    found = judged(made, "read todo.md, amounts above 90 in sales.csv", context)
    assert (found == made["args"]) is kept


def test_a_value_of_the_draft_before_is_no_value_of_the_request() -> None:
    step = {"id": "r", "tool": "refund", "inputs": {"order_id": "77"}}
    previous = Plan.model_validate({"goal": "g", "steps": [step]})
    task = DraftTask.of(PlanBrief("Refund my last order", now=MOMENT, previous=previous))
    assert "77" in task.remark
    made = call("refund", order_id="77")
    assert judged(made, task.request_text, task.context) == {"order_id": "?"}


def test_a_default_of_the_schema_goes_without_asking() -> None:
    tool = offered("logs", ("lines",), lines={"type": "integer", "default": 100})
    [found] = grounded([call("logs", lines="?")], {"logs": tool}, "the logs")
    assert found["args"] == {"lines": 100}


@pytest.mark.parametrize(
    ("request_", "name", "drafted", "wanted"),
    [
        ("Remind me at 6 pm", "at", "2026-03-09 18:00", "2026-03-09 18:00"),
        ("晚上8点提醒我", "at", "2026-03-09 20:00", "2026-03-09 20:00"),
        ("Remind me at 6 pm", "at", "2026-03-09 07:00", "?"),
        ("for two hours", "minutes", 180, "?"),
        ("for some hours", "minutes", 120, "?"),
        ("for 3 hours", "duration", 180, 180),
        ("Run it for two minutes", "seconds", 2, 120),
        ("运行两分钟", "seconds", 2, 120),
        ("Run it for an hour", "run_minutes", 1, 60),
        ("Run it for half an hour", "durationSeconds", 0.5, 1800),
        ("运行半小时", "seconds", 1800, 1800),
        ("给他2克", "dose_mg", 2, 2000),
        ("Send 1,500 grams", "weight_kg", 1500, 1.5),
        ("Run it for two weeks", "days", 2, 14),
        ("Run it for 2 minutes and 2 seconds", "seconds", 2, 2),
        ("Run 3 times for 20 minutes", "times", 3, 3),
        ("Bring 2 kg in 2 hours", "hours", 2, 2),
        ("Run it for two minutes", "seconds", 7, "?"),
        ("在2026年运行它", "seconds", 7, "?"),
    ],
)
def test_an_amount_is_told_in_the_unit_of_its_argument(
    request_: str, name: str, drafted: object, wanted: object
) -> None:
    tool = offered("lab.run", (name,), **{name: TEXT if isinstance(drafted, str) else NUMBER})
    [found] = grounded([call("lab.run", **{name: drafted})], {"lab.run": tool}, request_)
    assert found["args"][name] == wanted


def test_a_call_that_repeats_the_one_before_it_goes_and_references_follow() -> None:
    read, other = call("files.read", path="a.txt"), call("files.read", path="b.txt")
    mail = call("mail.send", to="a@b.org", body="$1 and $3")
    kept = grounded([read, read, other, mail], TOOLS, "mail a.txt and b.txt to a@b.org")
    assert kept == [read, other, call("mail.send", to="a@b.org", body="$1 and $2")]


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


def test_a_name_with_a_capital_has_to_be_in_the_source() -> None:
    assert strange_names("It was signed by Carla Stone on Monday.", "Bo signed it.") == [
        "Carla",
        "Stone",
    ]
    assert strange_names("It was signed by Bo.", "Bo signed it.") == []
    assert strange_names("The flat is in Shanghai.", "公寓位于上海。") == []


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
