"""A process that writes to a store until it is killed: `store_writer.py URL MODE NAME COUNT`.

Every line it prints is something the store has acknowledged.
"""

from __future__ import annotations

import asyncio
import os
import sys
from datetime import UTC, datetime

from plansmith.errors import StaleWriter
from plansmith.plan.data import Json, content_of
from plansmith.plan.events import (
    Actor,
    AnyBody,
    Event,
    PlanProposed,
    RunCreated,
    StepDone,
    StepStarted,
    next_event,
)
from plansmith.plan.plan import Plan
from plansmith.store.sqlite import SqliteStore
from plansmith.store.urls import open_store
from plansmith_planner.threads.entries import AnyThreadBody, MessageAdded, MessageRead, ThreadEntry
from plansmith_planner.threads.store import ThreadStore
from plansmith_postgres.store import PostgresStore

RUNS = 12
RACE = 60
Store = SqliteStore | PostgresStore


def say(*words: object) -> None:
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def following(run: str, last: Event | None, *bodies: AnyBody, name: str = "") -> list[Event]:
    events: list[Event] = []
    for body in bodies:
        at, by = datetime.now(UTC), Actor(kind="system", name=name)
        events.append(next_event(body, run=run, by=by, at=at, last=events[-1] if events else last))
    return events


async def write_on(store: Store, run: str) -> None:
    """Steps without end, each a pair of events with its result in one append."""
    stored = await store.events(run)
    last = stored[-1] if stored else None
    if last is None:
        # Parts of one step, as those of a map: as many as there is time for.
        plan = Plan.model_validate({"goal": "go", "steps": [{"id": "s", "tool": "go"}]})
        first = following(run, None, RunCreated(request="go"), PlanProposed(plan=plan))
        await store.append(first)
        last = first[-1]
    while True:
        number = last.number // 2
        result: Json = {"run": run, "step": number, "text": "x" * (number % 300)}
        started = StepStarted(step=f"s/{number}")
        done = StepDone(step=f"s/{number}", result=content_of(result).digest)
        events = following(run, last, started, done)
        await store.append(events, [result])
        last = events[-1]
        say(run, last.number)


async def race(store: Store, name: str) -> None:
    """One event after the other on one run, against others who do the same."""
    while True:
        stored = await store.events("race")
        last = stored[-1] if stored else None
        if last and last.number >= RACE:
            return
        events = following("race", last, RunCreated(request=name), name=name)
        try:
            await store.append(events)
            say("won", events[0].number)
        except StaleWriter:
            continue


async def talk(store: Store, name: str, count: int) -> None:
    """Messages of one thread, each with what it was taken for in one append, against others."""
    threads = ThreadStore(store)
    for turn in range(count):
        done, last = False, 0
        while not done:
            last = len(await threads.thread_entries("trip"))
            by, at = Actor(kind="person", name=name), datetime.now(UTC)
            bodies: tuple[AnyThreadBody, ...] = (
                MessageAdded(text=f"{name} {turn}"),
                MessageRead(message=last + 1, kind="request", run=f"{name}-{turn}"),
            )
            done = await threads.append_entries(
                [
                    ThreadEntry(thread="trip", number=number, at=at, by=by, body=body)
                    for number, body in enumerate(bodies, start=last + 1)
                ]
            )
        say(last + 1, turn)


async def main(url: str, mode: str, name: str = "", count: str = "0") -> None:
    store = open_store(url)
    assert isinstance(store, SqliteStore | PostgresStore)
    if mode == "write":
        await asyncio.gather(*(write_on(store, f"run-{number}") for number in range(RUNS)))
    elif mode == "race":
        await race(store, name)
    else:
        await talk(store, name, int(count))
    await store.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
