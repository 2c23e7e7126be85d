"""A question guards its effect at every depth: through restarts, other answers, edits and skips."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from tests.flow.plans import answered, approve, approved, change_step, plan

from plansmith import Effect, Plan, RunStatus, StepStatus
from plansmith.app import Plansmith
from plansmith.errors import Refused
from plansmith.plan.data import Json
from plansmith.plan.events import StepDone
from plansmith.plan.limits import Limits
from plansmith.plan.run import Run
from plansmith.plan.steps import RULES
from plansmith.ports import Call
from plansmith.testing import FakeTool, FakeTools, MemoryStore

LIMITS = Limits(first_wait_s=0)


PAY = plan(
    {"id": "sure", "question": "Really pay 10,000?"},
    {"id": "pay", "tool": "pay", "inputs": {"sum": "{{params.sum}}"}, "after": ["sure"]},
)


class Place:
    """One store and one world, entered by one process after the other."""

    def __init__(self, *more: FakeTool, **templates: Plan) -> None:
        self.store = MemoryStore()
        pay = FakeTool("pay", [{"paid": True}], effect=Effect.WRITE)
        self.tools = FakeTools(pay, FakeTool("look", [{"list": [1, 2]}]), *more)
        self.templates = {"payment": PAY, **templates}

    def enter(self) -> Plansmith:
        return Plansmith(
            tools=[self.tools], store=self.store, limits=LIMITS, templates=self.templates
        )

    async def begin(self, wanted: Plan) -> Run:
        return await approved(self.enter(), wanted)

    def calls(self, tool: str = "pay") -> int:
        return sum(call.tool == tool for call in self.tools.calls)


async def test_an_unknown_call_inside_a_template_holds_what_needs_it_through_a_restart() -> None:
    twice = plan(
        {"id": "first", "tool": "book"}, {"id": "second", "tool": "pay", "after": ["first"]}
    )

    def lost(_: Any) -> Any:
        raise OSError("the line went dead")

    place = Place(FakeTool("book", [lost], effect=Effect.WRITE), twice=twice)
    run = await place.begin(plan({"id": "p", "template": "twice"}))
    assert run.steps["p/first"].status is StepStatus.UNKNOWN
    run = await place.enter().run(run.id)
    assert (run.status, place.calls()) == (RunStatus.ASKING, 0)
    await place.enter().answer(run.id, "unknown:p/first", "done", by="ada")
    run = await place.enter().run(run.id)
    assert (run.status, place.calls("book"), place.calls()) == (RunStatus.DONE, 1, 1)


async def test_an_answer_from_another_process_ends_a_map_whose_last_part_asked() -> None:
    """The end of the whole step is written, although the word came in from elsewhere."""
    began, go = asyncio.Event(), asyncio.Event()

    class Slow(FakeTools):
        async def call(self, tool: str, arguments: Mapping[str, Json], call: Call) -> Json:
            if tool == "slow":
                began.set()
                await go.wait()
            return await super().call(tool, arguments, call)

    place = Place()
    place.templates = {"asks": plan({"id": "sure", "question": "Really?"})}
    place.tools = Slow(FakeTool("slow", [1]))
    one, other = place.enter(), place.enter()
    run = await one.submit(
        plan({"id": "m", "over": [1], "each": {"template": "asks"}}, {"id": "s", "tool": "slow"})
    )
    running = asyncio.create_task(one.run(run.id))
    await began.wait()
    await other.answer(run.id, "m/0/sure", "yes", by="ada")
    async for event in other.events(run.id, follow=True):
        if isinstance(event.body, StepDone) and event.body.step == "m":
            break
    go.set()
    assert (await running).status is RunStatus.DONE


async def test_an_edit_of_a_step_with_a_question_inside_asks_anew_and_is_not_stuck() -> None:
    place = Place()
    run = await place.begin(plan({"id": "p", "template": "payment", "inputs": {"sum": 1}}))
    assert run.plan is not None
    edited = change_step(run.plan, "p", inputs={"sum": 2})
    run = await place.enter().edit(run.id, edited, by="ada")
    assert run.plan is not None
    assert not run.questions
    await place.enter().decide(run.id, approve=run.plan.hash, by="ada")
    run = await place.enter().run(run.id)
    assert (run.status, set(run.questions), place.calls()) == (RunStatus.ASKING, {"p/sure"}, 0)
    await place.enter().answer(run.id, "p/sure", "yes", by="ada")
    run = await place.enter().run(run.id)
    assert run.status is RunStatus.DONE
    assert [call.arguments for call in place.tools.calls] == [{"sum": 2}]


async def test_a_step_whose_outcome_is_unknown_cannot_be_edited_or_undone_away() -> None:
    def lost(_: Any) -> Any:
        raise ConnectionResetError("gone")

    place = Place(FakeTool("book", [lost, 1], effect=Effect.WRITE))
    first = plan({"id": "b", "tool": "book"}, {"id": "a", "tool": "look"})
    run = await place.begin(first)
    assert run.plan is not None
    assert run.steps["b"].status is StepStatus.UNKNOWN
    for edited in (plan({"id": "a", "tool": "look"}), change_step(first, "b", disabled=True)):
        with pytest.raises(Refused, match="answer the question about 'b' first"):
            await place.enter().edit(run.id, edited, by="ada")
    other = run.plan.replace(steps=(*run.plan.steps, *plan({"id": "c", "tool": "look"}).steps))
    run = await place.enter().edit(run.id, other, by="ada")
    assert set(run.questions) == {"unknown:b"}
    await approve(place.enter(), run)
    await place.enter().answer(run.id, "unknown:b", "done", by="ada")
    run = await place.enter().run(run.id)
    assert (run.status, place.calls("book")) == (RunStatus.DONE, 1)


async def test_an_open_question_is_asked_again_once_what_comes_before_it_has_run_anew() -> None:
    place = Place()
    wanted = plan(
        {"id": "a", "tool": "look", "inputs": {"n": 1}},
        {"id": "sure", "question": "Really pay?", "after": ["a"]},
        {"id": "pay", "tool": "pay", "inputs": {"sum": 1}, "after": ["sure"]},
    )
    run = await place.begin(wanted)
    assert run.status is RunStatus.ASKING
    app = place.enter()
    run = await app.edit(run.id, change_step(wanted, "a", inputs={"n": 2}), by="ada")
    with pytest.raises(Refused, match="no open question"):
        await app.answer(run.id, "sure", "yes", by="ada")
    await approve(app, run)
    run = await app.run(run.id)
    assert (place.calls("look"), place.calls("pay")) == (2, 0)
    assert (await answered(app, run, "sure", "yes")).status is RunStatus.DONE
    assert place.calls("pay") == 1


@pytest.mark.parametrize("name", sorted(RULES))
async def test_an_argument_named_like_a_rule_is_asked_about_as_others(name: str) -> None:
    place = Place()
    change = {"id": "p", "tool": "pay", "inputs": {name: "{{look.list}}"}}
    run = await place.begin(plan({"id": "look", "tool": "look"}, change))
    assert ([*run.questions], place.calls()) == (["data:p?1"], 0)


async def test_inputs_are_filled_as_the_one_value_in_which_references_are_looked_for() -> None:
    sent = {"id": "p", "tool": "pay", "inputs": {"$literal": {"a": "{{look}}"}}, "after": ["look"]}
    other = {"id": "q", "tool": "pay", "inputs": {"$from": "look", "$path": ["list"]}}
    run = await (place := Place()).begin(plan({"id": "look", "tool": "look"}, sent, other))
    assert [each.arguments for each in place.tools.calls[1:]] == [{"a": "{{look}}"}]
    assert run.steps["q"].error == "inputs have to be an object, not array"


async def test_a_step_of_a_template_with_a_reserved_id_gives_its_result_to_no_change() -> None:
    ids = [{"id": "item", "tool": "look"}, {"id": "a", "tool": "look"}]
    late = {"id": "p", "tool": "pay", "inputs": {"v": "{{item.list}}"}, "after": ["b"]}
    place = Place(odd=plan(*ids, {"id": "b", "tool": "look", "after": ["a"]}, late))
    run = await place.begin(plan({"id": "t", "template": "odd"}))
    assert (run.steps["t/p"].status, place.calls()) == (StepStatus.FAILED, 0)
