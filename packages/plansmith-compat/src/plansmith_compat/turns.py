"""Messages of conversations in systems where the next one answers whatever was asked."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from plansmith.runs.intake import NewRun
from plansmith_planner.threads.entries import MessageRead, ThreadMessage

if TYPE_CHECKING:
    from plansmith.app import Plansmith
    from plansmith.plan.data import Json
    from plansmith.plan.run import Run
    from plansmith_planner.threads.thread import Thread


async def plan_message(
    smith: Plansmith, text: str, *, thread_id: str = "", by: str = "", **options: Any
) -> Run:
    """Returns the run whose question a message answers, or else a new one; with its plan.

    Without the id of a conversation it is a request that stands alone.
    """
    if not thread_id:
        return await smith.plan(text, by=by, **options)
    thread: Thread = await smith.thread(thread_id)
    reading = await thread.in_turn(text, by=by)
    return await _record(thread, text, reading, by=by, **options)


async def begin(
    smith: Plansmith,
    thread_id: str,
    text: str,
    new: NewRun,
    *,
    dialect: str = "",
    triaged: bool = False,
) -> Run:
    """Keeps a message as a request, and creates this run for it, planned if it has no plan yet.

    `new.request` is the request that the message was made into.
    """

    async def make(message: ThreadMessage) -> Run:
        options = message.options.replace(thread=thread.id, message=message.number)
        made = await smith.runs.create(replace(new, options=options, run_id=message.run))
        return await smith.runs.journals.whole(made)

    thread: Thread = await smith.thread(thread_id)
    reading, by = MessageRead("request"), new.by
    turn = await thread.record(text, reading, by=by, make=make, dialect=dialect, origin=new.origin)
    if new.plan is None:
        turn = await thread.plan(turn, triaged=triaged)
    assert turn.run is not None  # noqa: S101 - it was created with the message
    return turn.run


async def answer(smith: Plansmith, run: Run, question: str, value: Json, *, by: str = "") -> Run:
    """Answers a question of a run; in a conversation, words are a message of it."""
    if not run.options.thread or not isinstance(value, str) or not value.strip():
        return await smith.answer(run.id, question, value, by=by)
    thread: Thread = await smith.thread(run.options.thread)
    return await _record(thread, value, MessageRead("answer", run.id, question, value), by=by)


async def change(smith: Plansmith, run: Run, words: str, *, by: str = "") -> Run:
    """Has a plan changed as the words say; in a conversation, they are a message of it."""
    if not run.options.thread:
        return await smith.request_changes(run.id, words, by=by)
    thread: Thread = await smith.thread(run.options.thread)
    return await _record(thread, words, MessageRead("change", run.id), by=by)


async def _record(
    thread: Thread, text: str, reading: MessageRead, *, by: str, **options: Any
) -> Run:
    turn = await thread.plan(await thread.record(text, reading, by=by, **options))
    assert turn.run is not None  # noqa: S101 - only a reply that is given with a message has none
    return turn.run
