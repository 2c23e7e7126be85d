"""An effect that took place, or may have, is never made again by a replan, an edit or a try."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from tests.flow.plans import answered, approve, approved, change_step, plan

from plansmith import AgentSpec, Effect, RunStatus, StepStatus
from plansmith.app import Plansmith
from plansmith.errors import InputNeeded, OutcomeUnknown, Refused, ToolBusy, ToolFailed
from plansmith.plan.capability import ToolSpec
from plansmith.plan.data import Json
from plansmith.plan.events import ReviewAsked
from plansmith.plan.limits import Limits
from plansmith.ports import Call
from plansmith.testing import FakeClock, FakeTool, FakeTools, MemoryStore, ScriptedModel

LIMITS = Limits(first_wait_s=0, tries=3, data="show")


def breaks(error: BaseException) -> Callable[[Any], Json]:
    def call(_: Any) -> Json:
        raise error

    return call


@pytest.mark.parametrize(
    "outcome",
    [
        breaks(RuntimeError("after the money was sent")),
        breaks(KeyError("receipt")),
        breaks(SystemExit(1)),
        breaks(Refused("something of ours, and still no word on the effect")),
        OutcomeUnknown("nobody saw"),
        lambda _: {"receipt": 3},  # does not fit the schema
        lambda _: {"receipt": float("nan")},
    ],
    ids=["exception", "key error", "exit", "other error", "lost", "misfit", "no json"],
)
async def test_a_write_that_went_wrong_after_it_began_is_unknown_and_asks(outcome: Any) -> None:
    schema = {
        "type": "object",
        "properties": {"receipt": {"type": "string"}},
        "required": ["receipt"],
    }
    tools = FakeTools(FakeTool("pay", [outcome], effect=Effect.WRITE, output_schema=schema))
    model = ScriptedModel(json.dumps({"steps": [{"id": "again", "tool": "pay"}]}))
    app = Plansmith(tools=[tools], limits=LIMITS, model=model)
    run = await approved(app, plan({"id": "p", "tool": "pay"}))
    assert run.steps["p"].status is StepStatus.UNKNOWN
    assert run.status is RunStatus.ASKING
    assert run.steps["p"].error in run.questions["unknown:p"].text
    assert len(tools.calls) == 1
    assert run.revisions == 1


@pytest.mark.parametrize("error", [ToolFailed("the card was refused"), ToolBusy("later")])
async def test_a_write_that_says_that_nothing_was_changed_has_failed(error: ToolFailed) -> None:
    tools = FakeTools(FakeTool("pay", [error], effect=Effect.WRITE))
    run = await approved(Plansmith(tools=[tools], limits=LIMITS), plan({"id": "p", "tool": "pay"}))
    assert run.steps["p"].status is StepStatus.FAILED
    assert run.status is RunStatus.FAILED
    assert len(tools.calls) == (3 if isinstance(error, ToolBusy) else 1)


async def test_calls_before_an_answer_count_as_no_tries_in_another_process_either() -> None:
    look = FakeTool("look", [InputNeeded("Which?"), ToolBusy("no"), ToolBusy("no"), "seen"])
    tools, store, clock = FakeTools(look), MemoryStore(), FakeClock()

    def enter() -> Plansmith:
        limits = Limits(first_wait_s=60, tries=3)
        return Plansmith(tools=[tools], store=store, clock=clock, limits=limits)

    run = await approved(enter(), plan({"id": "a", "tool": "look"}))
    await enter().answer(run.id, next(iter(run.questions)), "this", by="ada")
    for _ in range(3):
        run = await enter().runs.run(run.id, parks=True)
        await clock.advance(600)
    assert run.result("a") == "seen"


class Keyed:
    """A service that does what it is asked once a key, and then says what a test wants."""

    def __init__(self, *says: BaseException | Json) -> None:
        self.says = list(says)
        self.keys: Counter[str] = Counter()

    async def tools(self) -> list[ToolSpec]:
        return [ToolSpec(name="pay", effect=Effect.WRITE, idempotent=True)]

    async def call(self, tool: str, arguments: Mapping[str, Json], call: Call) -> Json:
        del tool, arguments
        self.keys[call.key] += 1
        answer = self.says.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer


@pytest.mark.parametrize(
    "says", [[RuntimeError("boom")] * 3, [RuntimeError("boom"), ToolFailed("not this time")]]
)
async def test_a_keyed_write_is_tried_again_under_its_key_and_then_unknown(says: list[Any]) -> None:
    """Also if the last try says that it changed nothing: of the first one nobody can say that."""
    service = Keyed(*says)
    app = Plansmith(tools=[service], limits=LIMITS)
    run = await approved(app, plan({"id": "p", "tool": "pay"}))
    assert run.steps["p"].status is StepStatus.UNKNOWN
    assert [*service.keys.values()] == [len(says)]


class Clerk:
    """An agent that changes things."""

    spec = AgentSpec(name="clerk", description="Does it.", effect=Effect.WRITE)

    async def work(self, task: str, inputs: Mapping[str, Json], call: Call) -> Json:
        del task, inputs, call
        raise ValueError("half-way")


async def test_an_agent_that_changes_things_and_breaks_is_asked_about() -> None:
    app = Plansmith(agents=[Clerk()])
    run = await approved(app, plan({"id": "c", "agent": "clerk", "task": "Do it."}))
    assert run.steps["c"].status is StepStatus.UNKNOWN


class Till:
    """Takes payments one by one; some are refused the first time."""

    def __init__(self, *refused: str) -> None:
        self.paid: Counter[str] = Counter()
        self.refused = set(refused)

    async def tools(self) -> list[ToolSpec]:
        return [ToolSpec(name="pay", effect=Effect.WRITE)]

    async def call(self, tool: str, arguments: Mapping[str, Json], call: Call) -> Json:
        del tool, call
        who = str(arguments["to"])
        if who in self.refused:
            self.refused.discard(who)
            raise ToolFailed("not today")
        self.paid[who] += 1
        return {"paid": who}


def payments(*names: str) -> dict[str, Any]:
    each = {"tool": "pay", "inputs": {"to": "{{item}}"}}
    return {"id": "m", "over": list(names), "each": each, "width": 1}


async def test_a_replan_with_another_list_pays_nobody_twice_and_forgets_nobody() -> None:
    till, store = Till("bob"), MemoryStore()
    other = {"goal": "test", "steps": [payments("zoe", "bob", "ann")]}
    model = ScriptedModel(json.dumps(other))
    app = Plansmith(tools=[till], store=store, limits=LIMITS, model=model)
    run = await approved(app, plan(payments("ann", "bob", "cid")))
    if run.status is RunStatus.REVIEWING:
        await approve(app, run)
    run = await Plansmith(tools=[till], store=store, limits=LIMITS).run(run.id)
    assert run.status is RunStatus.DONE
    assert till.paid == {"ann": 1, "bob": 1, "cid": 1, "zoe": 1}
    assert run.steps["m"].result == [{"paid": "zoe"}, {"paid": "bob"}, {"paid": "ann"}]


@pytest.mark.parametrize(
    "names",
    [("cid", "bob", "ann"), ("bob",), ("dan", "ann", "bob", "ann"), ("bob", "bob", "bob")],
    ids=["turned round", "shorter", "one twice", "one thrice"],
)
async def test_an_edit_of_the_list_pays_each_entry_once(names: tuple[str, ...]) -> None:
    till, store = Till("bob"), MemoryStore()
    app = Plansmith(tools=[till], store=store, limits=LIMITS)
    ask = {"id": "q", "question": "Go on?"}
    run = await approved(app, plan(payments("ann", "bob", "cid"), ask))
    assert run.status is RunStatus.ASKING
    assert till.paid == {"ann": 1, "cid": 1}
    app = Plansmith(tools=[till], store=store, limits=LIMITS)
    run = await app.edit(run.id, plan(payments(*names), ask), by="ada")
    await approve(app, run)
    run = await Plansmith(tools=[till], store=store, limits=LIMITS).run(run.id)
    assert run.steps["m"].status is StepStatus.DONE
    assert run.steps["m"].result == [{"paid": name} for name in names]
    assert till.paid == Counter(names) | Counter({"ann": 1, "cid": 1})


async def test_an_edit_elsewhere_keeps_why_a_part_of_a_step_that_is_passed_over_failed() -> None:
    store = MemoryStore()
    app = Plansmith(tools=[Till("bob")], store=store, limits=LIMITS)
    wanted = plan(payments("ann", "bob") | {"on_error": "skip"}, {"id": "q", "question": "Go on?"})
    run = await approved(app, wanted)
    assert run.plan is not None
    failed = run.steps["m/1"]
    assert failed.status is StepStatus.FAILED
    run = await app.edit(run.id, change_step(run.plan, "q", question="Go on now?"), by="ada")
    assert run.steps["m/1"] == failed


async def test_an_edit_of_a_templates_parameter_repeats_only_the_calls_that_change() -> None:
    two = plan(
        {"id": "one", "tool": "pay", "inputs": {"to": "{{params.first}}"}},
        {"id": "two", "tool": "pay", "inputs": {"to": "{{params.second}}"}, "after": ["one"]},
    )
    till, store = Till("bob"), MemoryStore()

    def enter() -> Plansmith:
        return Plansmith(tools=[till], store=store, limits=LIMITS, templates={"two": two})

    step = {"id": "p", "template": "two", "inputs": {"first": "ann", "second": "bob"}}
    wanted = plan(step, {"id": "q", "question": "Go on?"})
    run = await approved(enter(), wanted)
    assert run.steps["p"].status is StepStatus.FAILED
    assert run.plan is not None
    edited = change_step(run.plan, "p", inputs={"first": "ann", "second": "cid"})
    run = await enter().edit(run.id, edited, by="ada")
    await approve(enter(), run)
    run = await enter().run(run.id)
    assert run.steps["p"].status is StepStatus.DONE
    assert till.paid == {"ann": 1, "cid": 1}


async def test_a_call_of_a_template_that_was_changed_since_is_known_to_be_made_again() -> None:
    till, store, question = Till(), MemoryStore(), {"id": "q", "question": "Go on?"}
    look = FakeTools(FakeTool("look", [{"name": "ann"}]))

    def enter(name: str) -> Plansmith:
        pay = {"id": name, "tool": "pay", "inputs": {"to": "{{a.name}}"}}
        one = plan({"id": "a", "tool": "look"}, pay)
        return Plansmith(tools=[till, look], store=store, limits=LIMITS, templates={"one": one})

    run = await approved(enter("p"), plan({"id": "t", "template": "one"}, question))
    app = enter("renamed")
    await app.edit(run.id, plan({"id": "u", "template": "one"}, question), by="ada")
    last = [event.body async for event in app.events(run.id)][-1]
    assert isinstance(last, ReviewAsked)
    assert "was made already" in last.reasons[0]


async def test_an_edit_before_a_write_that_is_done_repeats_it_only_with_other_values() -> None:
    till, store = Till(), MemoryStore()
    look = FakeTools(FakeTool("look", [lambda given: {"name": "ann", "given": dict(given)}]))
    app = Plansmith(tools=[till, look], store=store, limits=LIMITS)
    wanted = plan(
        {"id": "a", "tool": "look", "inputs": {"n": 1}},
        {"id": "p", "tool": "pay", "inputs": {"to": "{{a.name}}"}},
        {"id": "q", "question": "Go on?"},
    )
    run = await approved(app, wanted)
    run = await app.edit(run.id, change_step(wanted, "a", inputs={"n": 2}), by="ada")
    await approve(app, run)
    run = await app.run(run.id)
    assert run.steps["p"].status is StepStatus.DONE
    assert till.paid == {"ann": 1}
    assert len(look.calls) == 2


async def test_a_new_plan_without_a_step_in_doubt_keeps_the_step_and_its_question() -> None:
    tools = FakeTools(
        FakeTool("pay", [breaks(OSError("gone"))], effect=Effect.WRITE), FakeTool("look", [1])
    )
    other = {"goal": "test", "steps": [{"id": "a", "tool": "look"}]}
    app = Plansmith(tools=[tools], limits=LIMITS, model=ScriptedModel(json.dumps(other)))
    run = await approved(app, plan({"id": "p", "tool": "pay"}, {"id": "b", "tool": "look"}))
    assert set(run.questions) == {"unknown:p"}
    run = await app.request_changes(run.id, "forget the payment", by="ada")
    assert run.plan is not None
    assert set(run.plan.by_id) == {"p", "a", "b"}
    assert set(run.questions) == {"unknown:p"}
    if run.phase is RunStatus.REVIEWING:
        await app.decide(run.id, approve=run.plan.hash, by="ada")
    run = await app.run(run.id)
    assert run.status is RunStatus.ASKING
    run = await answered(app, run, "unknown:p", "done")
    assert run.status is RunStatus.DONE
    assert [call.tool for call in tools.calls].count("pay") == 1
