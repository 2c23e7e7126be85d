"""What a message of a thread was taken for is taken back, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest
from tests.flow.asking_runs import asking, made
from tests.flow.looking_model import Desk, journey, one_step

from plansmith import Plansmith, RunStatus
from plansmith.errors import Refused
from plansmith.plan.events import Actor
from plansmith.plan.thread import MessageAdded
from plansmith.ports import PlanBrief

ANN = Actor(kind="person", name="ann")


def fare(brief: PlanBrief, _: str) -> dict[str, Any]:
    """Plans a booking of whatever fare was asked for last."""
    return one_step("book", what=brief.feedback.partition(",")[0] or "first")


async def booked_fare(smith: Plansmith, run_id: str) -> Any:
    run = await smith.get(run_id)
    assert run.plan is not None
    return run.plan.steps[0].to_json()["inputs"]


async def test_undoing_a_change_of_a_thread_takes_back_that_change_and_no_other() -> None:
    smith = made(Desk(), fare)
    thread = await smith.thread("t")
    first = await thread.say("Reserve it", by="ann")
    cheap = await thread.say("cheaper, please", by="ann")
    fast = await thread.say("faster, please", by="ann")
    assert first.run is not None
    with pytest.raises(Refused, match="another plan since"):
        await thread.undo(cheap.number, by="ann")
    await thread.undo(fast.number, by="ann")
    assert await booked_fare(smith, first.run.id) == {"what": "cheaper"}
    await thread.undo(cheap.number, by="ann")
    assert await booked_fare(smith, first.run.id) == {"what": "first"}


async def test_undoing_a_change_that_was_not_made_yet_leaves_the_plan_as_it_is() -> None:
    smith = made(Desk(), fare)
    thread = await smith.thread("t")
    first = await thread.say("Reserve it", by="ann")
    await thread.say("cheaper, please", by="ann")
    left = await thread.say("faster, please", by="ann", plan=False)
    await thread.undo(left.number, by="ann")
    assert first.run is not None
    assert await booked_fare(smith, first.run.id) == {"what": "cheaper"}
    again = await thread.say("why so cheap?", by="ann", plan=False)
    assert again.earlier == ()


async def test_a_request_is_not_undone_once_it_has_changed_something() -> None:
    desk = Desk()
    book = {"id": "b", "kind": "tool", "tool": "book", "inputs": {"what": "x"}}
    more = {"id": "q", "kind": "ask", "question": "More?", "after": ["b"]}
    smith = made(desk, {"goal": "g", "steps": [book, more]})
    run, thread = await asking(smith), await smith.thread("t")
    assert desk.count("book") == 1
    with pytest.raises(Refused, match="cannot be taken back"):
        await thread.undo(thread.history[0].number, by="ann")
    assert (await smith.get(run)).status is RunStatus.ASKING
    assert not (await thread.refresh()).history[0].undone


async def test_a_message_that_was_undone_does_nothing_when_it_is_sent_again() -> None:
    desk = Desk()
    thread = await made(desk, journey).thread("t")
    said = MessageAdded(text="Find a flight", key="k")
    number = (await thread._threads.store.add("t", said, by=ANN)).last
    await thread.undo(number, by="ann")
    again = await thread.say("Find a flight", by="ann", key="k")
    assert (again.number, again.run) == (number, None)
    assert list((await thread.refresh()).runs) == []
