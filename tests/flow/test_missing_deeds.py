"""A request's deeds against its plan and its end: what was asked and not done is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from plansmith import Plan, RunStatus
from plansmith.adapters.stores.sqlite import SqliteStore
from plansmith.adapters.tools.functions import tool
from plansmith.app import Plansmith
from plansmith.errors import Refused
from plansmith.plan import events as e
from plansmith.plan.sentence import in_language
from plansmith.plan.timing import Timing
from plansmith.testing import FakeClock, MemoryStore, ScriptedModel

REQUEST = "Sort people.csv by age and save as sorted.csv"
TOLD = "You asked to save sorted.csv; no step saves it"
SORT = {"id": "sort", "tool": "sort_rows", "inputs": {"path": "people.csv"}}
SAY = {"id": "say", "kind": "reply", "instruction": "Say that sorted.csv was saved: {{sort}}"}
SAVE = {"id": "keep", "tool": "write_file", "inputs": {"path": "sorted.csv", "text": "{{sort}}"}}
written: list[str] = []


@tool(effect="read")
def sort_rows(path: str) -> str:
    """Sort the rows of a table."""
    return f"{path}: sorted"


@tool(effect="write")
def write_file(path: str, text: str) -> str:
    """Write a text into a file."""
    written.append(path)
    return text


def drafted(*steps: dict[str, Any]) -> dict[str, Any]:
    return {"goal": REQUEST, "enough_context": True, "steps": list(steps)}


def decided(decision: str, answer: str = "") -> dict[str, Any]:
    return {"decision": decision, "reason": "so", "query": REQUEST, "answer": answer}


def smith(*answers: Any, store: Any = None) -> Plansmith:
    model = ScriptedModel(*answers)
    return Plansmith(tools=[sort_rows, write_file], model=model, store=store or MemoryStore())


async def test_a_deed_missing_from_the_plan_stops_a_plan_that_only_reads() -> None:
    app = smith(decided("plan"), drafted(SORT, SAY))
    run = await app.plan(REQUEST)
    assert run.status is RunStatus.REVIEWING
    assert [(each.code, each.message) for each in run.problems] == [("PS504", TOLD)]
    asked = [event.body async for event in app.events(run.id)][-1]
    assert isinstance(asked, e.ReviewAsked)
    assert asked.reasons == (TOLD,)
    assert (await app.runs.run(run.id)).status is RunStatus.REVIEWING


async def test_a_deed_that_was_accepted_as_missing_is_still_not_done_at_the_end() -> None:
    app = smith(decided("plan"), drafted(SORT, SAY), "sorted.csv was saved [sort]")
    run = await app.plan(REQUEST)
    assert run.plan is not None
    await app.decide(run.id, approve=run.plan.hash)
    run = await app.run(run.id)
    assert run.status is RunStatus.PARTLY_DONE
    assert run.reason == TOLD
    assert run.report.splitlines()[2] == f"Not done: {TOLD}."
    assert "Everything was done" not in run.report


async def test_a_plan_that_leaves_a_deed_out_is_asked_about_again_when_it_is_repeated() -> None:
    app = smith(decided("plan"), drafted(SORT, SAY), "sorted [sort]", "sorted [sort]")
    run = await app.plan(REQUEST)
    assert run.plan is not None
    await app.decide(run.id, approve=run.plan.hash)
    first = await app.run(run.id)
    again = await app.rerun(first.id)
    assert again.status is RunStatus.REVIEWING
    asked = [event.body async for event in app.events(again.id)][-1]
    assert isinstance(asked, e.ReviewAsked)
    assert asked.reasons == (TOLD,)
    assert again.plan is not None
    await app.decide(again.id, approve=again.plan.hash)
    assert (await app.run(again.id)).status is RunStatus.PARTLY_DONE


async def test_a_deed_that_a_step_does_ends_as_done() -> None:
    app = smith(decided("plan"), drafted(SORT, SAVE))
    run = await app.plan(REQUEST)
    assert run.plan is not None
    assert [each.code for each in run.problems if each.code == "PS504"] == []
    await app.decide(run.id, approve=run.plan.hash)
    run = await app.run(run.id)
    while run.questions:
        await app.answer(run.id, next(iter(run.questions)), "allow")
        run = await app.run(run.id)
    assert run.status is RunStatus.DONE
    assert written[-1] == "sorted.csv"


async def test_a_missing_deed_is_known_after_a_restart_and_when_the_run_is_repeated(
    tmp_path: Path,
) -> None:
    path = tmp_path / "runs.db"
    app = smith(decided("plan"), drafted(SORT), store=SqliteStore(path))
    run = await app.plan(REQUEST)
    await app.close()
    later = Plansmith(tools=[sort_rows, write_file], store=SqliteStore(path))
    assert (await later.runs.run(run.id)).status is RunStatus.REVIEWING
    assert run.plan is not None
    await later.decide(run.id, approve=run.plan.hash)
    assert (await later.run(run.id)).status is RunStatus.PARTLY_DONE
    again = await later.rerun(run.id)
    assert [each.message for each in again.problems if each.code == "PS504"] == [TOLD]
    await later.close()


async def test_a_missing_deed_comes_back_when_a_person_edits_its_step_away() -> None:
    app = smith(decided("plan"), drafted(SORT, SAVE))
    run = await app.plan(REQUEST)
    run = await app.edit(run.id, Plan.model_validate(drafted(SORT)))
    assert TOLD in [each.message for each in run.problems]
    assert (await app.runs.run(run.id)).status is RunStatus.REVIEWING


async def test_a_deed_that_the_person_takes_back_is_not_missing() -> None:
    app = smith(decided("plan"), drafted(SORT, SAVE), drafted(SORT))
    run = await app.plan(REQUEST)
    run = await app.request_changes(run.id, "Don't save it, just tell me")
    assert [each for each in run.problems if each.code == "PS504"] == []
    assert (await app.run(run.id)).status is RunStatus.DONE


@pytest.mark.parametrize("said", ["Done, I saved sorted.csv.", "None of the tools here can sort."])
async def test_words_alone_do_not_answer_a_request_for_a_deed(said: str) -> None:
    reply = {"id": "say", "kind": "reply", "instruction": f"Say exactly: {said}"}
    app = smith(decided("answer", said), drafted(reply), said)
    run = await app.plan(REQUEST)
    assert run.status is RunStatus.REVIEWING
    assert run.plan is not None
    await app.decide(run.id, approve=run.plan.hash)
    assert (await app.run(run.id)).status is not RunStatus.DONE


async def test_a_missing_deed_is_told_in_the_language_of_the_reader() -> None:
    request = "把 people.csv 排序后保存为 sorted.csv"
    app = smith(decided("plan"), drafted(SORT) | {"goal": request, "locale": "zh-CN"})
    run = await app.plan(request)
    [message] = [each.message for each in run.problems if each.code == "PS504"]
    assert in_language(message, "zh-CN") == "你要求保存 sorted.csv，但没有步骤保存它"
    assert message == "You asked to save sorted.csv; no step saves it"


@tool(effect="write")
def refund(order_id: str) -> str:
    """Pay an order back."""
    return order_id


@pytest.mark.parametrize("made_up", ["2026-01-01", "00:00:00", "W-4711"])
async def test_the_clock_and_invented_values_are_shown_as_made_up_in_review(made_up: str) -> None:
    steps = [{"id": "back", "tool": "refund", "inputs": {"order_id": made_up}}]
    model = ScriptedModel(decided("plan"), {"goal": "g", "enough_context": True, "steps": steps})
    run = await Plansmith(tools=[refund], model=model, clock=FakeClock()).plan(
        "Refund my last order"
    )
    assert run.status is RunStatus.REVIEWING
    (found,) = [each for each in run.problems if each.code == "PS505"]
    assert (found.step, found.path) == ("back", ("inputs", "order_id"))


async def test_a_value_that_the_person_wrote_is_not_called_made_up() -> None:
    steps = [{"id": "back", "tool": "refund", "inputs": {"order_id": "W-4711"}}]
    model = ScriptedModel(decided("plan"), {"goal": "g", "enough_context": True, "steps": steps})
    run = await Plansmith(tools=[refund], model=model).plan("Refund order W-4711")
    assert [each.code for each in run.problems if each.code == "PS505"] == []


async def test_a_plan_with_a_missing_deed_cannot_be_kept_as_a_schedule() -> None:
    app = smith(decided("plan"), drafted(SORT))
    run = await app.plan(REQUEST)
    assert run.plan is not None
    with pytest.raises(Refused, match=r"You asked to save sorted\.csv"):
        await app.schedules.create(
            run=run.id, timing=Timing(every_minutes=60), approve=run.plan.hash
        )
    assert await app.schedules.all() == []
