"""Says messages in conversations for clients, and continues what the messages set off."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Final

from plansmith.errors import PlansmithError
from plansmith.plan.events import Actor
from plansmith.plan.next_move import goes_on
from plansmith.plan.run import Run
from plansmith.plan.sentence import Sentence
from plansmith.plan.thread import ThreadState
from plansmith_planner.threads.thread import Thread
from plansmith_planner.threads.turn import Turn
from plansmith_server.errors import HttpProblem, not_found
from plansmith_server.state import ServerState
from plansmith_server.views import Shown, run_view

NEW: Final = ("", "new")
# Messages of these kinds get their answer at once, and set nothing off.
ANSWERED: Final = ("why", "review")
_LONGEST_ID: Final = 200


async def read_conversation(state: ServerState, name: str) -> ThreadState:
    """Returns a conversation, or that of a run; raises 404 if there is none."""
    if len(name) <= _LONGEST_ID and name.isprintable():
        found: ThreadState = await state.smith.threads.read(name)
        if found.last or found.runs:
            return found
    raise not_found("conversation", name)


async def open_conversation(
    state: ServerState, name: str, *, fixed: bool = False
) -> tuple[ServerState, Thread]:
    """Returns a conversation and the state with the Plansmith that continues it.

    That is the one of its last run's team, unless it is `fixed`.
    """
    thread: Thread = await state.smith.thread("" if name in NEW else name)
    if fixed or not thread.runs:
        return state, thread
    try:
        own = await state.for_run(thread.runs[-1])
    except HttpProblem:
        own = state  # the run was removed
    return own, thread if own is state else await own.smith.thread(thread.id)


async def say(state: ServerState, thread: Thread, text: str, *, by: Actor, **options: Any) -> Turn:
    """Says something; its run is planned, changed or continued in the background."""
    turn = await thread.say(text, by=by, plan=False, **options)
    state.conversations.look()
    for each in turn.earlier:
        await _carry_on(state, each, thread.plan_left)
    await _carry_on(state, turn, thread.plan)
    return turn


async def _carry_on(
    state: ServerState, turn: Turn, plan: Callable[[Turn], Coroutine[Any, Any, Turn]]
) -> None:
    """Has the run of a message planned, changed or continued in the background."""
    if turn.run is None or turn.kind in ANSWERED:
        return
    if turn.kind == "change":
        await state.background.until_journaled(turn.run.id, plan(turn))
    else:
        state.background.go_on(turn.run.id)


async def undo(state: ServerState, thread: Thread, number: int, *, by: Actor) -> Turn:
    """Takes back what a message was taken for; the run in its place continues."""
    background, message = state.background, thread.state.message(number)
    run = message.run if message is not None else ""
    ours = bool(run) and background.knows(run)
    if ours and await _readable(state, run):
        await background.halt_planning(run)
    try:
        turn = await thread.undo(number, by=by, plan=False)
    finally:
        state.conversations.look()
        left = await _readable(state, run) if ours else None
        if left is not None and goes_on(left):
            background.go_on(run)
    if turn.run is not None and turn.run.id != run:
        await state.smith.runs.ask_for_review(turn.run.id, Sentence("review.continues"))
        background.go_on(turn.run.id)
    return turn


async def _readable(state: ServerState, run_id: str) -> Run | None:
    """Returns a run, or None if it was removed or is damaged."""
    try:
        return (await state.smith.runs.journals.load(run_id)).run
    except PlansmithError:
        return None


async def remove(state: ServerState, found: ThreadState, *, by: Actor) -> None:
    """Cancels the open runs of a conversation, and removes it with all its runs."""
    for name in found.runs:
        run = await _readable(state, name)
        if run is not None and not run.status.over:
            await state.background.halt_planning(name)
            own = await state.for_run(name, acts=False)
            await own.smith.cancel(name, by=by)
    await state.smith.threads.delete(found.id, by=by)
    for name in found.runs:
        state.open_runs.forget(name)
    state.conversations.look()


async def turn_view(state: ServerState, thread: Thread, turn: Turn) -> Shown:
    """Returns the run of a message, and what the message was taken for."""
    if turn.run is None:
        raise not_found("run of message", str(turn.number))
    own = await state.for_run(turn.run.id, acts=False)
    shown = await run_view(own.smith, turn.run.id)
    return {**shown, "conversation": turn.thread, "message": taken_for(thread, turn)}


def taken_for(thread: Thread, turn: Turn) -> Shown:
    """Returns what a message was taken for, and the answer that it got at once."""
    message = thread.state.message(turn.number)
    reading = message.reading if message else None
    reply = message.reply if message else None
    return {
        "number": turn.number,
        "kind": turn.kind,
        "text": turn.text,
        "judge": turn.judge,
        "reason": turn.reason,
        "question": reading.question if reading else "",
        "step": reply.step if reply else "",
    }
