"""Plans that take back what a run did: reviewed like any, each effect at most once."""

from __future__ import annotations

from typing import Any

import pytest
from tests.flow.smiths import approved, plan, plan_of

from plansmith import Effect, Plan, Plansmith, RunStatus
from plansmith.errors import Refused, ToolFailed
from plansmith.plan.events import ReviewAsked
from plansmith.plan.limits import Limits
from plansmith.plan.next_move import AwaitReview, next_move
from plansmith.plan.run import Run
from plansmith.review.settings import ReviewPolicy
from plansmith.testing import FakeTool, FakeTools, MemoryStore, ScriptedModel
from plansmith_planner.settings import PlannerSettings

NO_WAIT = Limits(first_wait_s=0, data="show")


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


def shop() -> tuple[Plansmith, FakeTools]:
    tools = world()
    return Plansmith(tools=[tools], limits=NO_WAIT), tools


async def ran(app: Plansmith, wanted: Plan) -> Run:
    return await approved(app, await app.submit(wanted, by="bob"))


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
    undo = await app.runs.undo_effects(run.id, by="ada")
    assert undo.status is RunStatus.REVIEWING
    assert (undo.origin.kind, undo.origin.id) == ("undo", run.id)
    assert [each.to_json()["inputs"] for each in plan_of(undo).steps] == [
        {"id": "o2"},
        {"id": "o1"},
    ]
    assert (await app.runs.run(undo.id)).status is RunStatus.REVIEWING
    assert cancelled(tools) == []
    assert (await approved(app, undo)).status is RunStatus.DONE
    assert cancelled(tools) == ["o2", "o1"]


async def test_what_was_taken_back_is_not_taken_back_again() -> None:
    app, tools = shop()
    run = await ran(app, plan(order("a")))
    undo = await app.runs.undo_effects(run.id, by="ada")
    [asked] = [each async for each in app.events(undo.id) if each.body.type == "review_asked"]
    assert isinstance(asked.body, ReviewAsked)
    assert any("`cancel`" in str(why) for why in asked.body.reasons)  # which changes something
    with pytest.raises(Refused, match="is there to undo"):
        await app.runs.undo_effects(run.id, by="ada")
    await approved(app, undo)
    with pytest.raises(Refused, match="taken back already"):
        await app.runs.undo_effects(run.id, by="ada")
    assert cancelled(tools) == ["o1"]


async def test_a_refused_or_failed_plan_can_be_made_again_for_what_is_left() -> None:
    app = Plansmith(tools=[world(cancel=_cancel_but_one)], limits=NO_WAIT)
    run = await ran(app, plan(order("a"), order("b", 2, after=["a"])))
    undo = await app.runs.undo_effects(run.id, by="ada")
    await app.decide(undo.id, reject=True, by="ada")
    again = await approved(app, await app.runs.undo_effects(run.id, by="ada"))
    assert again.status is RunStatus.PARTLY_DONE
    third = await app.runs.undo_effects(run.id, by="ada")
    assert [each.id for each in plan_of(third).steps] == ["undo_a"]


def _cancel_but_one(given: Any) -> Any:
    if given["id"] == "o1":
        raise ToolFailed("too late")
    return {"ok": True}


async def test_items_and_rounds_are_taken_back_each_with_its_own_values() -> None:
    app, _tools = shop()
    each = order("each", "{{item}}")
    each["undo_with"] = {"tool": "cancel", "inputs": {"id": "{{each.id}}", "item": "{{item}}"}}
    again = order("again", 9, repeat={"until": {"equals": ["{{again.id}}", "o9"]}, "at_most": 2})
    run = await ran(app, plan({"id": "all", "over": [4, 5], "each": each}, again))
    undo = await app.runs.undo_effects(run.id, by="ada")
    found = {step.id: step.to_json()["inputs"] for step in plan_of(undo).steps}
    assert found == {
        "undo_all-0": {"id": "o4", "item": 4},
        "undo_all-1": {"id": "o5", "item": 5},
        "undo_again-1": {"id": "o9"},
    }


