"""`do`: one call plans a request, has the plan approved by a callback, runs it and answers."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from tests.flow.plans import approve

from plansmith import NotApproved, Plan, PlanInvalid, Plansmith, Refused, RunStatus, read_plan, tool
from plansmith.errors import Misconfigured, ToolFailed
from plansmith.plan.events import Actor, PlanApproved, QuestionAsked
from plansmith.testing import ScriptedModel

SENT: list[str] = []


@tool(effect="write")
def send(to: str, text: str = "hi") -> str:
    """Send a message to somebody."""
    SENT.append(f"{to}: {text}")
    return f"sent to {to}"


@tool(effect="read")
def look() -> str:
    return "mallory"


@pytest.fixture(autouse=True)
def _nothing_sent() -> None:
    SENT.clear()


def plan(*steps: dict[str, Any]) -> Plan:
    return read_plan({"goal": "Write to them", "steps": list(steps)})


def mail(to: Any = "ada", name: str = "s") -> dict[str, Any]:
    return {"id": name, "tool": "send", "inputs": {"to": to}}


SAY = {"id": "r", "say": "It is {{s}}."}


async def test_do_plans_asks_for_approval_runs_and_answers_in_one_call() -> None:
    made = {"goal": "Write", "steps": [{**mail(), "kind": "tool"}, SAY | {"kind": "reply"}]}
    decision = {"decision": "plan", "reason": "", "query": "", "answer": ""}
    model = ScriptedModel(json.dumps(decision), json.dumps(made))
    seen: list[Plan] = []

    def approve(proposed: Plan) -> bool:
        assert SENT == []
        seen.append(proposed)
        return True

    async with Plansmith(model, tools=[send]) as smith:
        run = await smith.do("Write to ada", approve=approve)
    assert (run.status, run.answer, SENT) == (RunStatus.DONE, "It is sent to ada.", ["ada: hi"])
    assert [each.hash for each in seen] == [run.approved]


async def test_a_refused_plan_ends_its_run_and_nothing_is_called() -> None:
    async def refuse(_: Plan) -> bool:
        await asyncio.sleep(0)
        return False

    async with Plansmith(tools=[send]) as smith:
        run = await smith.do(plan(mail(), SAY), approve=refuse)
    assert (run.status, run.answer, SENT) == (RunStatus.CANCELLED, "", [])


async def test_an_edited_plan_is_the_one_that_is_approved_and_run() -> None:
    edited = plan(mail("bea"), SAY)
    async with Plansmith(tools=[send]) as smith:
        run = await smith.do(plan(mail(), SAY), approve=lambda _: edited)
        hashes = [
            each.body.hash
            async for each in smith.events(run.id)
            if isinstance(each.body, PlanApproved)
        ]
    assert (SENT, hashes) == (["bea: hi"], [edited.hash])


NOT_A_PLAN = TypeError, "nothing was approved"


@pytest.mark.parametrize(
    ("odd", "error", "message"),
    [
        *((each, *NOT_A_PLAN) for each in (None, "yes", 1, {"approve": True}, "hash")),
        (plan({"id": "s", "tool": "sned"}), PlanInvalid, "did you mean 'send'"),
    ],
)
async def test_what_is_neither_true_nor_a_sound_plan_approves_nothing_and_the_run_still_waits(
    odd: Any, error: type[Exception], message: str
) -> None:
    async with Plansmith(tools=[send]) as smith:
        with pytest.raises(error, match=message):
            await smith.do(plan(mail()), approve=lambda _: odd)
        (waiting,) = await smith.runs.all()
    assert (waiting.status, SENT) == (RunStatus.REVIEWING, [])


async def test_an_approval_callback_of_a_program_cannot_approve() -> None:
    async with Plansmith(tools=[send]) as smith:
        with pytest.raises(Refused, match="cannot decide"):
            await smith.do(plan(mail()), approve=lambda _: True, by=Actor(kind="program", name="x"))
    assert SENT == []


@pytest.mark.parametrize("approve", [True, "yes"])
async def test_an_approval_that_is_no_function_is_refused_before_anything_is_made(
    approve: Any,
) -> None:
    async with Plansmith(tools=[send]) as smith:
        with pytest.raises(Misconfigured, match="approve takes a function"):
            await smith.do(plan(mail()), approve=approve)
        assert await smith.runs.all() == []


async def test_without_an_approval_callback_the_run_waits_and_run_says_how_to_approve() -> None:
    async with Plansmith(tools=[send]) as smith:
        run = await smith.do(plan(mail()))
        assert run.status is RunStatus.REVIEWING
        with pytest.raises(NotApproved, match=rf"smith.decide\('{run.id}', approve=run.plan.hash"):
            await smith.run(run.id)
        assert SENT == []
        await approve(smith, run)
        assert (await smith.run(run.id)).status is RunStatus.DONE


async def test_a_value_that_a_tool_put_into_a_call_is_asked_about_beside_the_approval() -> None:
    made = plan({"id": "l", "tool": "look"}, mail({"$from": "l"}))
    asked: list[QuestionAsked] = []

    def answer(question: QuestionAsked) -> str | None:
        asked.append(question)
        return question.options[0] if len(asked) > 1 else None

    async with Plansmith(tools=[send, look]) as smith:
        run = await smith.do(made, approve=lambda _: True)
        assert (run.status, SENT) == (RunStatus.ASKING, [])
        left = await smith.do(made, approve=lambda _: True, answer=answer)
        assert (left.status, SENT, len(asked)) == (RunStatus.ASKING, [], 1)
        done = await smith.do(made, approve=lambda _: True, answer=answer)
    assert (done.status, SENT) == (RunStatus.DONE, ["mallory: hi"])
    assert "mallory" in str(asked[-1].text)


KEPT = {**mail(), "kind": "tool", "after": ["b"]}
ADDED = {**mail("eve", "t"), "kind": "tool"}


@pytest.mark.parametrize(
    ("steps", "asked"),
    [
        ([{"id": "b", "kind": "tool", "tool": "look"}, KEPT, ADDED], [["b", "s"], ["b", "s", "t"]]),
        ([{"id": "c", "kind": "tool", "tool": "look"}], [["b", "s"]]),
    ],
    ids=["it adds an effect", "it drops an approved effect"],
)
async def test_an_approval_does_not_hold_for_the_next_plan_of_its_run(
    steps: list[Any], asked: list[list[str]]
) -> None:
    """What is added is asked again; a plan alone does not show what it drops, so that waits."""

    @tool(effect="read")
    def broken() -> str:
        raise ToolFailed("no")

    seen: list[list[str]] = []

    def approve(proposed: Plan) -> bool | Plan:
        seen.append([step.id for step in proposed.steps])
        return True if len(seen) == 1 else proposed

    model = ScriptedModel(json.dumps({"goal": "Write", "steps": steps}))
    first = plan({"id": "b", "tool": "broken"}, {**mail(), "after": ["b"]})
    async with Plansmith(model, tools=[send, broken, look]) as smith:
        run = await smith.do(first, approve=approve)
    assert seen == asked
    assert run.status is (RunStatus.DONE if len(asked) == 2 else RunStatus.REVIEWING)
    assert sorted(SENT) == (["ada: hi", "eve: hi"] if len(asked) == 2 else [])


def test_do_sync_waits_in_a_program_without_a_loop(tmp_path: Path) -> None:
    smith = Plansmith(tools=[send], store=f"sqlite:///{tmp_path / 'runs.db'}")
    for name in ("ada", "bea"):
        run = smith.do_sync(plan(mail(name), SAY), approve=lambda _: True)
        assert run.answer == f"It is sent to {name}."
    asyncio.run(smith.close())
    assert SENT == ["ada: hi", "bea: hi"]


async def test_do_sync_works_where_a_loop_runs_as_in_a_notebook_and_beside_do() -> None:
    async with Plansmith(tools=[send]) as smith:
        made = plan(mail(), SAY)
        first = smith.do_sync(made, approve=lambda _: True)
        second = await smith.do(made, approve=lambda _: True)
        third = smith.do_sync(made, approve=lambda _: False)
    assert [each.status.value for each in (first, second, third)] == ["done", "done", "cancelled"]


async def test_a_question_is_answered_while_another_step_is_disabled() -> None:
    steps = [
        {**mail(name="off"), "disabled": True},
        {"id": "q", "question": "To whom?"},
        {**mail("{{q}}"), "after": ["off"]},
    ]
    async with Plansmith(tools=[send]) as smith:
        run = await smith.do(plan(*steps), approve=lambda _: True)
        assert (run.status, run.steps["off"].status) == (RunStatus.ASKING, "waiting")
        run = await smith.do(plan(*steps), approve=lambda _: True, answer=lambda _: "ada")
    assert (run.status, SENT) == (RunStatus.DONE, ["ada: hi"])
    assert run.steps["off"].status == "skipped"


async def test_consent_stays_with_a_step_that_gets_another_title() -> None:
    wanted = plan({"id": "look", "tool": "look"}, mail("{{look}}"), {"id": "q", "question": "Now?"})
    async with Plansmith(tools=[send, look]) as smith:
        run = await smith.do(wanted, approve=lambda _: True)
        [asked] = [each for each in run.questions.values() if each.kind == "consent"]
        await smith.pause(run.id, by="ada")
        await smith.answer(run.id, asked.question, "allow", by="ada")
        titled = [{**each.to_json(), "title": f"Do {each.id}"} for each in wanted.steps]
        await smith.edit(run.id, wanted.replace(steps=titled), by="ada")
        await smith.resume(run.id, by="ada")
        await smith.decide(run.id, approve=wanted.hash, by="ada")
        await smith.run(run.id)
    assert SENT == ["mallory: hi"]
