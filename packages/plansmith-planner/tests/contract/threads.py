"""A thread with every kind of entry, for tests of stores."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from plansmith.plan.events import Actor
from plansmith_planner.threads.entries import (
    AnyThreadBody,
    MessageAdded,
    MessageRead,
    MessageUndone,
    ReplyGiven,
    ThreadEntry,
    ThreadOpened,
    ThreadSummarised,
)

_START = datetime(2026, 1, 1, tzinfo=UTC)
_PERSON = Actor(kind="person", name="ann")


def entry(thread: str, number: int, body: AnyThreadBody, *, minute: int = 0) -> ThreadEntry:
    """Returns one entry of a thread, said by a person at a minute."""
    at = _START + timedelta(minutes=minute, microseconds=number)
    return ThreadEntry(thread=thread, number=number, at=at, by=_PERSON, body=body)


def story(thread: str, *, owner: str = "ann", minute: int = 0) -> list[ThreadEntry]:
    """Returns a thread with every kind of entry; its runs are named after it."""
    run, later = f"{thread}-run", f"{thread}-later"
    bodies: Sequence[AnyThreadBody] = (
        ThreadOpened(owner=owner, folder="/srv/ann/旅行"),
        MessageAdded(text="Where is it warm?\n“暖” ✓", key="k1"),
        MessageRead(message=2, kind="request", run=run),
        MessageAdded(text="Rome"),
        MessageRead(message=4, kind="answer", run=run, question="q1", value={"city": ["Rome"]}),
        MessageUndone(message=4, run=later),
        ReplyGiven(message=4, text="because it is warm", run=run, step="look"),
        ThreadSummarised(upto=4, text="They want to go where it is warm.", tokens=7),
    )
    return [entry(thread, at, body, minute=minute) for at, body in enumerate(bodies, start=1)]
