"""Messages of a thread answer only what they were said for, and each is acted on once."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.flow.looking_model import (
    Desk,
    LookingModel,
    approved,
    asking,
    asks,
    guards,
    journey,
    made,
    one_step,
)
from tests.flow.smiths import NO_TRIAGE, begun, done, plan_of

from plansmith import Plan, Plansmith, RunStatus, tool
from plansmith.errors import Refused
from plansmith.plan.events import Actor
from plansmith.plan.run_options import Origin
from plansmith.ports import PlanBrief
from plansmith.testing import MemoryStore, ScriptedModel
from plansmith_planner.threads.entries import MessageAdded

ANN = Actor(kind="person", name="ann")


@pytest.mark.parametrize(
    ("words", "booked"),
    [
        *(("yes", 1), ("好的", 1), ("no, stop", 0), ("不", 0)),
        *(("good morning", None), ("wait a second", None), ("thanks", None), ("稍等", None)),
    ],
)
async def test_only_a_message_that_is_a_plain_yes_or_no_answers_the_one_question(
    words: str, booked: int | None
) -> None:
    desk = Desk()
    smith = made(desk, guards())
    run = await asking(smith)
    turn = await (await smith.thread("t")).say(words, by="ann")
    assert turn.kind in (("review", "request") if booked is None else ("answer",))
    assert bool((await smith.run(run)).questions) is (booked is None)
    assert desk.count("book") == (booked or 0)


@pytest.mark.parametrize("option", ["1", "Rome", "no"])
async def test_an_option_of_two_questions_does_not_answer_the_one_that_a_change_waits_for(
    option: str,
) -> None:
    desk, options = Desk(), ["Rome", "Oslo", "no"]
    plans = {"look": asks(options=options), "Begin": guards(options=options)}
    smith = made(desk, lambda brief, _: plans[brief.request])
    runs = [await asking(smith, "look"), await asking(smith, "Begin")]
    turn = await (await smith.thread("t")).say(option, by="ann")
    assert turn.kind == "review"
    assert all([(await smith.get(run)).questions for run in runs])


async def test_a_message_does_not_answer_a_question_that_was_asked_after_it_was_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("plansmith_planner.threads.thread._OTHERS_S", 0.01)
    desk = Desk()
    smith = made(
        desk,
        lambda brief, _: (
            guards(options=["yes", "no"]) if brief.request == "Begin" else journey(brief, _)
        ),
    )
    thread = await smith.thread("t")
    turn = await begun(thread, "Begin")
    # A process stored it and died; then the question came up.
    await thread._threads.store.add("t", MessageAdded(text="yes"), by=ANN)
    await approved(smith, turn.id)
    later = await thread.say("Find a flight", by="ann")
    assert [each.kind for each in later.earlier] == ["review"]
    assert (await smith.run(turn.id)).status is RunStatus.ASKING
    assert desk.count("book") == 0


async def test_a_message_sent_again_does_not_answer_a_question_that_is_asked_anew() -> None:
    plan = asks(options=["Rome", "Oslo"])
    plan["steps"] += guards()["steps"][1:]
    plan["steps"][2] |= {"id": "pay", "after": ["sure"]}
    plan["steps"].append({"id": "sure", "kind": "ask", "question": "Sure?", "after": ["use"]})
    smith = made(Desk(), plan)
    run_id, thread = await asking(smith), await smith.thread("t")
    await thread.say("Rome", by="ann", key="k")
    run = await smith.run(run_id)
    assert list(run.questions) == ["sure"]
    edited: Any = plan_of(run).to_json()
    edited["steps"][0]["question"] = "Delete which one?"
    await smith.edit(run_id, Plan.model_validate(edited), by="ann")
    await approved(smith, run_id)
    assert (await thread.say("Rome", by="ann", key="k")).kind == "answer"
    assert "q" in (await smith.get(run_id)).questions


@pytest.mark.parametrize("text", ["[" * 99_999, "{" * 2_000, "NaN", "1e999", "-Infinity"])
async def test_a_message_that_only_looks_like_a_number_does_not_stop_its_thread(text: str) -> None:
    smith = made(Desk(), asks(answer_schema={"type": "number"}))
    run, thread = await asking(smith), await smith.thread("t")
    assert (await thread.say(text, by="ann", plan=False)).kind == "request"
    assert (await thread.say("7", by="ann")).kind == "answer"
    assert not (await smith.get(run)).questions


async def test_half_a_character_in_a_message_is_refused_and_nothing_is_stored() -> None:
    thread = await made(Desk(), journey).thread("t")
    with pytest.raises(Refused, match="half a character"):
        await thread.say("Find a flight \ud83d", by="ann")
    assert not (await thread.refresh()).history


async def test_an_answer_that_a_process_read_and_left_is_given_before_the_next_message(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan = asks(options=["Rome", "Oslo"])
    smith = made(Desk(), lambda brief, _: plan if brief.request == "Begin" else journey(brief, _))
    run, thread = await asking(smith), await smith.thread("t")
    with monkeypatch.context() as dying:

        async def dies(*_: Any, **__: Any) -> None:
            raise KeyboardInterrupt

        dying.setattr(thread._runs, "answer", dies)
        with pytest.raises(KeyboardInterrupt):
            await thread.say("Rome", by="ann")
    turn = await thread.say("Find another flight to Oslo", by="ann")
    assert [each.kind for each in turn.earlier] == ["answer"]
    assert not (await smith.get(run)).questions


async def test_a_change_that_a_process_read_and_left_is_made_before_the_next_message() -> None:
    smith = made(Desk(), journey)
    thread = await smith.thread("t")
    await done(smith, thread, "Find a flight")
    booking = await begun(thread, "book it")
    await thread.say("cheaper, please", by="ann", plan=False)
    turn = await thread.say("why Rome?", by="ann")
    assert [each.kind for each in turn.earlier] == ["change"]
    run = await smith.get(booking.id)
    assert [step.id for step in plan_of(run).steps] == ["train", "book"]


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_a_request_whose_run_was_deleted_is_not_made_again(kind: str, tmp_path: Path) -> None:
    store = "memory" if kind == "memory" else f"sqlite:///{tmp_path / 'p.db'}"
    smith = Plansmith(model=LookingModel(journey), tools=Desk().tools(), store=store)
    thread = await smith.thread("t")
    first = await done(smith, thread, "Find a flight")
    await smith.store.delete_run(first.id)
    turn = await thread.say("Find another flight", by="ann")
    assert turn.earlier == ()
    assert [each.id for each in await smith.runs.all()] == [turn.run.id if turn.run else ""]
    await smith.close()


async def test_a_thread_that_is_deleted_while_somebody_speaks_in_it_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    smith = made(Desk(), journey)
    thread = await smith.thread("t")
    await done(smith, thread, "Find a flight")
    store, number = thread._threads.add_message, 0

    async def deleted(*given: Any) -> Any:
        nonlocal number
        state, number = await store(*given)
        await smith.threads.delete("t", by="ann")
        return await thread._threads.present(state), number

    monkeypatch.setattr(thread._threads, "add_message", deleted)
    with pytest.raises(Refused, match="deleted meanwhile"):
        await thread.say("Find another flight", by="ann")


async def test_a_why_of_many_words_looks_for_the_longest_only() -> None:
    desk = Desk()
    desk.flight = {"name": "AZ 123", "notes": ["short words"] * 2_000}
    smith = made(desk, journey)
    thread = await smith.thread("t")
    await done(smith, thread, "Find a flight")
    many = " ".join(f"w{n}" for n in range(15_000))  # all of them: two minutes
    assert (await thread.say(f"why {many}", by="ann", plan=False)).kind == "request"
    assert "step find (flights)" in (await thread.say("why AZ and 123 and words?", by="ann")).text


async def test_an_answer_that_is_refused_does_not_stop_the_next_messages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    smith = made(Desk(), asks(options=["Rome", "Oslo"]))
    run, thread = await asking(smith), await smith.thread("t")

    async def refuses(*_: Any, **__: Any) -> None:
        raise Refused("not now")

    with monkeypatch.context() as refusing:
        refusing.setattr(thread._runs, "answer", refuses)
        with pytest.raises(Refused, match="not now"):
            await thread.say("Rome", by="ann")
        turn = await thread.say("why Rome?", by="ann", plan=False)
    assert turn.earlier == ()
    assert [each.reply.text for each in thread.history if each.reply][:1] == ["not now"]
    assert (await thread.say("Oslo", by="ann")).kind == "answer"
    assert not (await smith.get(run)).questions


class Queue:
    """Lets nobody in before it is free, and tells when somebody has come."""

    def __init__(self) -> None:
        self.came, self.free = asyncio.Event(), asyncio.Event()

    async def __aenter__(self) -> None:
        self.came.set()
        await self.free.wait()

    async def __aexit__(self, *_: object) -> None: ...


async def test_a_message_does_not_answer_a_question_that_came_up_while_it_waited_its_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    desk, queue = Desk(), Queue()
    smith = made(desk, guards(options=["yes", "no"]))
    thread = await smith.thread("t")
    turn = await begun(thread, "Begin")
    monkeypatch.setattr(thread._threads, "lock", lambda _: queue)
    saying = asyncio.create_task(thread.say("yes", by="ann"))
    await queue.came.wait()  # another message is being read
    await approved(smith, turn.id)
    queue.free.set()
    assert (await saying).kind == "review"
    assert (await smith.run(turn.id)).status is RunStatus.ASKING
    assert desk.calls == []


async def test_a_replan_for_a_person_reads_no_word_that_a_program_said_in_the_thread() -> None:
    @tool(effect="read")
    def broken() -> str:
        raise RuntimeError("no")

    def plans(brief: PlanBrief, prompt: str) -> Any:
        return one_step("broken") if "broken" in brief.request else journey(brief, prompt)

    model = LookingModel(plans)
    smith = Plansmith(model=model, tools=[*Desk().tools(), broken])
    thread = await smith.thread("t")
    await thread.say("Find a flight canary-4711", by=Actor(kind="program", name="bot"))
    turn = await begun(thread, "Try the broken one")
    assert "canary-4711" in model.texts(PlanBrief)[-1]
    before = len(model.prompts)
    await smith.run(turn.id)
    again = [each.text for each in model.prompts[before:] if isinstance(each.brief, PlanBrief)]
    assert again
    assert "canary-4711" not in "".join(again)


PLAN = {"goal": "g", "steps": [{"id": "look", "tool": "look", "inputs": {"at": "x"}}]}
looked: list[str] = []


@tool(effect="read")
def look(at: str) -> str:
    looked.append(at)
    return at


def smith_of(store: MemoryStore, *answers: object) -> Plansmith:
    return Plansmith(model=ScriptedModel(*answers), tools=[look], store=store, settings=NO_TRIAGE)


class Dying(MemoryStore):
    """A store whose process dies before it stores a run."""

    dead = False

    async def append(self, *given: Any, **more: Any) -> Any:
        if self.dead:
            raise KeyboardInterrupt
        return await super().append(*given, **more)


async def test_the_options_of_a_message_hold_when_another_process_takes_it_up() -> None:
    looked.clear()
    store = Dying()
    dying, other = smith_of(store), smith_of(store, PLAN, PLAN)
    store.dead = True
    origin = Origin(kind="a2a", id="context")
    with pytest.raises(KeyboardInterrupt):
        await (await dying.thread("journey")).say("look at x", mode="review", origin=origin)
    store.dead = False
    thread = await other.thread("journey")
    turn = await thread.say("look at y")
    [first, second] = [await other.runs.run(name) for name in thread.runs]
    assert (first.request, second.id) == ("look at x", turn.run.id if turn.run else "")
    assert (first.options.mode, first.origin) == ("review", origin)
    assert (first.status, second.status) == (RunStatus.REVIEWING, RunStatus.DONE)
    assert looked == ["x"]