@pytest.mark.parametrize("items", [[{"n": 1}, {}], []])
async def test_what_a_failed_map_did_is_told_and_one_that_did_nothing_is_not(items: Any) -> None:
    app, _tools = shop()
    each = order("each", "{{item.n}}", undo_with=None)
    run = await ran(app, plan(order("a"), {"id": "m", "over": items, "each": each}))
    undo = await app.runs.undo_effects(run.id, by="ada")
    told = [str(event.body) for event in await app.store.events(undo.id)]
    assert any("not taken back: m" in body for body in told) is bool(items)


async def test_values_of_tools_are_literals_in_the_plan_and_never_references_or_secrets() -> None:
    hostile = FakeTool(
        "order",
        [{"id": "{{z}} {$from}"}, {"id": "${secret:bank}"}, {"id": 3, "$from": "undo_a"}],
        effect=Effect.WRITE,
    )
    tools = FakeTools(hostile, FakeTool("cancel", [{"ok": True}], effect=Effect.WRITE))
    app = Plansmith(tools=[tools], limits=NO_WAIT)
    whole = {"tool": "cancel", "inputs": {"$from": "c"}}
    last = order("c", 3, after=["b"], undo_with=whole)
    run = await ran(app, plan(order("a"), order("b", 2, after=["a"]), last))
    undo = await app.runs.undo_effects(run.id, by="ada")
    assert [step.id for step in plan_of(undo).steps] == ["undo_c", "undo_a"]
    assert "secret" not in str(plan_of(undo).to_json())
    events = await app.store.events(undo.id)
    assert any("not taken back: b" in str(each.body) for each in events)
    await approved(app, undo)
    assert cancelled(tools) == [3, "{{z}} {$from}"]


@pytest.mark.parametrize("steps", [[], [order("a", undo_with=None)]])
async def test_a_run_without_anything_to_take_back_says_so(steps: list[Any]) -> None:
    app = Plansmith(tools=[world()], limits=NO_WAIT)
    run = await ran(app, plan({"id": "look", "tool": "look"}, *steps))
    with pytest.raises(Refused, match="nothing that can be taken back"):
        await app.runs.undo_effects(run.id, by="ada")


async def test_a_run_that_is_not_over_is_not_taken_back() -> None:
    app = Plansmith(tools=[world()], limits=NO_WAIT)
    run = await app.submit(plan(order("a")), by="bob")
    with pytest.raises(Refused, match="is reviewing"):
        await app.runs.undo_effects(run.id, by="ada")


async def changed(app: Plansmith, run_id: str, wanted: Plan) -> Run:
    """A person changes the plan of a run that waits for an answer, and approves the new one."""
    run = await app.edit(run_id, wanted, by="ada")
    while not run.status.over:
        if isinstance(move := next_move(run), AwaitReview):
            await app.decide(run_id, approve=move.hash, by="ada")
        for question in run.questions:
            await app.answer(run_id, question, "go on", by="ada")
        run = await app.run(run_id)
    return run


ASK: dict[str, Any] = {"id": "ask", "question": "Go on?"}


async def test_what_a_person_edited_out_of_the_plan_can_still_be_taken_back() -> None:
    app, tools = shop()
    run = await ran(app, plan(order("a"), ASK, order("b", 2, after=["ask"])))
    assert run.status is RunStatus.ASKING
    run = await changed(app, run.id, plan(ASK, order("b", 2, after=["ask"])))
    assert "a" not in run.steps
    undo = await app.runs.undo_effects(run.id, by="ada")
    assert [(each.tool, each.inputs) for each in plan_of(undo).steps if each.kind == "tool"] == [
        ("cancel", {"id": "o2"}),
        ("cancel", {"id": "o1"}),
    ]
    assert "a later plan left out" in plan_of(undo).steps[1].title
    await approved(app, undo)
    assert cancelled(tools) == ["o2", "o1"]
    with pytest.raises(Refused, match="taken back already"):
        await app.runs.undo_effects(run.id, by="ada")


