"""A person's own values against edits, other people and restarts: nothing else is ever sent."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.flow.plans import approve, change_step, plan
from tests.flow.test_given_values import ALL, BILLS, LOOK, SCHEMA, Bank
from tests.waiting import until

from plansmith import CallPreview, Effect, Plan, RunStatus
from plansmith.app import Plansmith
from plansmith.errors import PlansmithError, Refused, StaleDecision, ToolFailed
from plansmith.plan.data import Json
from plansmith.plan.events import QuestionAsked
from plansmith.plan.run import Run
from plansmith.ports import Call
from plansmith.report.build import load_report
from plansmith.report.markdown import to_markdown
from plansmith.store.sqlite import SqliteStore
from plansmith.testing import FakeClock, FakeTool, FakeTools, MemoryStore
from plansmith_cli.questions import Asked
from plansmith_cli.replay import replay

ASK = {"id": "ask", "question": "Go on?", "after": ["all"]}
ONE = {"id": "one", "tool": "pay", "inputs": {"to": "{{look.at}}"}}
MANY = {"id": "many", "over": ["x"], "each": {"tool": "pay", "inputs": {"to": "{{look.at}}"}}}
PAY = {"id": "pay", "tool": "pay", "inputs": {"to": "x", "sum": 1}, "after": ["ask"]}
OWN: dict[str, Any] = {"to": "bob", "sum": 5}


def refund() -> FakeTool:
    return FakeTool("refund", ["refunded"], effect=Effect.WRITE, input_schema=SCHEMA)


async def change_step_of(bank: Bank, run: Run, step: str, by: str = "bob", **fields: Any) -> Run:
    """Somebody changes a step and approves the plan; another process goes on with it."""
    app = bank.enter()
    run = await app.edit(run.id, change_step(cast("Plan", run.plan), step, **fields), by=by)
    if run.status is RunStatus.REVIEWING:
        await app.decide(run.id, approve=cast("Plan", run.plan).hash, by=by)
    return await bank.enter().run(run.id)


async def undo_text(bank: Bank, run: Run) -> str:
    """The plan that takes back what a run did; empty where that is refused."""
    try:
        made = await bank.enter().runs.undo_effects(run.id, by="ann")
    except Refused:
        return ""
    return cast("Plan", made.plan).model_dump_json()


async def test_what_was_never_sent_is_never_taken_back() -> None:
    bank = Bank(refund())
    undo_with = {"tool": "refund", "inputs": {"to": "{{item.to}}", "sum": "{{item.sum}}"}}
    run = await bank.begin(
        LOOK, ALL | {"each": {**cast("Any", ALL["each"]), "undo_with": undo_with}}
    )
    await bank.enter().answer(run.id, "data:all/0?1", "refuse", by="bob")
    run = await bank.say(run, "data:all/1?1", {"allow": OWN})
    assert bank.paid == [OWN]
    with pytest.raises(Refused, match="take it back by hand"):
        await bank.enter().runs.undo_effects(run.id, by="ann")


async def test_an_undo_out_of_other_steps_takes_back_no_own_values() -> None:
    bank = Bank(refund())
    run = await bank.begin(
        LOOK, ONE | {"undo_with": {"tool": "refund", "inputs": {"to": "{{look.at}}"}}}
    )
    run = await bank.say(run, "data:one?1", {"allow": {"to": "bob"}})
    assert bank.paid == [{"to": "bob"}]
    with pytest.raises(Refused, match="take it back by hand"):
        await bank.enter().runs.undo_effects(run.id, by="ann")


async def test_a_call_made_with_own_values_is_not_made_again_after_an_edit() -> None:
    bank = Bank()
    run = await bank.begin(LOOK, ALL, ASK)
    await bank.enter().answer(run.id, "data:all/0?1", "allow", by="bob")
    run = await bank.say(run, "data:all/1?1", {"allow": OWN})
    run = await change_step_of(bank, run, "look", inputs={"at": "home"})
    assert [*run.questions] == ["ask"]
    assert bank.paid == [BILLS[0], OWN]


async def test_an_answer_to_values_that_were_replaced_meanwhile_is_refused() -> None:
    bank = Bank()
    run = await bank.begin(LOOK, MANY)
    [seen] = run.questions
    run = await change_step_of(bank, run, "look", inputs={"at": "mallory"})
    assert [*run.questions] != [seen]
    with pytest.raises(Refused, match="no open question"):
        await bank.say(run, seen, "allow")
    assert bank.paid == []


async def test_the_files_that_were_seen_count_for_the_first_round() -> None:
    bank, seen = Bank(), list[str]()
    inner = bank.tools.call

    async def call(tool: str, arguments: Mapping[str, Json], call: Call) -> Json:
        seen.extend([call.seen] if tool == "pay" else [])
        return await inner(tool, arguments, call)

    bank.tools.call = call  # type: ignore[method-assign]
    until = {"equals": [{"$from": "one"}, "never"]}
    run = await bank.begin(LOOK, ONE | {"repeat": {"until": until, "at_most": 2}})
    await bank.say(run, "data:one?1", {"allow": CallPreview().hash})
    assert seen == [CallPreview().hash, ""]


async def test_a_consent_question_is_the_same_when_its_values_are_read_from_a_database(
    tmp_path: Path,
) -> None:
    bank = Bank()
    bank.store = SqliteStore(tmp_path / "runs.db")  # type: ignore[assignment]
    run = await bank.begin(LOOK, ALL)
    played = await replay(run.id, bank.enter())
    await bank.store.close()
    assert played.identical


async def test_own_values_approve_no_plan_that_nobody_approved() -> None:
    bank = Bank(FakeTool("wipe", ["wiped"], effect=Effect.WRITE))
    run = await bank.begin(LOOK, ONE)
    more = [step.to_json() for step in cast("Plan", run.plan).steps]
    wiping = plan(*cast("Any", more), {"id": "w", "tool": "wipe"})
    assert (await bank.enter().edit(run.id, wiping, by="mallory")).phase is RunStatus.REVIEWING
    assert "wipe" not in await change(bank, run)  # bob saw the consent alone
    assert (await bank.enter().get(run.id)).phase is RunStatus.REVIEWING


async def test_an_answer_to_a_question_that_was_replaced_is_refused() -> None:
    bank = Bank()
    ask = {"id": "ask", "question": "Pay the small bill?"}
    run = await bank.begin(ask, PAY)
    seen = run.question_hash("ask")
    run = await change_step_of(bank, run, "ask", by="mallory", question="Pay the large bill?")
    assert "large" in run.questions["ask"].text
    with pytest.raises(StaleDecision, match="not the one you saw"):
        await bank.enter().answer(run.id, "ask", "yes", by="bob", of=seen)
    await bank.enter().answer(run.id, "ask", "yes", by="bob", of=run.question_hash("ask"))


async def test_values_as_shown_are_not_told_as_a_persons_own() -> None:
    bank = Bank()
    run = await bank.begin(LOOK, ALL)
    await bank.enter().answer(run.id, "data:all/0?1", "refuse", by="bob")
    run = await bank.say(run, "data:all/1?1", {"allow": BILLS[1]})
    assert bank.paid == [BILLS[1]]
    assert "values of their own" not in to_markdown(await load_report(bank.store, run.id))


# Answers against people who change the plan, other processes and unclear words


async def is_asking(app: Plansmith, run: str) -> bool:
    return bool((await app.get(run)).questions)


@pytest.mark.parametrize(
    "options", [["Pay", "Leave it"], ["go ahead", "skip"], ["Yes", "Later"], ["付款", "算了"]]
)
async def test_the_other_option_is_no_permission(options: list[str]) -> None:
    bank = Bank()
    run = await bank.begin({"id": "ask", "question": "Pay 10,000?", "options": options}, PAY)
    await bank.say(run, "ask", options[1])
    assert bank.paid == []


async def test_an_answer_of_a_callback_counts_for_the_question_it_got() -> None:
    bank, messages = Bank(), list[str]()
    ask = {"id": "ask", "question": "Pay the small bill?"}

    async def answer(asked: QuestionAsked) -> Json:
        messages.append(str(asked.text))
        if "large" in asked.text:
            return None
        [name] = await bank.store.runs()  # while bob thinks, somebody else changes the plan
        other = bank.enter()
        run = await other.get(name)
        assert run.plan is not None
        changed = change_step(run.plan, "ask", question="Pay the large bill?")
        changed = change_step(changed, "pay", inputs={"to": "mallory", "sum": 9999})
        run = await other.edit(name, changed, by="mallory")
        assert run.plan is not None
        await other.decide(name, approve=run.plan.hash, by="mallory")
        await other.run(name)
        return "yes"

    with suppress(PlansmithError):
        await bank.enter().do(plan(ask, PAY), approve=lambda _: True, answer=answer, by="bob")
    assert bank.paid == [], messages


async def test_what_was_said_of_the_first_call_is_not_taken_for_the_second() -> None:
    def dies(_: Any) -> Any:
        raise OSError("the line went dead")

    bank = Bank(pays=dies)
    run = await bank.begin(LOOK, ONE)
    run = await bank.say(run, "data:one?1", "allow")
    seen = run.question_hash("unknown:one")  # on ann's page: about the first call
    run = await bank.say(run, "unknown:one", "retry")  # bob has it made again: it dies again
    assert len(bank.paid) == 2
    with pytest.raises(Refused):  # she looked, and the first had not happened; the second may have
        await bank.enter().answer(run.id, "unknown:one", "not_done", by="ann", of=seen)


async def test_a_yes_counts_for_the_call_that_waited_when_it_was_asked() -> None:
    bank = Bank()
    run = await bank.begin({"id": "ask", "question": "Go on?"}, PAY)
    seen = run.question_hash("ask")  # on bob's page, with pay(x, 1) behind it
    own = {"to": "mallory", "sum": 9999}
    await change_step_of(bank, run, "pay", by="mallory", inputs=own)
    with pytest.raises(Refused):
        await bank.enter().answer(run.id, "ask", "yes", by="bob", of=seen)
    assert bank.paid == []


async def test_a_call_with_consent_is_not_tried_for_ever() -> None:
    def fails(_: Any) -> Any:
        raise ToolFailed("the bank says no")

    clock, store = FakeClock(), MemoryStore()
    pay = FakeTool("pay", [fails], effect=Effect.WRITE, input_schema=SCHEMA)
    tools = FakeTools(pay, FakeTool("look", [{"at": "x"}]))

    def enter() -> Plansmith:
        return Plansmith(tools=[tools], store=store, clock=clock)

    app = enter()
    run = await app.submit(plan(LOOK, ONE | {"retry": {"at_most": 2, "every": 60}}), by="ann")
    await approve(app, run, by="ann")
    run = await app.runs.run(run.id, parks=True)
    await app.answer(run.id, next(iter(run.questions)), "allow", by="ann")
    run = await app.runs.run(run.id, parks=True)
    for _ in range(6):
        if not run.status.over:
            await clock.advance(61)
            run = await enter().runs.run(run.id, parks=True)  # as a server does at each wake-up
    assert [each.tool for each in tools.calls].count("pay") == 3


async def test_after_an_edit_too_nothing_is_taken_back_that_was_never_sent() -> None:
    bank = Bank(refund())
    undo = {"tool": "refund", "inputs": {"to": "{{item.to}}"}}
    each = {"tool": "pay", "inputs": {"to": "{{item.to}}"}, "undo_with": undo}
    run = await bank.begin(LOOK, {"id": "all", "over": "{{look.bills}}", "each": each}, ASK)
    await bank.enter().answer(run.id, "data:all/0?1", "allow", by="bob")
    run = await bank.say(run, "data:all/1?1", {"allow": {"to": "bob"}})
    run = await change_step_of(bank, run, "look", inputs={"at": "home"})
    run = await bank.say(run, "ask", "yes")
    assert bank.paid == [{"to": "alice"}, {"to": "bob"}]  # mallory got nothing
    assert "mallory" not in await undo_text(bank, run)


async def test_after_a_new_title_too_nothing_is_taken_back_that_was_never_sent() -> None:
    bank = Bank(refund())
    undo = {"tool": "refund", "inputs": {"to": "{{look.at}}"}}
    each = {"tool": "pay", "inputs": {"to": "{{look.at}}"}, "undo_with": undo}
    run = await bank.begin(LOOK, MANY | {"each": each}, ASK | {"after": ["many"]})
    run = await bank.say(run, "data:many/0?1", {"allow": {"to": "bob"}})
    run = await change_step_of(bank, run, "many", title="Pay")
    run = await bank.say(run, "ask", "yes")
    assert bank.paid == [{"to": "bob"}]  # "bills" got nothing
    assert '"to":"bills"' not in await undo_text(bank, run)


async def change(bank: Bank, run: Run) -> list[str]:
    """Bob gives one value of his own; another process goes on. Returns what was called."""
    [asked] = run.questions.values()
    app = bank.enter()
    session = cast("Any", SimpleNamespace(smith=app, by="bob"))
    with suppress(Refused):
        await Asked(session, await app.get(run.id), (asked,), []).change({"to": "bob"})
    await bank.enter().run(run.id)
    return [each.tool for each in bank.tools.calls]


class TemplateBank(Bank):
    template: Plan

    def enter(self) -> Plansmith:
        return Plansmith(tools=[self.tools], store=self.store, templates={"t": self.template})


async def test_a_template_that_changed_is_not_approved_by_a_value() -> None:
    bank = TemplateBank(FakeTool("wipe", ["wiped"], effect=Effect.WRITE))
    bank.template = plan({"id": "x", "tool": "look", "inputs": {"at": "q"}})
    run = await bank.begin(LOOK, ONE, {"id": "t", "template": "t", "after": ["one"]})
    bank.template = plan({"id": "x", "tool": "wipe", "inputs": {}})
    assert "wipe" not in await change(bank, run)  # nobody approved it, nobody saw it


async def test_a_tool_that_changed_is_not_approved_by_a_value() -> None:
    bank = Bank(FakeTool("send", ["sent"], effect=Effect.WRITE))
    run = await bank.begin(LOOK, ONE, {"id": "s", "tool": "send", "after": ["one"]})
    bank.tools = FakeTools(
        FakeTool("pay", ["paid"], effect=Effect.WRITE, input_schema=SCHEMA),
        FakeTool("look", [{"at": "bills"}]),
        FakeTool("send", ["sent"], effect=Effect.FINAL),  # it was a write that can be undone
    )
    assert "send" not in await change(bank, run)  # with a plain "allow", the run waits for review


@pytest.mark.parametrize("value", ["allow", {"allow": {"to": "bob"}}, "refuse"])
async def test_an_answer_while_another_step_runs_is_replayed(value: Any) -> None:
    bank, gate = Bank(FakeTool("slow", ["slept"])), asyncio.Event()
    inner = bank.tools.call

    async def call(tool: str, arguments: Mapping[str, Json], call: Call) -> Json:
        if tool == "slow":
            await gate.wait()
        return await inner(tool, arguments, call)

    bank.tools.call = call  # type: ignore[method-assign]
    app = bank.enter()
    run = await app.submit(plan(LOOK, MANY, {"id": "slow", "tool": "slow"}), by="ann")
    await approve(app, run, by="bob")
    task = asyncio.create_task(app.run(run.id))
    await until(lambda: is_asking(app, run.id))
    [asked] = (await app.get(run.id)).questions
    await app.answer(run.id, asked, value, by="bob")

    async def is_over() -> bool:
        return (await app.get(run.id)).steps["many"].status in ("done", "failed")

    await until(is_over)
    gate.set()
    await task
    played = await replay(run.id, bank.enter())
    assert played.identical, played.differences
