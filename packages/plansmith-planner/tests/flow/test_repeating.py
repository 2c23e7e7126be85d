"""Run again and continue: what runs, what is taken over, what is said of it, and by whom."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from tests.flow.smiths import Script, Stepwise, approved, plan, smith, step

from plansmith import Effect, RunStatus
from plansmith.errors import ModelRefused, Refused, ToolFailed
from plansmith.plan import events as e
from plansmith.plan.events import PlanningFailed
from plansmith.plan.limits import BudgetLimits
from plansmith.plan.run_options import RunOptions
from plansmith.ports import Usage
from plansmith.report.build import load_report
from plansmith.report.markdown import to_markdown
from plansmith.runs.intake import NewRun
from plansmith.testing import Answer, FakeTool
from plansmith_cli.replay import replay
from plansmith_server.report_page import to_html

BOOK = FakeTool("book", ["booked"], effect=Effect.FINAL)


TRIP = plan(step("a"), step("b", "book", after=["a"], inputs={"hotel": "Adler"}))


async def test_run_again_runs_everything_and_needs_its_approval() -> None:
    app, tools = smith(BOOK)
    first = await approved(app, await app.submit(TRIP))
    assert [call.tool for call in tools.calls] == ["look", "book"]
    again = await app.rerun(first.id, by="ada")
    assert again.status is RunStatus.REVIEWING
    assert again.id != first.id
    assert [call.tool for call in tools.calls] == ["look", "book"]
    events = await app.store.events(again.id)
    assert not [each for each in events if isinstance(each.body, e.StepReused)]
    [asked] = [each.body for each in events if isinstance(each.body, e.ReviewAsked)]
    assert f"b was done in run {first.id} and is done again" in asked.reasons
    again = await approved(app, again)
    assert again.status is RunStatus.DONE
    assert [call.tool for call in tools.calls] == ["look", "book"] * 2
    assert (await replay(again.id, app)).identical


async def test_a_continued_run_keeps_the_limits_and_the_wish_to_see_plans_first() -> None:
    app, _ = smith(FakeTool("flaky", [ToolFailed("no"), "ok"]))
    options = RunOptions(mode="review", budget=BudgetLimits(steps=9))
    wanted = plan(step("a"), step("f", "flaky"))
    journal = await app.runs.create(NewRun("r", wanted, options=options, by="ada"))
    first = await approved(app, await app.get(journal.id))
    again = await app.retry(first.id, by="ada")
    assert again.status is RunStatus.REVIEWING
    assert again.options == RunOptions(mode="review", budget=BudgetLimits(steps=9))


async def test_the_report_of_a_continued_run_never_says_that_taken_over_work_was_done_now() -> None:
    clock = Stepwise()
    app, tools = smith(BOOK, FakeTool("flaky", [ToolFailed("no")] * 2 + ["ok"]), clock=clock)
    wanted = plan(step("b", "book"), step("f", "flaky", after=["b"]))
    first = await approved(app, await app.submit(wanted))
    clock.time += timedelta(days=3)
    second = await approved(app, await app.retry(first.id, by="ada"))
    clock.time += timedelta(days=3)
    third = await approved(app, await app.retry(second.id, by="ada"))
    assert [call.tool for call in tools.calls].count("book") == 1
    assert third.status is RunStatus.DONE
    # Taken over twice, it is still told as done in the run that did it, on that day.
    report = await load_report(app.store, third.id)
    booked = {each.step: each for each in report.evidence}["b"]
    assert booked.taken_from == first.id
    assert booked.at == datetime(2026, 1, 1, tzinfo=UTC)
    for text in (to_markdown(report), to_html(report)):
        assert f"Taken over from run {first.id}, where it was done 2026-01-01" in text
        assert "Everything was done." not in text
        assert "1 of 2 steps were done in an earlier run" in text
    assert third.steps["b"].finished_at == datetime(2026, 1, 1, tzinfo=UTC)
    assert (await replay(third.id, app)).identical


async def test_who_continues_is_asked_about_what_is_left_and_not_about_what_is_done() -> None:
    app, _ = smith(FakeTool("send", ["ok", ToolFailed("full")], effect=Effect.WRITE))
    ann = {"id": "ann", "tool": "send", "inputs": {"to": "ann"}}
    bob = {"id": "bob", "tool": "send", "inputs": {"to": "bob"}, "after": ["ann"]}
    first = await approved(app, await app.submit(plan(ann, bob)))
    assert first.status is RunStatus.PARTLY_DONE
    again = await app.retry(first.id, by="ada")
    events = await app.store.events(again.id)
    [asked] = [each.body for each in events if isinstance(each.body, e.ReviewAsked)]
    assert asked.reasons == ("Step `bob` changes something: it calls `send`",)
    assert (asked.hash, again.status) == (first.plan and first.plan.hash, RunStatus.REVIEWING)


# Planning that fails


@pytest.mark.parametrize("verb", ["retry", "rerun"])
async def test_a_request_whose_planning_failed_can_be_planned_again(
    scripted: Script, verb: str
) -> None:
    draft = {"goal": "look", "steps": [step("a")]}
    model = scripted(ModelRefused("the key is wrong"), draft)
    app, tools = smith(model=model)
    first = await app.plan("look at it", by="ada", locale="en")
    assert (first.status, first.plan) == (RunStatus.FAILED, None)
    assert "the key is wrong" in first.reason
    assert tools.calls == []
    again = await getattr(app, verb)(first.id, by="ada")
    assert (again.request, again.origin.id) == ("look at it", first.id)
    assert again.plan is not None
    assert (await app.run(again.id)).status is RunStatus.DONE


async def test_the_failure_of_planning_is_in_the_journal_with_what_it_took(
    scripted: Script,
) -> None:
    answers = [Answer("I cannot", usage=Usage(10, 5))] * 3
    app, _ = smith(model=scripted(*answers))
    run = await app.plan("look", by="ada")
    [failed] = [
        each.body
        for each in await app.store.events(run.id)
        if isinstance(each.body, PlanningFailed)
    ]
    assert failed.tokens == run.tokens == 45
    assert run.problems
    report = await load_report(app.store, run.id)
    assert "No plan could be made; nothing was run." in to_markdown(report)
    assert report.took.tokens == 45
    assert (await replay(run.id, app)).identical


async def test_a_stand_in_can_neither_be_approved_nor_run(scripted: Script) -> None:
    app, _ = smith(model=scripted(*["None of the tools here can do that"] * 3))
    run = await app.plan("fly", by="ada")
    assert (run.plan, run.status) == (None, RunStatus.FAILED)
    assert "no plan could be made" in run.reason
    assert (await app.run(run.id)).status is RunStatus.FAILED
    with pytest.raises(Refused):
        await app.decide(run.id, approve="0" * 64)


async def test_a_revision_that_fails_leaves_the_plan_and_says_why(scripted: Script) -> None:
    draft = {"goal": "look", "steps": [step("b", "book")]}
    spent = Answer("no idea", usage=Usage(7, 0))
    app, _ = smith(BOOK, model=scripted(draft, spent, spent, spent))
    run = await app.plan("book", by="ada")
    run = await app.request_changes(run.id, "cheaper", by="ada")
    assert run.status is RunStatus.REVIEWING
    assert run.tokens == 21
    assert run.last is not None
    assert isinstance(run.last.body, e.ReviewAsked)
    assert "the planner gave no other one" in run.last.body.reasons[0]
    assert (await replay(run.id, app)).identical
