"""A run's report: answer, evidence, what went differently, who decided, what it took."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from tests import forked
from tests.flow.plans import approve

from plansmith import Effect, Plan, Plansmith, Run, RunStatus, ToolSpec
from plansmith.errors import ToolBusy, ToolFailed
from plansmith.plan.data import Json
from plansmith.plan.events import Actor
from plansmith.plan.limits import Limits
from plansmith.plan.planning import Times
from plansmith.ports import Call, Delta, ModelDone, TextDelta, Usage
from plansmith.report.build import load_report
from plansmith.report.data import Report, words_for
from plansmith.report.markdown import to_markdown
from plansmith.testing import Answer, FakeClock, FakeTool, FakeTools, ScriptedModel
from plansmith_planner.settings import PlannerSettings
from plansmith_server.report_page import to_html

EN, ZH = words_for("en"), words_for("zh")

Scripted = Callable[..., ScriptedModel]


def plan(*steps: dict[str, Any], **fields: Any) -> Plan:
    return Plan.model_validate({"goal": "Compare the cities", "steps": list(steps)} | fields)


LIMITS = Limits(first_wait_s=0)


def smith(*tools: FakeTool, **options: Any) -> Plansmith:
    given: dict[str, Any] = {"limits": LIMITS, "clock": FakeClock()} | options
    return Plansmith(tools=[FakeTools(*tools)], **given)


async def ended(app: Plansmith, run: Run) -> Report:
    if run.status is RunStatus.REVIEWING and run.plan is not None:
        await app.decide(run.id, approve=run.plan.hash, by="ada")
    return await load_report(app.store, (await app.run(run.id)).id)


async def reported(app: Plansmith, wanted: Plan) -> Report:
    return await ended(app, await app.submit(wanted))


OSLO = FakeTool("oslo", [{"temp": -3}])
ROME = FakeTool("rome", [{"temp": 21}])
CITIES = (
    {"id": "oslo", "tool": "oslo", "title": "Weather in Oslo"},
    {"id": "rome", "tool": "rome"},
    {"id": "say", "instruction": "Compare {{oslo.temp}} and {{rome.temp}}"},
)


async def test_the_answer_comes_first_and_each_claim_names_its_step(scripted: Scripted) -> None:
    model = scripted(
        Answer(
            "It is -3 in Oslo [step:oslo].\nIt is 21 in Rome [step:rome, step:oslo].",
            usage=Usage(100, 20, cost=Decimal("0.012")),
        )
    )
    report = await reported(smith(OSLO, ROME, model=model), plan(*CITIES))
    assert [claim.steps for claim in report.answer.claims] == [("oslo",), ("rome", "oslo")]
    assert report.notes == ()
    text = to_markdown(report)
    assert text.index("It is -3 in Oslo [`oslo`]") < text.index("## Evidence")
    assert text.index("## Evidence") < text.index("**oslo** — Weather in Oslo (`oslo`)")
    assert "Tokens: 120" in text
    assert "Money: $0.012" in text


@pytest.mark.parametrize(
    ("cited", "note"),
    [("paris", "does not exist"), ("bad", "did not finish"), ("side", "was not made from")],
)
async def test_a_citation_that_does_not_hold_is_removed_with_a_note(
    scripted: Scripted, cited: str, note: str
) -> None:
    model = scripted(f"All is well [step:{cited}].\nIt is -3 [step:oslo].")
    bad, side = FakeTool("bad", [ToolFailed("no")]), FakeTool("side", [1])
    app = smith(OSLO, bad, side, model=model, limits=LIMITS.replace(max_replans=0))
    wanted = plan(
        {"id": "oslo", "tool": "oslo"},
        {"id": "bad", "tool": "bad"},
        {"id": "side", "tool": "side"},
        {"id": "say", "instruction": "Say {{oslo}}"},
    )
    report = await reported(app, wanted)
    assert any(note in each for each in report.notes)
    assert any("without a source: 1" in each for each in report.notes)
    assert f"step:{cited}" not in report.answer.text
    assert report.answer.claims[1].steps == ("oslo",)


async def test_a_plain_reply_says_which_steps_it_was_made_from() -> None:
    report = await reported(smith(OSLO, ROME), plan(*CITIES))
    assert report.answer.text == "Compare -3 and 21"
    assert report.answer.sources == ("oslo", "rome")
    assert "From: `oslo`, `rome`" in to_markdown(report)


async def test_retries_edits_and_decisions_are_told_with_who_and_when() -> None:
    flaky = FakeTool("oslo", [ToolBusy("later"), {"temp": -3}])
    app = smith(flaky, ROME, FakeTool("mail", ["sent"], effect=Effect.FINAL))
    first = plan(*CITIES[:1], {"id": "mail", "tool": "mail", "inputs": {"to": "bob"}})
    run = await app.submit(first, by="bob")
    edited = plan(*CITIES, {"id": "mail", "tool": "mail", "inputs": {"to": "eve"}})
    report = await ended(app, await app.edit(run.id, edited, by="ada"))
    deviations = [f"{each.step}: {each.text}" for each in report.deviations]
    assert deviations == [
        ": ada changed the plan: added rome, say; changed mail",
        "oslo: tried 2 times; before: later",
    ]
    assert [each.text for each in report.decisions] == [f"ada approved the plan {edited.hash[:12]}"]
    assert report.decisions[0].by == "ada"
    assert "(2026-01-01 00:00:00 UTC)" in to_markdown(report)


async def test_a_report_of_damaged_results_says_so_and_shows_the_others(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    # Smaller values would be in the rows of their events.
    oslo = FakeTool("oslo", [{"temp": -3, "told": "cold, " * 60}])
    say = {
        "id": "say",
        "instruction": "Compare {{oslo.temp}} and {{rome.temp}}, " + "slowly, " * 60,
    }
    async with smith(oslo, ROME, store=url) as app:
        run = await app.run((await app.submit(plan(*CITIES[:2], say))).id)
    lost = [run.steps[name].result_hash for name in ("oslo", "say")]
    with closing(sqlite3.connect(tmp_path / "runs.db")) as database, database:
        found = database.executemany("DELETE FROM contents WHERE hash = ?", [(x,) for x in lost])
        assert found.rowcount == 2
    async with smith(store=url) as app:
        again = await app.get(run.id)
        assert again.damage
        for text in (again.report, to_markdown(await load_report(app.store, run.id))):
            assert EN["lost"] in text
            assert EN["lost_reply"] in text
            assert '"temp": 21' in text


async def test_what_failed_and_what_did_not_run_is_told_with_its_reason() -> None:
    app = smith(FakeTool("oslo", [ToolFailed("the service is closed")]), ROME)
    report = await reported(app, plan(*CITIES))
    assert report.status == "partly_done"
    failures = {each.step: (each.status, each.reason) for each in report.failures}
    assert failures["oslo"] == ("failed", "the service is closed")
    assert failures["say"][0] == "skipped"
    text = to_markdown(report)
    assert "`oslo` failed: the service is closed" in text
    assert "There is no answer" in text


async def test_a_report_without_a_result_does_not_promise_results() -> None:
    app = smith(FakeTool("oslo", [ToolFailed("the service is closed")]))
    text = to_markdown(await reported(app, plan(CITIES[0])))
    assert "no step has a result" in text
    assert "listed below" not in text


async def test_a_result_taken_over_and_a_step_switched_off_are_told() -> None:
    app = smith(OSLO, ROME)
    first = await app.submit(plan(*CITIES[:2]))
    await app.run(first.id)
    off = {"id": "rome", "tool": "rome", "disabled": True}
    more = {"id": "again", "tool": "oslo"}
    report = await ended(app, await app.retry(first.id, plan=plan(CITIES[0], off, more)))
    deviations = {each.step: each.text for each in report.deviations}
    assert deviations["oslo"] == f"the result was taken over from run {first.id}"
    assert deviations["rome"] == "was switched off"


async def test_an_unknown_price_and_unknown_time_are_called_unknown(scripted: Scripted) -> None:
    model = scripted(Answer("ok", usage=Usage(10, 10)))
    report = await reported(smith(OSLO, ROME, model=model), plan(*CITIES))
    assert report.took.tokens == 20
    assert "Money: unknown" in to_markdown(report)
    assert report.to_json()["took"] == {
        "calls": 3,
        "tokens": 20,
        "money_usd": None,
        "some_prices_unknown": True,
        "seconds": 0.0,
        "planning_seconds": 0.0,
        "running_seconds": 0.0,
        "waiting_seconds": 0.0,
    }
    assert "Money: $0" in to_markdown(await reported(smith(OSLO, ROME), plan(*CITIES)))


async def test_large_results_are_clipped_with_a_note_and_many_share_the_room() -> None:
    big = FakeTool("big", ["x" * 50_000])
    report = await reported(smith(big), plan({"id": "a", "tool": "big"}))
    assert len(report.evidence[0].result) == 2000
    assert "50,000 characters, clipped" in to_markdown(report)
    many = plan(*({"id": f"s{n}", "tool": "big"} for n in range(400)))
    report = await reported(smith(big), many)
    assert sum(len(each.result) for each in report.evidence) <= 200_000
    assert report.to_json()["evidence"][0]["result_hash"]  # type: ignore[index, call-overload]


# What is missing, how long it took, who made it


MAIL = FakeTool("mail", ["sent"], effect=Effect.FINAL)
BROKEN = FakeTool("broken", [ToolFailed("no")])


def first_line(report: Report) -> str:
    """What a person reads first, below the title."""
    lines = [each for each in to_markdown(report).splitlines() if each]
    assert f"<p>{report.head[0]}</p>" in to_html(report)
    return lines[1]


EACH = {"tool": "send", "inputs": {"to": "{{item}}"}}


@pytest.mark.parametrize(
    ("steps", "line"),
    [
        (
            [
                {"id": "b", "tool": "broken"},
                {"id": "m", "tool": "mail", "title": "Mail the boss", "after": ["b"]},
            ],
            "Not done: m — Mail the boss (did not run).",
        ),
        (
            [{"id": "m", "over": ["ann", "bob"], "each": EACH, "width": 1}],
            "Not done: m (failed; 1 of its 2 parts were done).",
        ),
    ],
)
async def test_the_first_line_of_a_partly_done_run_names_the_effect_that_did_not_happen(
    steps: list[dict[str, Any]], line: str
) -> None:
    send = FakeTool("send", ["ok", ToolFailed("full")], effect=Effect.WRITE)
    report = await reported(smith(OSLO, BROKEN, MAIL, send), plan(CITIES[0], *steps))
    assert report.status == "partly_done"
    assert first_line(report) == line
    assert report.to_json()["head"][0] == report.head[0]  # type: ignore[index]


async def test_an_effect_stopped_in_mid_call_is_not_called_undone() -> None:
    began = asyncio.Event()

    class Paying:
        async def tools(self) -> list[ToolSpec]:
            return [ToolSpec(name="pay", input_schema={}, effect=Effect.FINAL)]

        async def call(self, tool: str, arguments: Mapping[str, Json], call: Call) -> Json:
            del tool, arguments, call
            began.set()
            await asyncio.Event().wait()
            return None

    app = Plansmith(tools=[Paying()], limits=Limits(grace_s=0.1))
    each = {"tool": "pay", "inputs": {"to": "{{item}}"}}
    wanted = plan({"id": "p", "tool": "pay"}, {"id": "m", "over": ["ann"], "each": each})
    run = await app.submit(wanted)
    await app.decide(run.id, approve=wanted.hash, by="ada")
    running = asyncio.create_task(app.run(run.id))
    await began.wait()
    await app.cancel(run.id, by="ada")
    await running
    report = await load_report(app.store, run.id)
    assert "It is not known whether p took effect." in report.head
    assert "It is not known whether m took effect." in report.head
    assert not [line for line in report.head if line.startswith("Not done")]


async def test_planning_and_running_count_and_waiting_for_a_person_is_told_apart() -> None:
    clock = FakeClock()

    class Thinking:
        name = "thinking"

        async def stream(self, *_: Any, **__: Any) -> AsyncIterator[Delta]:
            await clock.advance(50)
            yield TextDelta(json.dumps({"goal": "g", "steps": [{"id": "m", "tool": "slow"}]}))
            yield ModelDone(Usage(900, 100), self.name)

    tools = FakeTools(FakeTool("slow", ["ok"], effect=Effect.FINAL, delay=7), clock=clock)
    no_triage = PlannerSettings(triage=False)
    app = Plansmith(model=Thinking(), tools=[tools], clock=clock, settings=no_triage)
    run = await app.plan("do it")
    await clock.advance(3600)
    await approve(app, run)
    running = asyncio.create_task(app.run(run.id))
    await clock.advance(7)
    assert (await running).status is RunStatus.DONE
    report = await load_report(app.store, run.id)
    assert report.took.tokens == 1000
    assert report.took.times == Times(planning=50, running=7, waiting=3600)
    assert report.took.seconds == 57
    text = to_markdown(report)
    assert "Time: 57.0 s (planning 50.0 s, running 7.0 s)" in text
    assert "Waiting for a person: 3600.0 s" in text


async def test_a_report_says_who_made_the_plan() -> None:
    app = smith(OSLO)
    first = await app.submit(plan(CITIES[0]))
    assert "handed in ready-made" in to_markdown(await ended(app, first))
    again = await app.rerun(first.id)
    assert "the plan of an earlier run" in to_markdown(await ended(app, again))
    third = await app.submit(plan(CITIES[0]), by=Actor(kind="program", name="mcp"))
    assert "handed in by a program" in to_markdown(await ended(app, third))


async def test_a_report_is_the_same_in_another_process_without_the_tools(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    ordered = FakeTool("oslo", [{"z": 1, "temp": -3, "list": [{"b": 1, "a": 2}]}])
    async with smith(ordered, ROME, store=url) as app:
        run = await app.run((await app.submit(plan(*CITIES, locale="zh-CN"))).id)
        assert "-3" in run.report
    program = (
        "import asyncio, sys\n"
        "from plansmith import Plansmith\n"
        "async def main():\n"
        "    async with Plansmith(store=sys.argv[1]) as smith:\n"
        "        run = await smith.get(sys.argv[2])\n"
        "        sys.stdout.buffer.write(run.report.encode())\n"
        "asyncio.run(main())\n"
    )
    process = await forked.create_subprocess_exec(
        sys.executable, "-c", program, url, run.id, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()
    assert out.decode() == run.report
