"""A decision goes on from what was read of a run before, and never from what is no longer true."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from plansmith import Plan, Plansmith, RunStatus, read_plan, tool
from plansmith.errors import JournalDamaged, NotFound, PlansmithError
from plansmith.plan.events import Event
from plansmith.runs.deletion import delete_run
from plansmith.store.sqlite import SqliteStore
from plansmith.testing import MemoryStore


class Counting(MemoryStore):
    """Counts the events that are read."""

    read = 0

    async def events(self, run: str, *, after: int = 0) -> Sequence[Event]:
        found = await super().events(run, after=after)
        self.read += len(found)
        return found


@tool(effect="write")
def order() -> str:
    return "ordered"


def questions(count: int) -> Plan:
    return read_plan({"steps": [{"id": f"q{n}", "question": f"Q{n}?"} for n in range(count)]})


async def test_a_run_that_another_process_deleted_is_not_there(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    async with Plansmith(store=url) as here, Plansmith(store=url) as there:
        run = await here.do(questions(2))
        await there.cancel(run.id, by="bob")
        await delete_run(there.runs.journals, run.id, by="bob")
        with pytest.raises(NotFound):
            await here.answer(run.id, "q0", "yes", by="ada")


async def test_damage_of_what_was_read_before_is_seen_and_nothing_of_it_is_approved_or_run(
    tmp_path: Path,
) -> None:
    path = tmp_path / "runs.db"
    async with Plansmith(store=f"sqlite:///{path}", tools=[order]) as smith:
        run = await smith.submit(read_plan({"steps": [{"id": "a", "tool": "order"}]}))
        assert run.plan is not None
        await smith.pause(run.id, by="ada")
        await smith.resume(run.id, by="ada")
        with closing(sqlite3.connect(path)) as other:
            other.execute(
                "UPDATE events SET body = replace(body, 'order', 'ordeR') WHERE number = 2"
            )
            other.commit()
        assert "event 2" in (await smith.get(run.id)).damage
        with pytest.raises(PlansmithError):
            await smith.decide(run.id, approve=run.plan.hash, by="ada")
        with pytest.raises(JournalDamaged):
            await smith.run(run.id)


async def test_a_journal_whose_end_was_set_aside_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    other = SqliteStore(path)
    async with Plansmith(store=f"sqlite:///{path}") as smith:
        run = await smith.do(questions(2))
        await smith.answer(run.id, "q0", "yes", by="ada")
        events = await other.events(run.id)
        await other.set_aside(run.id, len(events) - 2, ())
        assert "q0" in (await smith.get(run.id)).questions
    await other.close()


async def test_each_of_many_answers_reads_a_few_events_and_not_the_whole_journal() -> None:
    store = Counting()
    smith = Plansmith(store=store)
    run = await smith.do(questions(40))
    for number in range(40):
        before = store.read
        await smith.answer(run.id, f"q{number}", "yes", by="ada")
        # The first one reads what the run wrote since it was created, the others what they wrote.
        assert store.read - before <= (6 if number else 50)
    assert (await smith.run(run.id)).status is RunStatus.DONE
