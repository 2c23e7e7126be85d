"""What a request asks for and a drafted plan leaves out: a warning, on which nothing depends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from plansmith import RunStatus, read_plan
from plansmith.app import Plansmith
from plansmith.plan import events as e
from plansmith.plan.run import Run
from plansmith.plan.timing import Timing
from plansmith.testing import FakeClock, MemoryStore, ScriptedModel
from plansmith.tools.functions import tool

REQUEST = "Sort people.csv by age and save as sorted.csv"
TOLD = "You asked to save sorted.csv; no step saves it"
SORT = {"id": "sort", "tool": "sort_rows", "inputs": {"path": "people.csv"}}
SAY = {"id": "say", "kind": "reply", "instruction": "Say that sorted.csv was saved: {{sort}}"}


@tool(effect="read")
def sort_rows(path: str) -> str:
    """Sort the rows of a table."""
    return f"{path}: sorted"


@tool(effect="write")
def write_file(path: str, text: str) -> str:
    """Write a text into a file."""
    return text


def drafted(*steps: dict[str, Any]) -> dict[str, Any]:
    return {"goal": REQUEST, "enough_context": True, "steps": list(steps)}


def decided(decision: str, answer: str = "") -> dict[str, Any]:
    return {"decision": decision, "reason": "so", "query": REQUEST, "answer": answer}


def smith(*answers: Any, store: Any = None) -> Plansmith:
    model = ScriptedModel(*answers)
    return Plansmith(tools=[sort_rows, write_file], model=model, store=store or MemoryStore())


SUSPECTED = ("PS504", "PS506")


def suspected(run: Run) -> list[str]:
    return [each.message for each in run.problems if each.code in SUSPECTED]


async def test_the_plan_of_a_model_carries_a_warning_and_runs_as_its_steps_say() -> None:
    app = smith(decided("plan"), drafted(SORT, SAY), "people.csv is sorted [sort]")
    run = await app.plan(REQUEST)
    assert suspected(run) == [TOLD]
    assert run.status is RunStatus.PLANNING  # it only reads: nobody has to approve it
    run = await app.run(run.id)
    assert (run.status, run.reason) == (RunStatus.DONE, "")
    assert "Not done" not in run.report


@pytest.mark.parametrize("locale", ["en", "zh"])
async def test_the_review_of_a_drafted_plan_shows_what_it_seems_to_leave_out(
    locale: str, tmp_path: Path
) -> None:
    other = {"id": "keep", "tool": "write_file", "inputs": {"path": "notes.csv", "text": "x"}}
    app = smith(decided("plan"), drafted(SORT, other))
    run = await app.plan(REQUEST)
    assert run.status is RunStatus.REVIEWING
    asked = [event.body async for event in app.events(run.id)][-1]
    assert isinstance(asked, e.ReviewAsked)
    assert TOLD not in asked.reasons  # words of the request are no reason to stop
    [shown] = [each.line(locale) for each in run.problems if each.code == "PS504"]
    assert ("no step saves it" if locale == "en" else "没有步骤保存它") in shown
    assert run.plan is not None
    await app.decide(run.id, approve=run.plan.hash)
    run = await app.run(run.id)
    assert run.status is RunStatus.DONE


@pytest.mark.parametrize(
    "request_",
    [
        "Help me order some thoughts about Q3",
        REQUEST,
        "Delete the file old.log if it is empty, then email it to Ann",
        "把结果保存为 a.csv，如果为空就发送邮件给小王",
    ],
)
async def test_a_plan_that_a_program_submits_ends_as_its_steps_did(request_: str) -> None:
    """Also repeated, edited by a person, and kept as a schedule."""
    app = smith()
    plan = read_plan({"goal": request_, "steps": [SORT]})
    run = await app.submit(plan, request=request_, by=e.Actor(kind="program"))
    assert suspected(run) == []
    run = await app.run(run.id)
    assert (run.status, run.reason) == (RunStatus.DONE, "")
    assert "Not done" not in run.report
    again = await app.run((await app.rerun(run.id)).id)
    assert (again.status, suspected(again)) == (RunStatus.DONE, [])
    other = await app.submit(plan, request=request_, by=e.Actor(kind="program"))
    edited = await app.edit(other.id, read_plan({"goal": "other", "steps": [SORT]}))
    assert suspected(edited) == []
    assert edited.plan is not None
    timing = Timing(every_minutes=60)
    await app.schedules.create(run=other.id, timing=timing, approve=edited.plan.hash, by="ada")
    assert len(await app.schedules.all()) == 1


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
