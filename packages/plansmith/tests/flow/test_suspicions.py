"""A run ends as its steps did, whatever words its request has; what a planner suspects is shown."""

from __future__ import annotations

import pytest

from plansmith import RunStatus, read_plan
from plansmith.app import Plansmith
from plansmith.plan import events as e
from plansmith.plan.timing import Timing
from plansmith.testing import FakeClock, MemoryStore, ScriptedModel
from plansmith.tools.functions import tool

DECIDED = {"decision": "plan", "reason": "so", "query": "Refund my last order", "answer": ""}
SORT = {"id": "sort", "tool": "sort_rows", "inputs": {"path": "people.csv"}}


@tool(effect="read")
def sort_rows(path: str) -> str:
    """Sort the rows of a table."""
    return f"{path}: sorted"


@pytest.mark.parametrize(
    "request_",
    [
        "Help me order some thoughts about Q3",
        "Sort people.csv by age and save as sorted.csv",
        "Delete the file old.log if it is empty, then email it to Ann",
        "把结果保存为 a.csv，如果为空就发送邮件给小王",
    ],
)
async def test_a_plan_that_a_program_submits_ends_as_its_steps_did(request_: str) -> None:
    """Also repeated, edited by a person, and kept as a schedule."""
    app = Plansmith(tools=[sort_rows], store=MemoryStore())
    plan = read_plan({"goal": request_, "steps": [SORT]})
    run = await app.submit(plan, request=request_, by=e.Actor(kind="program"))
    run = await app.run(run.id)
    assert (run.status, run.reason) == (RunStatus.DONE, "")
    assert "Not done" not in run.report
    again = await app.run((await app.rerun(run.id)).id)
    assert again.status is RunStatus.DONE
    other = await app.submit(plan, request=request_, by=e.Actor(kind="program"))
    edited = await app.edit(other.id, read_plan({"goal": "other", "steps": [SORT]}))
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
    model = ScriptedModel(DECIDED, {"goal": "g", "enough_context": True, "steps": steps})
    run = await Plansmith(tools=[refund], model=model, clock=FakeClock()).plan(
        "Refund my last order"
    )
    assert run.status is RunStatus.REVIEWING
    (found,) = [each for each in run.problems if each.code == "PS505"]
    assert (found.step, found.path) == ("back", ("inputs", "order_id"))
