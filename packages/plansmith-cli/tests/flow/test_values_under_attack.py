"""A person's own values against edits, other people and restarts: nothing else is ever sent."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.edited import change_step
from tests.flow.test_given_values import ALL, BILLS, LOOK, SCHEMA, Bank, plan

from plansmith import Effect, Plan, RunStatus
from plansmith.errors import Refused, StaleDecision
from plansmith.plan.data import Json
from plansmith.plan.run import Run
from plansmith.ports import Call
from plansmith.replay.player import replay
from plansmith.report.build import load_report
from plansmith.report.markdown import to_markdown
from plansmith.store.sqlite import SqliteStore
from plansmith.testing import FakeTool
from plansmith_cli import questions
from plansmith_cli.questions import Asked

ASK = {"id": "ask", "question": "Go on?", "after": ["all"]}
ONE = {"id": "one", "tool": "pay", "inputs": {"to": "{{look.at}}"}}
MANY = {"id": "many", "over": ["x"], "each": {"tool": "pay", "inputs": {"to": "{{look.at}}"}}}
OWN: dict[str, Any] = {"to": "bob", "sum": 5}


def refund() -> FakeTool:
    return FakeTool("refund", ["refunded"], effect=Effect.WRITE, input_schema=SCHEMA)


async def edited(bank: Bank, run: Run, at: str) -> Run:
    app = bank.enter()
    run = await app.edit(
        run.id, change_step(cast("Plan", run.plan), "look", inputs={"at": at}), by="bob"
    )
    if run.status is RunStatus.REVIEWING:
        await app.decide(run.id, approve=cast("Plan", run.plan).hash, by="bob")
    return await bank.enter().run(run.id)


async def own_then_edited(bank: Bank) -> Run:
    run = await bank.begin(LOOK, ALL, ASK)
    await bank.enter().answer(run.id, "data:all/0?1", "allow", by="bob")
    run = await bank.say(run, "data:all/1?1", {"allow": OWN})
    assert [*run.questions] == ["ask"]
    return await edited(bank, run, "home")


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
        await bank.enter().runs.undo_plan(run.id, by="ann")


async def test_an_undo_out_of_other_steps_takes_back_no_own_values() -> None:
    bank = Bank(refund())
    run = await bank.begin(
        LOOK, ONE | {"undo_with": {"tool": "refund", "inputs": {"to": "{{look.at}}"}}}
    )
    run = await bank.say(run, "data:one?1", {"allow": {"to": "bob"}})
    assert bank.paid == [{"to": "bob"}]
    with pytest.raises(Refused, match="take it back by hand"):
        await bank.enter().runs.undo_plan(run.id, by="ann")


async def test_a_call_made_with_own_values_is_not_made_again_after_an_edit() -> None:
    bank = Bank()
    run = await own_then_edited(bank)
    assert [*run.questions] == ["ask"]
    assert bank.paid == [BILLS[0], OWN]


async def test_an_answer_to_values_that_were_replaced_meanwhile_is_refused() -> None:
    bank = Bank()
    run = await bank.begin(LOOK, MANY)
    [seen] = run.questions
    run = await edited(bank, run, "mallory")
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
    await bank.say(run, "data:one?1", {"allow": "f" * 64})
    assert seen == ["f" * 64, ""]


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
    [asked] = run.questions.values()
    app = bank.enter()
    more = [step.to_json() for step in cast("Plan", run.plan).steps]
    run = await app.edit(
        run.id, plan(*cast("Any", more), {"id": "w", "tool": "wipe"}), by="mallory"
    )
    assert run.phase is RunStatus.REVIEWING
    session = SimpleNamespace(smith=app, by="bob")
    with suppress(Refused):  # bob saw the consent alone
        await Asked(cast("Any", session), run, (asked,), [], []).change({"to": "bob"})
    run = await bank.enter().runs.run(run.id)
    assert run.phase is RunStatus.REVIEWING
    assert [each.tool for each in bank.tools.calls if each.tool == "wipe"] == []


async def test_an_answer_to_a_question_that_was_replaced_is_refused() -> None:
    bank = Bank()
    ask = {"id": "ask", "question": "Pay the small bill?"}
    pay = {"id": "pay", "tool": "pay", "inputs": {"to": "x", "sum": 1}, "after": ["ask"]}
    run = await bank.begin(ask, pay)
    seen, app = run.question_hash("ask"), bank.enter()
    changed = change_step(cast("Plan", run.plan), "ask", question="Pay the large bill?")
    run = await app.edit(run.id, changed, by="mallory")
    if run.phase is RunStatus.REVIEWING:
        await app.decide(run.id, approve=cast("Plan", run.plan).hash, by="mallory")
    run = await bank.enter().run(run.id)
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


async def test_true_instead_of_one_is_a_change_in_the_editor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def by_hand(_: object, path: str) -> None:
        await asyncio.to_thread(Path(path).write_text, json.dumps({"final": True}))

    monkeypatch.setattr(questions, "open_in_editor", by_hand)
    session = cast("Any", SimpleNamespace(has_person=True))
    assert json.dumps(await questions._edited(session, {"final": 1})) == '{"final": true}'
