"""A process that writes to one thread until it is killed: `python -m ... URL THREAD NAME COUNT`.

Every line that it prints is the number of an entry that the store has acknowledged.
"""

from __future__ import annotations

import asyncio
import sys
from datetime import UTC, datetime

from plansmith.plan.events import Actor
from plansmith.plan.thread import AnyThreadBody, MessageAdded, MessageRead, ThreadEntry
from plansmith.store.urls import open_store
from plansmith_planner.threads.store import ThreadStore


async def main(url: str, thread: str, name: str, count: int) -> None:
    """Says a message and what it was taken for in one append, and begins again if it lost."""
    store = open_store(url)
    threads = ThreadStore(store)
    for turn in range(count):
        done, last = False, 0
        while not done:
            last = len(await threads.thread_entries(thread))
            by, at = Actor(kind="person", name=name), datetime.now(UTC)
            bodies: tuple[AnyThreadBody, ...] = (
                MessageAdded(text=f"{name} {turn}"),
                MessageRead(message=last + 1, kind="request", run=f"{name}-{turn}"),
            )
            done = await threads.append_entries(
                [
                    ThreadEntry(thread=thread, number=number, at=at, by=by, body=body)
                    for number, body in enumerate(bodies, start=last + 1)
                ]
            )
        sys.stdout.write(f"{last + 1} {turn}\n")
        sys.stdout.flush()
    await store.close()


if __name__ == "__main__":
    address, thread_id, person, turns = sys.argv[1:]
    asyncio.run(main(address, thread_id, person, int(turns)))
