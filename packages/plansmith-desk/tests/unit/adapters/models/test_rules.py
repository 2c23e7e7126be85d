"""Planning by rules: values as they stand, the tool whose words fit, and honest about itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plansmith import Plansmith
from plansmith.errors import ModelRefused
from plansmith.plan.data import Json
from plansmith.plan.run import Run, RunStatus
from plansmith.ports import Message, Prompt, TriageBrief
from plansmith_desk.builtin import builtin_sources
from plansmith_desk.model.prompt import Offered
from plansmith_desk.model.rules import RulesModel, calls_for, keyword, read_values
from plansmith_planner.context.fence import fence
from plansmith_planner.model_calls import read_answer


@pytest.mark.parametrize(
    ("text", "kind", "values"),
    [
        ("Say \"hello there\" and 'good bye'", "quoted", ["hello there", "good bye"]),
        ("It's Bob's", "quoted", []),
        ("Read notes/a.txt and b.md.", "paths", ["notes/a.txt", "b.md"]),
        ("读取会议.txt", "paths", ["会议.txt"]),
        ("open 'my file.txt'", "quoted", ["my file.txt"]),
        ("Fetch https://example.com/a?b=1.", "urls", ["https://example.com/a?b=1"]),
        ("Mail kim@post.org, please", "mails", ["kim@post.org"]),
        ("from 2026-05-02 to 2026年6月3日", "dates", ["2026-05-02", "2026-06-03"]),
        ("all *.csv and reports/**/x?.md", "patterns", ["*.csv", "reports/**/x?.md"]),
        ("Find all csv files", "patterns", ["*.csv"]),
        ("for 3 nights at 1,200.50", "numbers", ["3", "1200.50"]),
        ("the weather in New York", "names", ["New York"]),
    ],
)
def test_values_are_taken_as_they_stand(text: str, kind: str, values: list[Any]) -> None:
    assert read_values(text)[kind] == values


@given(st.text(max_size=300))
def test_whatever_is_said_is_read_without_a_fault(text: str) -> None:
    values = read_values(text)
    assert all(each in text for each in values["urls"] + values["mails"])


def offered(name: str, about: str, *required: str, reads: bool = True, **fields: Any) -> Offered:
    schema = {"type": "object", "properties": fields, "required": list(required)}
    return Offered(name, about, schema, only_reads=reads)


TEXT = {"type": "string"}
MAIL = offered("mail.send", "Send a mail.", "to", "body", reads=False, to=TEXT, body=TEXT)
BOOK = offered(
    "hotel.book",
    "Book a room in a hotel.",
    *("hotel", "arrival", "nights"),
    reads=False,
    hotel=TEXT,
    arrival={**TEXT, "format": "date"},
    nights={"type": "integer"},
    board={"enum": ["full", "half"]},
)
WEATHER = offered("weather.now", "The weather in a city now.", "city", city=TEXT)
NOTES = offered("notes.read", "Read a note.", "path", path=TEXT)
SHOP = (MAIL, BOOK, WEATHER, NOTES)


@pytest.mark.parametrize(
    ("request_text", "calls"),
    [
        ("How is the weather in Oslo?", [("weather.now", {"city": "Oslo"})]),
        (
            'Book a room in the hotel "Adler" from 2026-05-02, half board',
            [
                (
                    "hotel.book",
                    {"hotel": "Adler", "arrival": "2026-05-02", "nights": "?", "board": "half"},
                )
            ],
        ),
        ("Read the note todo.md, then mail it to kim@post.org", []),
        ("Tell me a joke", []),
        ("Which hotel is the mail from?", []),
    ],
)
def test_the_tool_whose_words_fit_gets_the_values(request_text: str, calls: list[Any]) -> None:
    found = calls_for(request_text, SHOP)
    assert [(each["tool"], each["args"]) for each in found] == calls


@pytest.mark.parametrize(
    "request_text",
    [
        *("unpaid invoices over 1000", "How many orders in shop.db?", "summarise todo.md"),
        *("Top 5 products by revenue in sales.csv", "What will the time of todo.md be tomorrow?"),
        *("Read todo.md, then sing it to me", "Read todo.md and send it to the boss"),
        *("sales.csv 里哪个客户没有付款？", "delete the backup folder"),
    ],
)
async def test_rules_refuse_a_request_with_a_word_that_they_do_not_cover(
    folder: Path, request_text: str
) -> None:
    async with Plansmith(model=RulesModel(), tools=builtin_sources(folder)) as smith:
        run = await smith.plan(request_text)
    assert (run.plan, run.status) == (None, RunStatus.FAILED)
    assert "plansmith model pull" in run.reason


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "may.txt").write_text("Two invoices\n", encoding="utf-8")
    (tmp_path / "todo.md").write_text("call Bob about the invoice\n", encoding="utf-8")
    (tmp_path / "sales.csv").write_text("region,amount\nNorth,3\nSouth,4\n", encoding="utf-8")
    return tmp_path


async def asked(folder: Path, request: str) -> Run:
    async with Plansmith(model=RulesModel(), tools=builtin_sources(folder)) as smith:
        run = await smith.plan(request)
        assert run.plan is not None
        assert run.plan.degraded
        assert run.status is RunStatus.REVIEWING
        await smith.decide(run.id, approve=run.plan.hash, by="me")
        return await smith.run(run.id)


@pytest.mark.parametrize(
    ("request_text", "tool", "expected"),
    [
        ("Which files here mention invoices?", "files.search", "2 files mention"),
        ("哪些文件提到“invoice”？", "files.search", "2 个文件提到“invoice”：may.txt、todo.md。"),
        ("Find all csv files here", "files.find", "sales.csv"),
        ("How many rows does sales.csv have?", "tables.describe", "2 rows, 2 columns"),
        ("Read todo.md", "files.read", "call Bob about the invoice"),
    ],
)
async def test_plain_requests_are_carried_through_over_the_built_in_tools(
    folder: Path, request_text: str, tool: str, expected: str
) -> None:
    run = await asked(folder, request_text)
    assert run.plan is not None
    assert run.plan.steps[0].to_json()["tool"] == tool
    assert run.status is RunStatus.DONE
    assert expected in run.report
    assert run.plan.degraded is not None
    assert run.plan.degraded in run.report


async def test_a_sum_takes_no_model_and_its_plan_is_as_good_with_rules_alone(folder: Path) -> None:
    async with Plansmith(model=RulesModel(), tools=builtin_sources(folder)) as smith:
        run = await smith.run((await smith.plan("What is 17% of 2,340?")).id)
    assert run.plan is not None
    assert run.plan.steps[0].to_json()["tool"] == "calculator.compute"
    assert run.plan.degraded is None
    assert run.status is RunStatus.DONE
    assert "397.8" in run.report


async def test_rules_say_what_they_cannot_do_and_only_the_brief_counts() -> None:
    head = "Tools, one a line:\n" + json.dumps({"name": "x", "does": "y", "inputs": {}})
    text = f"{head}\n{fence('request', 'Read a.txt')}\n{fence('what to say', 'Say exactly: hi')}"
    looks = [Message("system", "Write a plan."), Message("user", text)]
    forms: list[tuple[dict[str, Json] | None, str]] = [
        (None, "takes a language model"),
        ({"properties": {"decision": {}}}, "needs a language model"),
    ]
    for form, why in forms:
        with pytest.raises(ModelRefused, match=why):
            await read_answer(RulesModel().stream(Prompt(looks, schema=form)))
    answer = await read_answer(RulesModel().stream(Prompt(looks, brief=TriageBrief("Read a.txt"))))
    assert json.loads(answer.text)["decision"] == "plan"


async def test_another_plan_takes_a_model(folder: Path) -> None:
    async with Plansmith(model=RulesModel(), tools=builtin_sources(folder)) as smith:
        run = await smith.plan("Read todo.md")
        before = run.plan
        run = await smith.request_changes(run.id, "read may.txt instead", by="me")
        assert run.plan == before


@pytest.mark.parametrize("request_", ["what files are here?", "这里有哪些文件？"])
async def test_rules_choose_among_all_tools_and_search_for_no_word_of_their_own(
    folder: Path, request_: str
) -> None:
    async with Plansmith(model=RulesModel(), tools=builtin_sources(folder)) as smith:
        plan = (await smith.plan(request_)).plan
        assert plan is not None
        assert plan.steps[0].to_json()["tool"] == "files.list"
        asks = (await smith.plan("what is in this folder?")).plan
        assert asks is not None
        assert '"plan"' not in str(asks.to_json())


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
def test_the_rules_search_for_one_word_of_the_request(request_text: str, word: str) -> None:
    assert keyword(request_text) == word