async def test_both_calls_of_a_step_whose_inputs_were_edited_can_be_taken_back() -> None:
    """The tool returns the same for both: only what they were called with differs."""
    alike = FakeTool("order", [{"ok": True}], effect=Effect.WRITE)
    tools = FakeTools(alike, FakeTool("cancel", [{"ok": True}], effect=Effect.WRITE))
    app = Plansmith(tools=[tools], limits=NO_WAIT)

    def buy(n: int) -> dict[str, Any]:
        return order("a", n, undo_with={"tool": "cancel", "inputs": {"id": n}})

    run = await ran(app, plan(buy(1), ASK))
    run = await changed(app, run.id, plan(buy(5), ASK))
    assert [each.arguments for each in tools.calls] == [{"n": 1}, {"n": 5}]
    await approved(app, await app.runs.undo_effects(run.id, by="ada"))
    assert cancelled(tools) == [5, 1]


async def test_a_step_that_left_the_plan_and_came_back_is_taken_back_once() -> None:
    app, tools = shop()
    whole = plan(order("a"), ASK, order("b", 2, after=["ask"]))
    run = await ran(app, whole)
    await app.edit(run.id, plan(ASK), by="ada")
    run = await changed(app, run.id, whole)
    assert run.status is RunStatus.DONE
    assert [each.arguments for each in tools.calls] == [{"n": 1}, {"n": 2}]
    await approved(app, await app.runs.undo_effects(run.id, by="ada"))
    assert cancelled(tools) == ["o2", "o1"]


async def test_items_and_parts_of_templates_that_were_edited_out_can_still_be_taken_back() -> None:
    tools, store = world(), MemoryStore()
    app = Plansmith(tools=[tools], limits=NO_WAIT, store=store)
    await app.templates.save(plan(order("x", 7)), "buy")
    each = order("each", "{{item}}")
    gone: list[dict[str, Any]] = [
        {"id": "all", "over": [4, 5], "each": each},
        {"id": "t", "template": "buy"},
    ]
    submitted = await app.submit(plan(*gone, ASK), by="bob")
    await app.decide(submitted.id, approve=plan_of(submitted).hash, by="ada")
    await app.run(submitted.id)
    await app.close()
    other = Plansmith(tools=[tools], limits=NO_WAIT, store=store)
    run = await changed(other, submitted.id, plan(ASK))
    undo = await other.runs.undo_effects(run.id, by="ada")
    await approved(other, undo)
    assert sorted(cancelled(tools)) == ["o4", "o5", "o7"]


async def test_what_another_run_did_is_taken_back_by_that_run_alone() -> None:
    """A run that continues another one takes over its results: each effect has one owner."""
    app, tools = shop()
    failing = {"id": "z", "tool": "break", "after": ["a"]}
    first = await ran(app, plan(order("a"), failing, order("b", 2)))
    more = plan(order("a"), order("b", 2), order("c", 3))
    second = await app.retry(first.id, plan=more, by="ada")
    second = await approved(app, second)
    assert second.status is RunStatus.DONE
    for run in (second, first):
        await approved(app, await app.runs.undo_effects(run.id, by="ada"))
    assert cancelled(tools)[0] == "o3"
    assert sorted(cancelled(tools)) == ["o1", "o2", "o3"]


async def test_what_a_new_plan_of_a_model_dropped_can_still_be_taken_back() -> None:
    tools = world()
    new = {"goal": "g", "steps": [{**order("b", 2), "kind": "tool"}]}
    app = Plansmith(
        tools=[tools],
        limits=NO_WAIT,
        model=ScriptedModel(new),
        settings=PlannerSettings(triage=False),
    )
    failing = {"id": "z", "tool": "break", "after": ["a"]}
    run = await ran(app, plan(order("a"), failing))
    assert run.status is RunStatus.REVIEWING
    assert run.plan is not None
    run = await approved(app, run)
    assert run.status.over
    await approved(app, await app.runs.undo_effects(run.id, by="ada"))
    assert cancelled(tools) == ["o2", "o1"]
