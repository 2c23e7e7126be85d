"""What happens to a plan after it was made: edits, wishes, pauses, budgets, replans, repeats."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from tests.flow.plans import add_step, change_step, remove_step
from tests.flow.smiths import LIMITS, NO_TRIAGE, Script, plan, plan_of, smith, statuses, step

from plansmith import Effect, Plan, RunStatus
from plansmith.app import Plansmith
from plansmith.clock import SystemClock
from plansmith.engine.budget import Budget, Reservation
from plansmith.engine.journal import Journal
from plansmith.errors import Refused, ToolFailed
from plansmith.plan.capability import Capabilities
from plansmith.plan.events import ChangesAsked, ReviewAsked, RunPaused, StepReused
from plansmith.plan.limits import BudgetLimits
from plansmith.ports import Usage
from plansmith.review.coverage import PlanCalls, compare_with_approved
from plansmith.store.sqlite import SqliteStore
from plansmith.testing import Answer, FakeTool, FakeTools
from plansmith.tools.functions import tool


@pytest.mark.parametrize(("to", "undone"), [("bob", True), ("ann", False)])
async def test_a_plan_that_undoes_a_persons_own_edit_says_so_in_the_review(
    scripted: Script, to: str, undone: bool
) -> None:
    def mails(to: str, text: str) -> dict[str, Any]:
        return {"steps": [step("m", "mail", inputs={"to": to, "text": text})]}

    app, _ = smith(
        FakeTool("mail", effect=Effect.FINAL),
        model=scripted(mails("bob", "hi"), mails(to, "good day")),
    )
    run = await app.plan("mail bob")
    edited = change_step(plan_of(run), "m", inputs={"to": "ann", "text": "hi"})
    await app.edit(run.id, edited, by="ada")
    run = await app.request_changes(run.id, "be more formal", by="ada")
    bodies = [event.body for event in await app.store.events(run.id)]
    [*_, asked] = [each for each in bodies if isinstance(each, ReviewAsked)]
    assert ("The new plan undoes your own changes of m" in map(str, asked.reasons)) is undone


async def test_a_wish_outlives_a_process_that_died_over_it_and_a_resume(scripted: Script) -> None:
    model = scripted({"steps": [step("r", "look")]}, {"steps": [step("r", "look", n=1)]})
    app, _ = smith(FakeTool("look"), model=model)
    run = await app.plan("look at it")
    journal = await Journal.load(run.id, store=app.store, clock=SystemClock())
    await journal.append(ChangesAsked(text="look twice"), RunPaused())  # and the process died
    await app.resume(run.id, by="ada")
    await app.run(run.id)
    assert "look twice" in "".join(each.text for each in model.prompts[-1])


# Budget


async def test_two_runs_cannot_both_spend_what_is_left() -> None:
    app, tools = smith(shared_budget=BudgetLimits(steps=3))
    runs = [await app.submit(plan(*[step(f"s{n}") for n in range(3)])) for _ in range(2)]
    ended = await asyncio.gather(*(app.run(each.id) for each in runs))
    assert len(tools.calls) == 3
    assert {each.status for each in ended} <= {RunStatus.DONE, RunStatus.PAUSED}
    assert any(each.status is RunStatus.PAUSED for each in ended)


async def test_tokens_and_money_are_settled_by_what_was_used_and_kept(scripted: Script) -> None:
    used = Usage(400, 100, cost=Decimal("0.02"))
    model = scripted(Answer("one", usage=used), Answer("two", usage=used))
    app, _ = smith(model=model, budget=BudgetLimits(tokens=2000))
    run = await app.submit(
        plan(
            {"id": "r1", "instruction": "say one"},
            {"id": "r2", "instruction": "say two", "after": ["r1"]},
            {"id": "r3", "instruction": "say three", "after": ["r2"]},
        )
    )
    run = await app.run(run.id)
    assert run.status is RunStatus.PAUSED
    assert (run.tokens, run.money) == (1000, Decimal("0.04"))
    assert [statuses(run)[name] for name in ("r1", "r2")] == ["done", "done"]


def test_an_unknown_price_counts_nothing_and_the_token_limit_holds() -> None:
    budget = Budget(BudgetLimits(tokens=1000, money=Decimal(1)))
    assert budget.reserve(Reservation(600)) is None
    assert budget.reserve(Reservation(600)) == ("budget", "1,000 tokens")
    budget.settle(Reservation(600), Usage(100, 100))
    assert budget.reserve(Reservation(600)) is None
    assert budget.money == 0


# Replan


async def test_a_failure_is_replanned_finished_work_is_kept_and_nothing_new_is_asked(
    scripted: Script,
) -> None:
    first = {"steps": [step("a"), step("b", "flaky", inputs={"x": "{{a.seen}}"})]}
    second = {"steps": [step("a", inputs={"changed": 1}), step("c", inputs={"y": "{{a.seen}}"})]}
    model = scripted(first, second)
    app, tools = smith(FakeTool("flaky", [ToolFailed("CANARY from the tool")]), model=model)
    run = await app.plan("look and go on")
    run = await app.run(run.id)
    assert run.status is RunStatus.DONE
    assert [call.tool for call in tools.calls] == ["look", "flaky", "look"]
    assert plan_of(run).by_id["a"].to_json() == {"id": "a", "kind": "tool", "tool": "look"}
    assert statuses(run) == {"a": "done", "c": "done"}
    prompt = model.prompts[1][1].text
    assert "CANARY" not in prompt
    assert '"why": "the tool failed"' in prompt
    assert run.replans == 1


async def test_the_same_plan_again_is_a_loop_and_ends_the_run(scripted: Script) -> None:
    same = {"steps": [step("a", "flaky"), step("b")]}
    app, tools = smith(FakeTool("flaky", [ToolFailed("no")]), model=scripted(same, same))
    run = await app.plan("try it")
    run = await app.run(run.id)
    assert run.status is RunStatus.PARTLY_DONE
    assert [call.tool for call in tools.calls].count("flaky") == 1


async def test_the_same_call_with_the_same_outcome_twice_is_a_loop(scripted: Script) -> None:
    plans = [{"steps": [step(f"a{n}", "flaky"), step(f"b{n}")]} for n in range(3)]
    app, tools = smith(FakeTool("flaky", [ToolFailed("no")]), model=scripted(*plans))
    run = await app.plan("try it")
    run = await app.run(run.id)
    assert run.status is RunStatus.PARTLY_DONE
    assert "the same outcome 2 times" in run.reason
    assert [call.tool for call in tools.calls].count("flaky") == 2


async def test_a_failure_with_the_text_of_a_result_is_another_outcome(scripted: Script) -> None:
    bad, plans = FakeTool("bad", [ToolFailed("x"), ToolFailed("y"), 1]), list[dict[str, Any]]()
    for n in range(3):
        plans.append({"steps": [step(f"a{n}", "flaky"), step(f"b{n}", "bad", after=[f"a{n}"])]})
    app, tools = smith(FakeTool("flaky", [ToolFailed("1"), 1, 2]), bad, model=scripted(*plans))
    await app.run((await app.plan("try it")).id)
    assert [call.tool for call in tools.calls].count("flaky") == 3


@pytest.mark.parametrize("word", ["go_on", "stop"])
async def test_at_the_limit_of_replans_the_person_is_asked(scripted: Script, word: str) -> None:
    plans = [{"steps": [step(f"a{n}", "flaky", inputs={"n": n})]} for n in range(4)]
    given = plans if word == "go_on" else plans[:3]
    failures = [ToolFailed("no")] * 3
    app, tools = smith(FakeTool("flaky", [*failures, {"ok": 1}]), model=scripted(*given))
    run = await app.plan("try it")
    run = await app.run(run.id)
    assert run.status is RunStatus.ASKING
    assert len(tools.calls) == 3
    assert list(run.questions) == ["replans:1"]
    await app.answer(run.id, "replans:1", word, by="ada")
    run = await app.run(run.id)
    assert run.status is (RunStatus.DONE if word == "go_on" else RunStatus.FAILED)
    assert len(tools.calls) == (4 if word == "go_on" else 3)


def test_a_revision_is_covered_unless_a_name_host_call_or_drop_is_new() -> None:
    specs = {
        spec.name: spec
        for spec in (
            FakeTool("look").spec,
            FakeTool("other_read").spec,
            FakeTool("mail", effect=Effect.FINAL).spec,
        )
    }
    base = plan(step("a"), step("m", "mail", inputs={"to": "bob"}))

    def calls(each: Plan) -> PlanCalls:
        return PlanCalls(each, Capabilities(specs))

    def asks(after: Plan) -> bool:
        return bool(compare_with_approved(calls(base), calls(after)).reasons)

    assert not asks(base)
    assert not asks(change_step(base, "a", inputs={"x": 1}))
    assert not asks(change_step(base, "m", title="prose"))
    assert not asks(remove_step(base, "a"))
    assert asks(remove_step(base, "m"))
    assert asks(add_step(base, plan(step("o", "other_read")).steps[0]))
    assert asks(change_step(base, "a", inputs={"url": "https://evil.example/x?y"}))
    assert asks(change_step(base, "a", inputs={"to": "eve@evil.example"}))
    assert asks(change_step(base, "m", inputs={"to": "eve"}))
    assert asks(plan(*[step(f"m{n}", "mail", inputs={"to": "bob"}) for n in range(2)]))
    assert asks(plan(step("g", "ghost")))
    # A call that waits for something that may be skipped may itself never be made.
    never = {"equals": [1, 2]}
    waits = change_step(base, "m", after=["a"])
    assert not asks(waits)
    assert asks(change_step(waits, "a", when=never))
    assert asks(change_step(waits, "a", on_error="skip"))
    assert not asks(change_step(base, "a", when=never))
    assert not compare_with_approved(
        calls(change_step(waits, "a", when=never)), calls(change_step(waits, "a", when=never))
    ).reasons


# Repeats


async def test_a_retry_of_a_cancelled_run_makes_up_for_the_change_that_its_list_lacks() -> None:
    paid: list[str] = []

    @tool(effect="write", name="pay")
    def pay(to: str) -> str:
        if to == "bob" and len(paid) == 1:
            paid.append("nobody")
            raise ToolFailed("the bank is closed")
        paid.append(to)
        return to

    app = Plansmith(tools=[pay], limits=LIMITS, settings=NO_TRIAGE)
    each = {"id": "one", "tool": "pay", "inputs": {"to": "{{item}}"}}
    pays = {"id": "all", "over": ["ann", "bob"], "each": each, "width": 1, "on_error": "collect"}
    wanted = plan(pays, {"id": "sure", "question": "Sure?", "after": ["all"]})
    run = await app.submit(wanted)
    await app.decide(run.id, approve=wanted.hash, by="ada")
    assert (await app.run(run.id)).status is RunStatus.ASKING
    cancelled = await app.cancel(run.id, by="ada")
    again = await app.retry(cancelled.id, by="ada")
    bodies = [event.body async for event in app.events(again.id)]
    [asked] = [body for body in bodies if isinstance(body, ReviewAsked)]
    assert "1 of its 2 parts" in " ".join(asked.reasons)
    await app.decide(again.id, approve=wanted.hash, by="ada")
    await app.run(again.id)
    assert paid == ["ann", "nobody", "ann", "bob"]


async def test_what_is_continued_from_a_step_or_with_a_changed_plan_calls_only_its_cone() -> None:
    app, tools = smith()
    wanted = plan(step("a"), step("b", inputs={"x": "{{a.seen}}"}), step("c"))
    run = await app.submit(wanted)
    with pytest.raises(Refused, match="only a run that is over"):
        await app.retry(run.id)
    first = await app.run(run.id)
    before = len(tools.calls)
    with pytest.raises(Refused, match="every step is done"):
        await app.retry(first.id)
    with pytest.raises(Refused, match="no step 'z'"):
        await app.retry(first.id, from_step="z")
    assert len(tools.calls) == before
    again = await app.run((await app.retry(first.id, from_step="a")).id)
    assert len(tools.calls) == before + 2
    events = [event.body async for event in app.events(again.id)]
    assert [body.step for body in events if isinstance(body, StepReused)] == ["c"]
    changed = change_step(wanted, "b", inputs={"x": "other"}, title="new words")
    again = await app.run((await app.retry(first.id, plan=changed)).id)
    assert again.status is RunStatus.DONE
    assert [call.arguments for call in tools.calls[before + 2 :]] == [{"x": "other"}]


async def test_undo_goes_back_version_by_version_and_each_is_approved_anew() -> None:
    app, tools = smith(FakeTool("mail", effect=Effect.FINAL))
    first = plan(step("m", "mail", inputs={"to": "bob"}))
    run = await app.submit(first)
    second = change_step(first, "m", inputs={"to": "eve"})
    third = change_step(first, "m", inputs={"to": "joe"})
    await app.decide(run.id, approve=first.hash, by="ada")
    await app.edit(run.id, second, by="ada")
    await app.edit(run.id, third, by="ada")
    for wanted in (second, first):
        run = await app.runs.editing.undo(run.id, by="ada")
        assert (plan_of(run).hash, run.status) == (wanted.hash, RunStatus.REVIEWING)
        assert not run.is_approved
        assert (await app.runs.run(run.id)).status is RunStatus.REVIEWING
        assert tools.calls == []
    with pytest.raises(Refused, match="no other plan"):
        await app.runs.editing.undo(run.id)
    run = await app.runs.editing.redo(run.id, by="ada")
    assert plan_of(run).hash == second.hash
    await app.edit(run.id, change_step(first, "m", inputs={"to": "kim"}), by="ada")
    with pytest.raises(Refused, match="no other plan"):
        await app.runs.editing.redo(run.id)
    run = await app.runs.editing.undo(run.id, by="ada")
    assert plan_of(run).hash == second.hash
    await app.decide(run.id, approve=second.hash, by="ada")
    await app.run(run.id)
    assert [call.arguments for call in tools.calls] == [{"to": "eve"}]


async def test_undo_of_a_plan_that_only_reads_is_shown_before_it_runs_after_a_restart(
    tmp_path: Path,
) -> None:
    store = tmp_path / "runs.db"
    first, second = plan(step("a")), plan(step("b"))
    source = FakeTools(FakeTool("look", [{"seen": 1}]))
    app = Plansmith(tools=[source], store=SqliteStore(store))
    run = await app.submit(first)
    await app.edit(run.id, second)
    await app.edit(run.id, plan(step("c")))
    await app.runs.editing.undo(run.id)
    await app.close()
    later = Plansmith(tools=[source], store=SqliteStore(store))
    run = await later.runs.editing.undo(run.id)
    assert plan_of(run).hash == first.hash
    assert (await later.runs.run(run.id)).status is RunStatus.REVIEWING
    assert source.calls == []
    await later.close()


async def test_a_second_approval_is_told_that_the_plan_is_approved_and_how_to_go_on() -> None:
    app, _ = smith(FakeTool("mail", effect=Effect.FINAL))
    wanted = plan(step("m", "mail", inputs={"to": "bob"}))
    run = await app.submit(wanted)
    await app.decide(run.id, approve=wanted.hash, by="ada")
    with pytest.raises(Refused, match="it is approved") as refused:
        await app.decide(run.id, approve=wanted.hash, by="bea")
    assert f"plansmith go {run.id}" in str(refused.value.hint)
