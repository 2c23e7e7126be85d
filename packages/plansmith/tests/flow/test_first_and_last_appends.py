"""A run is begun in one append with its first steps, and ended in one with the last step."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from plansmith import Plan, Plansmith, RunStatus, tool
from plansmith.clock import SystemClock
from plansmith.engine.journal import Journal
from plansmith.plan import events as e
from plansmith.plan.data import Content, Json
from plansmith.testing import MemoryStore

ADA = e.Actor(kind="person", name="ada")
STEPS = [
    {"id": "a", "tool": "look"},
    {"id": "b", "tool": "look", "after": ["a"]},
    {"id": "c", "tool": "look", "after": ["b"]},
]
PLAN = Plan.model_validate({"goal": "look", "steps": STEPS})


class MeddlingStore(MemoryStore):
    """Remembers what was appended together; `before` writes first when a type is appended."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[list[str]] = []
        self.before: dict[str, Callable[[str], Awaitable[None]]] = {}

    async def append(
        self, events: Sequence[e.Event], values: Sequence[Any] = (), **options: Any
    ) -> None:
        types = [event.body.type for event in events]
        for name in types:
            if meddle := self.before.pop(name, None):
                await meddle(events[0].run)
        await super().append(events, values, **options)
        self.batches.append(types)

    def writes(self, *bodies: e.AnyBody) -> Callable[[str], Awaitable[None]]:
        """Returns what a person writes from another process."""

        async def write(run: str) -> None:
            await (await Journal.load(run, store=self, clock=SystemClock())).append(*bodies, by=ADA)

        return write


def looking(store: MeddlingStore) -> tuple[Plansmith, list[str]]:
    calls: list[str] = []

    @tool(effect="read")
    async def look() -> str:
        calls.append("look")
        return "seen"

    return Plansmith(tools=[look], store=store), calls


PAUSE, CANCEL = e.RunPaused(reason="lunch"), e.CancelAsked(reason="no")


@pytest.mark.parametrize(
    ("body", "comes_before", "status", "calls_made"),
    [
        (PAUSE, "run_started", RunStatus.PAUSED, 0),
        (CANCEL, "run_started", RunStatus.CANCELLED, 0),
        (CANCEL, "run_finished", RunStatus.CANCELLED, 3),
    ],
)
async def test_what_a_person_writes_before_the_first_or_the_last_append_counts(
    body: e.AnyBody, comes_before: str, status: RunStatus, calls_made: int
) -> None:
    """The run does not begin then, or does not end as it would have."""
    store = MeddlingStore()
    smith, calls = looking(store)
    made = await smith.submit(PLAN)
    store.before[comes_before] = store.writes(body)
    await smith.run(made.id)
    run = await smith.run(made.id)  # whoever looks next ends it
    assert (run.status, len(calls)) == (status, calls_made)
    assert all(step.status == ("done" if calls else step.status) for step in run.steps.values())
    begun = "run_started" in [each for batch in store.batches for each in batch]
    assert begun is (calls_made > 0)


async def test_a_cancel_at_the_moment_at_which_a_run_ends_leaves_it_done() -> None:
    store = MeddlingStore()
    smith, _ = looking(store)
    made = await smith.submit(PLAN)
    cancels: list[asyncio.Task[object]] = []

    async def cancel(run: str) -> None:
        cancels.append(asyncio.create_task(smith.cancel(run, by="ada")))
        await asyncio.sleep(0)  # the executor hears of it while it writes the end

    store.before["run_finished"] = cancel
    run = await smith.run(made.id)
    await asyncio.gather(*cancels)
    assert run.status is RunStatus.DONE
    assert (await smith.get(made.id)).status is RunStatus.DONE


class ReadAtOnce(MemoryStore):
    """Lets the journal read back what it writes, before it hears that it is written."""

    journal: Journal

    async def append(
        self, events: Sequence[e.Event], values: Sequence[Json | Content] = (), **options: Any
    ) -> None:
        await super().append(events, values, **options)
        await self.journal.catch_up()


async def test_a_journal_that_catches_up_while_it_writes_takes_no_event_twice() -> None:
    store = ReadAtOnce()
    store.journal = journal = Journal("r", store=store, clock=SystemClock())
    await journal.append(e.RunCreated(request="x"), by=e.Actor(kind="person"))
    await journal.append(e.RunPaused(reason="so"))
    await journal.append(e.RunResumed())
    assert [event.number for event in journal.events] == [1, 2, 3]
    assert journal.run.last == journal.events[-1]
    assert not journal.run.paused
