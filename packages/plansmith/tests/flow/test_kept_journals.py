"""A decision goes on from what was read of a run before, and never from what is no longer true."""

from __future__ import annotations

import pickle
import sqlite3
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from plansmith import Plan, Plansmith, RunStatus, read_plan, tool
from plansmith.errors import JournalDamaged, NotFound, PlansmithError
from plansmith.plan.data import Json, content_of
from plansmith.plan.events import Event
from plansmith.plan.fold import fold
from plansmith.runs.deletion import delete_run
from plansmith.store.sqlite import SqliteStore
from plansmith.testing import MemoryStore


class Counting(MemoryStore):
    """Counts the events and values that are read."""

    read = values = 0

    async def get(self, digest: str) -> Json:
        self.values += 1
        return await super().get(digest)

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
        before, values = store.read, store.values
        run = await smith.answer(run.id, f"q{number}", f"yes {number}", by="ada")
        # The first one reads what the run wrote since it was created, the others what they wrote.
        assert store.read - before <= (6 if number else 50)
        assert store.values - values <= 1
    assert [each.result for each in run.steps.values()] == [f"yes {n}" for n in range(40)]
    assert (await smith.run(run.id)).status is RunStatus.DONE


async def test_an_answer_is_as_much_work_with_many_steps_as_with_few() -> None:
    async def work(count: int) -> int:
        done = 0

        def trace(frame: FrameType, event: str, _: object) -> Any:
            nonlocal done
            frame.f_trace_opcodes = "plansmith" in frame.f_code.co_filename
            done += event == "opcode"
            return trace

        smith, before = Plansmith(store=MemoryStore()), sys.gettrace()
        run = await smith.do(questions(count))
        await smith.answer(run.id, "q0", "yes", by="ada")
        sys.settrace(trace)
        try:
            await smith.answer(run.id, "q1", "yes", by="ada")
        finally:
            sys.settrace(before)
        return done

    assert await work(320) < 1.1 * await work(20)


async def test_a_result_that_its_reader_changed_is_read_anew() -> None:
    smith = Plansmith(store=MemoryStore())
    run = await smith.do(questions(2))
    run = await smith.answer(run.id, "q0", {"rows": [1]}, by="ada")
    run.steps["q0"].result["rows"].append(2)  # type: ignore[index, union-attr, call-overload]
    run = await smith.answer(run.id, "q1", "yes", by="ada")
    assert run.result("q0") == {"rows": [1]}


async def test_what_another_process_wrote_counts(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    async with Plansmith(store=url) as here, Plansmith(store=url) as there:
        run = await here.do(questions(3))
        await here.answer(run.id, "q0", "yes", by="ada")
        await there.answer(run.id, "q1", "no", by="bob")
        run = await here.answer(run.id, "q2", "yes", by="ada")
        assert [run.steps[name].result for name in ("q0", "q1", "q2")] == ["yes", "no", "yes"]


async def test_a_report_has_the_results_that_were_kept_and_a_copied_run_folds_the_same() -> None:
    smith = Plansmith(store=MemoryStore())
    run = await smith.do(questions(2))
    run = await smith.answer(run.id, "q0", "forty-two", by="ada")
    events = await smith.store.events(run.id)
    for number, event in enumerate(events[1:], start=1):
        before = fold(events[:number])
        copied = pickle.loads(pickle.dumps(before))
        assert fold([event], copied) == fold([event], before)
    run = await smith.cancel(run.id, by="ada")
    assert "forty-two" in run.report
    assert run.report == (await smith.get(run.id)).report


async def test_a_value_is_stored_without_an_event_too() -> None:
    store, value = MemoryStore(), content_of({"rows": [1]})
    await store.append((), [value])
    assert await store.get(value.digest) == {"rows": [1]}
