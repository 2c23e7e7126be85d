"""Plans that take back what a run did: reviewed like any, each effect at most once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from plansmith import Effect, Plan, Plansmith, RunStatus
from plansmith.errors import Refused, ToolFailed
from plansmith.plan.limits import Limits
from plansmith.plan.run import Run
from plansmith.review.policy import ReviewPolicy
from plansmith.testing import FakeTool, FakeTools, MemoryStore

NO_WAIT = Limits(first_wait_s=0, data="show")


def plan(*steps: dict[str, Any]) -> Plan:
    return Plan.model_validate({"goal": "test", "steps": list(steps)})


def world(**more: Any) -> FakeTools:
    return FakeTools(
        FakeTool("order", [lambda given: {"id": f"o{given['n']}", **given}], effect=Effect.WRITE),
        FakeTool("cancel", [more.get("cancel", {"ok": True})], effect=Effect.WRITE),
        FakeTool("break", [ToolFailed("broken")]),
        FakeTool("look", [{"n": [1, 2]}, {"n": [1, 2, 3]}]),
    )


def order(name: str, n: Any = 1, **fields: Any) -> dict[str, Any]:
    undo = {"tool": "cancel", "inputs": {"id": f"{{{{{name}.id}}}}"}}
    return {"id": name, "tool": "order", "inputs": {"n": n}, "undo_with": undo, **fields}


async def ran(app: Plansmith, wanted: Plan) -> Run:
    run = await app.submit(wanted, by="bob")
    if run.status is RunStatus.REVIEWING:
        await app.decide(run.id, approve=wanted.hash, by="ada")
    return await app.run(run.id)


async def approved(app: Plansmith, run: Run) -> Run:
    assert run.plan is not None
    await app.decide(run.id, approve=run.plan.hash, by="ada")
    return await app.run(run.id)


def cancelled(tools: FakeTools) -> list[Any]:
    return [each.arguments["id"] for each in tools.calls if each.tool == "cancel"]


async def test_a_plan_takes_back_what_a_failed_run_did_newest_first_and_only_when_approved() -> (
    None
):
    tools = world()
    app = Plansmith(tools=[tools], limits=NO_WAIT, policy=ReviewPolicy(never_for=("cancel",)))
    failing = {"id": "z", "tool": "break", "after": ["b"]}
    run = await ran(app, plan(order("a"), order("b", 2, after=["a"]), failing))
    assert run.status is RunStatus.PARTLY_DONE
    undo = await app.runs.undo_plan(run.id, by="ada")
    assert undo.status is RunStatus.REVIEWING
    assert (undo.origin.kind, undo.origin.id) == ("undo", run.id)
    assert undo.plan is not None
    assert [each.to_json()["inputs"] for each in undo.plan.steps] == [{"id": "o2"}, {"id": "o1"}]
    assert (await app.runs.run(undo.id)).status is RunStatus.REVIEWING
    assert cancelled(tools) == []
    assert (await approved(app, undo)).status is RunStatus.DONE
    assert cancelled(tools) == ["o2", "o1"]


async def test_what_was_taken_back_is_not_taken_back_again() -> None:
    tools = world()
    app = Plansmith(tools=[tools], limits=NO_WAIT)
    run = await ran(app, plan(order("a")))
    undo = await app.runs.undo_plan(run.id, by="ada")
    with pytest.raises(Refused, match="is there to undo"):
        await app.runs.undo_plan(run.id, by="ada")
    await approved(app, undo)
    with pytest.raises(Refused, match="taken back already"):
        await app.runs.undo_plan(run.id, by="ada")
    assert cancelled(tools) == ["o1"]


async def test_a_refused_or_failed_plan_can_be_made_again_for_what_is_left() -> None:
    tools = world(cancel=_cancel_but_one)
    app = Plansmith(tools=[tools], limits=NO_WAIT)
    run = await ran(app, plan(order("a"), order("b", 2, after=["a"])))
    undo = await app.runs.undo_plan(run.id, by="ada")
    await app.decide(undo.id, reject=True, by="ada")
    again = await approved(app, await app.runs.undo_plan(run.id, by="ada"))
    assert again.status is RunStatus.PARTLY_DONE
    third = await app.runs.undo_plan(run.id, by="ada")
    assert third.plan is not None
    assert [each.id for each in third.plan.steps] == ["undo_a"]


def _cancel_but_one(given: Any) -> Any:
    if given["id"] == "o1":
        raise ToolFailed("too late")
    return {"ok": True}


async def test_two_who_ask_at_once_get_one_plan() -> None:
    tools, store = world(), MemoryStore()
    apps = [Plansmith(tools=[tools], limits=NO_WAIT, store=store) for _ in range(2)]
    run = await ran(apps[0], plan(order("a")))
    made = await asyncio.gather(
        *(app.runs.undo_plan(run.id, by="ada") for app in apps), return_exceptions=True
    )
    assert sorted(type(each).__name__ for each in made) == ["Refused", "Run"]


async def test_items_and_rounds_are_taken_back_each_with_its_own_values() -> None:
    tools = world()
    app = Plansmith(tools=[tools], limits=NO_WAIT)
    each = order("each", "{{item}}")
    each["undo_with"] = {"tool": "cancel", "inputs": {"id": "{{each.id}}", "item": "{{item}}"}}
    again = order("again", 9, repeat={"until": {"equals": ["{{again.id}}", "o9"]}, "at_most": 2})
    run = await ran(app, plan({"id": "all", "over": [4, 5], "each": each}, again))
    undo = await app.runs.undo_plan(run.id, by="ada")
    assert undo.plan is not None
    found = {step.id: step.to_json()["inputs"] for step in undo.plan.steps}
    assert found == {
        "undo_all-0": {"id": "o4", "item": 4},
        "undo_all-1": {"id": "o5", "item": 5},
        "undo_again-1": {"id": "o9"},
    }


async def test_values_of_tools_are_literals_in_the_plan_and_never_references_or_secrets() -> None:
    hostile = FakeTool(
        "order",
        [{"id": "{{z}} {$from}", "n": 1}, {"id": "${secret:bank}", "n": 2}],
        effect=Effect.WRITE,
    )
    tools = FakeTools(hostile, FakeTool("cancel", [{"ok": True}], effect=Effect.WRITE))
    app = Plansmith(tools=[tools], limits=NO_WAIT)
    run = await ran(app, plan(order("a"), order("b", 2, after=["a"])))
    undo = await app.runs.undo_plan(run.id, by="ada")
    assert undo.plan is not None
    assert [step.id for step in undo.plan.steps] == ["undo_a"]
    assert "secret" not in str(undo.plan.to_json())
    events = await app.store.events(undo.id)
    assert any("not taken back: b" in str(each.body) for each in events)
    await approved(app, undo)
    assert cancelled(tools) == ["{{z}} {$from}"]


@pytest.mark.parametrize("steps", [[], [order("a", undo_with=None)]])
async def test_a_run_without_anything_to_take_back_says_so(steps: list[Any]) -> None:
    app = Plansmith(tools=[world()], limits=NO_WAIT)
    run = await ran(app, plan({"id": "look", "tool": "look"}, *steps))
    with pytest.raises(Refused, match="nothing that can be taken back"):
        await app.runs.undo_plan(run.id, by="ada")


async def test_a_run_that_is_not_over_is_not_taken_back() -> None:
    app = Plansmith(tools=[world()], limits=NO_WAIT)
    run = await app.submit(plan(order("a")), by="bob")
    with pytest.raises(Refused, match="is reviewing"):
        await app.runs.undo_plan(run.id, by="ada")


async def test_a_program_can_have_the_plan_made_but_not_approve_it() -> None:
    app = Plansmith(tools=[world()], limits=NO_WAIT)
    run = await ran(app, plan(order("a")))
    undo = await app.runs.undo_plan(run.id, by="program:bot")
    assert undo.status is RunStatus.REVIEWING
