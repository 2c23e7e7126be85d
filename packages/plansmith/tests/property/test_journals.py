"""Journals of random runs: their chain, their fold, and the summaries stored with their events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.property.strategies import plans, ready
from tests.property.test_running import MortalStore, stories, tell

from plansmith import RunStatus, StepStatus
from plansmith.clock import SystemClock
from plansmith.engine.journal import Journal
from plansmith.errors import JournalDamaged
from plansmith.plan import events as e
from plansmith.plan.data import Content, Json
from plansmith.plan.events import Event, next_event, read_event, verify_chain
from plansmith.plan.fold import fold
from plansmith.plan.plan import Plan
from plansmith.plan.planning import Decision
from plansmith.plan.run import Run, Steps
from plansmith.plan.summary import Headline, summary_of
from plansmith.ports import Store
from plansmith.store.sqlite import SqliteStore

START = datetime(2026, 3, 29, 1, 59, tzinfo=UTC)
PERSON = e.Actor(kind="person", name="ada")
SYSTEM = e.Actor(kind="system")


class Writer:
    """Writes a journal, one body after the other."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def write(self, body: e.AnyBody, by: e.Actor = SYSTEM) -> None:
        last = self.events[-1] if self.events else None
        at = START + timedelta(seconds=len(self.events))
        self.events.append(next_event(body, run="r", by=by, at=at, last=last))


@st.composite
def journals(draw: st.DrawFn) -> list[Event]:
    """The journal of a run that plans, reviews, runs its steps somehow and may end."""
    plan = draw(plans())
    writer = Writer()
    writer.write(e.RunCreated(request="do it"), PERSON)
    writer.write(e.Triaged(decision=Decision.PLAN))
    writer.write(e.PlanProposed(plan=plan))
    writer.write(e.ReviewAsked(hash=plan.hash))
    writer.write(e.PlanApproved(hash=plan.hash), PERSON)
    writer.write(e.RunStarted(hash=plan.hash))
    _run_steps(draw, writer, plan)
    if draw(st.booleans()):
        writer.write(e.RunFinished(status=draw(st.sampled_from(["done", "failed", "cancelled"]))))
    return writer.events


def _run_steps(draw: st.DrawFn, writer: Writer, plan: Plan) -> None:
    graph, done, gone = plan.needs, set[str](), set[str]()
    for _ in range(draw(st.integers(0, 12))):
        now = ready(graph, done, gone)
        if not now:
            return
        step = draw(st.sampled_from(now))
        writer.write(e.StepStarted(step=step))
        asked = e.QuestionAsked(question=f"q{len(writer.events)}", text="?", step=step, kind="step")
        over = e.StepDone(step=step, result="0" * 64)
        outcomes: Mapping[str, list[e.AnyBody]] = {
            "done": [over],
            "reset": [over, e.StepReset(step=step)],
            "again": [e.StepFailed(step=step, error="busy", again=True)],
            "ask": [asked],
            "failed": [e.StepFailed(step=step, error="no")],
            "unknown": [e.StepUnknown(step=step)],
            "cancel": [e.StepCancelled(step=step)],
        }
        outcome = draw(st.sampled_from([*outcomes]))
        for body in outcomes[outcome]:
            writer.write(body)
        done |= {step} if outcome == "done" else set()
        gone |= {step} if outcome not in ("done", "reset", "again") else set()


@given(journals(), st.data())
def test_folding_on_equals_folding_at_once(events: list[Event], data: st.DataObject) -> None:
    cut = data.draw(st.integers(1, len(events)))
    half = fold(events[:cut])
    assert fold(events[cut:], half) == fold(events)
    assert fold([], half) == half


@given(journals())
def test_what_is_kept_about_all_steps_is_what_counting_them_gives(events: list[Event]) -> None:
    run = fold(events[:1])
    for event in events[1:]:
        kept = run.steps.index  # from now on it goes along
        run = fold([event], run)
        kept, counted = run.steps.index, Steps({**run.steps}).index
        assert kept.unread == counted.unread
        for status in StepStatus:
            assert sorted(kept.names(status)) == sorted(counted.names(status))
    assert run == fold(events)


@given(journals())
def test_events_survive_json(events: list[Event]) -> None:
    assert [read_event(event.to_json()) for event in events] == events
    assert verify_chain(events) == events[-1]


@given(journals(), st.data())
def test_any_altered_or_missing_event_breaks_the_chain(
    events: list[Event], data: st.DataObject
) -> None:
    place = data.draw(st.integers(0, len(events) - 2))
    event = events[place]
    forged = event.replace(by=e.Actor(kind="person", name="mallory"))
    with pytest.raises(JournalDamaged):
        verify_chain([*events[:place], forged, *events[place + 1 :]])
    with pytest.raises(JournalDamaged):
        verify_chain([*events[:place], *events[place + 1 :]])


@given(journals(), st.data())
def test_a_step_is_ready_exactly_when_its_needs_are_done(
    events: list[Event], data: st.DataObject
) -> None:
    run = fold(events[: data.draw(st.integers(6, len(events)))])
    assert run.plan is not None
    assume(run.phase is RunStatus.RUNNING)
    graph = run.plan.needs
    done = {name for name, step in run.steps.items() if step.status is StepStatus.DONE}
    for name, step in run.steps.items():
        if step.status is StepStatus.READY:
            assert graph[name] <= done
        if step.status is StepStatus.WAITING:
            assert not graph[name] <= done


async def need_true(store: Store, headline: Headline, events: Sequence[Event]) -> None:
    """What a store tells of a run is what its events say."""
    run = fold(events)
    assert headline.status == run.status
    assert headline.last == len(events)
    assert headline.summary is None or headline.summary == summary_of(run)
    if headline.summary is None:
        assert headline.status == RunStatus.RUNNING
        return
    assert headline.summary.working == is_working(run)
    assert (headline.summary.tokens, headline.summary.money) == (run.tokens, run.money)
    assert headline.summary.questions == tuple(run.questions)
    assert sum(map(len, headline.summary.calls.values())) <= len(run.steps)


def is_working(run: Run) -> bool:
    unplanned = run.plan is None and not run.questions and not run.paused
    return not run.status.over and bool(run.calls_open or unplanned)


class Watched(MortalStore):
    """Compares after every append what is told of the run with its journal."""

    async def append(
        self, events: Sequence[Event], values: Sequence[Json | Content] = (), **options: Any
    ) -> None:
        await super().append(events, values, **options)
        [headline] = await self.headlines(limit=1)
        await need_true(self, headline, await self.events(headline.run))


@given(stories())
async def test_after_every_append_a_run_is_told_as_its_journal_says(story: dict[str, Any]) -> None:
    _, store, run, _ = await tell(story, Watched())
    [headline] = await store.headlines(limit=1)
    assert headline.summary is not None
    assert headline.status == run.status


@given(stories())
@settings(max_examples=15)
async def test_a_summary_in_a_file_is_that_of_the_journal_after_a_restart(
    story: dict[str, Any],
) -> None:
    _, source, run, _ = await tell(story)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "store.db"
        store = SqliteStore(path, synchronous="normal")
        journal = Journal(run.id, store=store, clock=SystemClock())
        for event in await source.events(run.id):
            await journal.append((event.body, event.by), at=event.at)
        await store.close()
        store = SqliteStore(path)
        [headline] = await store.headlines(limit=1)
        await need_true(store, headline, await store.events(run.id))
        assert headline.summary == summary_of(run)
        assert await store.open_runs() == []
        await store.close()
