"""Says messages in conversations for clients, and continues what the messages set off."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Final

from plansmith.errors import PlansmithError
from plansmith.plan.data import Json
from plansmith.plan.events import Actor
from plansmith.plan.next_move import goes_on
from plansmith.plan.sentence import Sentence
from plansmith.plan.thread import ThreadState
from plansmith_planner.threads.thread import Thread
from plansmith_planner.threads.turn import Turn
from plansmith_server.errors import not_found
from plansmith_server.serialize import run_view
from plansmith_server.state import ServerState

NEW: Final = ("", "new")
# Messages of these kinds get their answer at once, and set nothing off.
ANSWERED: Final = ("why", "review")
_LONGEST_ID: Final = 200


async def read_conversation(server_state: ServerState, name: str) -> ThreadState:
    """Returns a conversation, or that of a run; raises 404 if there is none."""
    if len(name) <= _LONGEST_ID and name.isprintable():
        found: ThreadState = await server_state.smith.threads.read(name)
        if found.last or found.runs:
            return found
    raise not_found("conversation", name)


async def open_conversation(
    server_state: ServerState, name: str, *, fixed: bool = False
) -> tuple[ServerState, Thread]:
    """Returns a conversation and the state with the Plansmith that continues it.

    That is the one of its last run's team, unless it is `fixed`.
    """
    thread: Thread = await server_state.smith.thread("" if name in NEW else name)
    if fixed or not thread.runs:
        return server_state, thread
    own = await server_state.for_run(thread.runs[-1])
    return own, thread if own is server_state else await own.smith.thread(thread.id)


async def say(
    server_state: ServerState, thread: Thread, text: str, *, by: Actor, **options: Any
) -> Turn:
    """Says something; its run is planned, changed or continued in the background."""
    turn = await thread.say(text, by=by, plan=False, **options)
    server_state.conversations.look()
    for each in turn.earlier:
        await _carry_on(server_state, each, thread.plan_left)
    await _carry_on(server_state, turn, thread.plan)
    return turn


async def _carry_on(
    server_state: ServerState, turn: Turn, plan: Callable[[Turn], Coroutine[Any, Any, Turn]]
) -> None:
    """Has the run of a message planned, changed or continued in the background."""
    if turn.run is None or turn.kind in ANSWERED:
        return
    if turn.kind == "change":
        await server_state.background.until_journaled(turn.run.id, plan(turn))
    else:
        server_state.background.go_on(turn.run.id)


async def undo(server_state: ServerState, thread: Thread, number: int, *, by: Actor) -> Turn:
    """Takes back what a message was taken for; the run in its place continues."""
    background, message = server_state.background, thread.state.message(number)
    run = message.run if message is not None else ""
    ours = bool(run) and background.knows(run)
    if ours:
        await _halt(server_state, run)
    try:
        turn = await thread.undo(number, by=by, plan=False)
    finally:
        server_state.conversations.look()
        if ours:
            await _go_on(server_state, run)
    if turn.run is not None and turn.run.id != run:
        await server_state.smith.runs.ask_for_review(turn.run.id, Sentence("review.continues"))
        background.go_on(turn.run.id)
    return turn


async def _halt(server_state: ServerState, run_id: str) -> None:
    """Stops the planning of a run that can be read."""
    try:
        await server_state.background.halt_planning(run_id)
    except PlansmithError:
        return  # removed or damaged: `undo` tells what can be done


async def _go_on(server_state: ServerState, run_id: str) -> None:
    try:
        run = (await server_state.smith.runs.journals.load(run_id)).run
    except PlansmithError:
        return  # removed or damaged: nothing continues
    if goes_on(run):
        server_state.background.go_on(run_id)


async def remove(server_state: ServerState, state: ThreadState, *, by: Actor) -> None:
    """Cancels the open runs of a conversation, and removes it with all its runs."""
    for name in state.runs:
        try:
            run = (await server_state.smith.runs.journals.load(name)).run
        except PlansmithError:
            continue  # removed before, or damaged: nothing to cancel
        if not run.status.over:
            await server_state.background.halt_planning(name)
            own = await server_state.for_run(name, acts=False)
            await own.smith.cancel(name, by=by)
    await server_state.smith.threads.delete(state.id, by=by)
    for name in state.runs:
        server_state.open_runs.forget(name)
    server_state.conversations.look()


async def turn_view(server_state: ServerState, thread: Thread, turn: Turn) -> dict[str, Json]:
    """Returns the run of a message, and what the message was taken for."""
    if turn.run is None:
        raise not_found("run of message", str(turn.number))
    own = await server_state.for_run(turn.run.id, acts=False)
    view = await run_view(own.smith, turn.run.id)
    return {**view, "conversation": turn.thread, "message": taken_for(thread, turn)}


def taken_for(thread: Thread, turn: Turn) -> dict[str, Json]:
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
