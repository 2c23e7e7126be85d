from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.property.strategies import plans, ready

from plansmith import RunStatus, StepStatus
from plansmith.errors import JournalDamaged
from plansmith.plan import events as e
from plansmith.plan.events import Event, next_event, read_event, verify_chain
from plansmith.plan.fold import fold
from plansmith.plan.plan import Plan

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
    writer.write(e.Triaged(decision="plan"))
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
        writer.write(e.StepStarted(step=step, key=f"k-{step}"))
        outcome = draw(st.sampled_from(["done", "failed", "again", "unknown", "ask", "cancel"]))
        match outcome:
            case "done":
                writer.write(e.StepDone(step=step, result="0" * 64))
                done.add(step)
            case "again":
                writer.write(e.StepFailed(step=step, error="busy", again=True))
            case "ask":
                writer.write(
                    e.QuestionAsked(
                        question=f"q{len(writer.events)}", text="?", step=step, kind="step"
                    )
                )
                gone.add(step)
            case "failed":
                writer.write(e.StepFailed(step=step, error="no"))
                gone.add(step)
            case "unknown":
                writer.write(e.StepUnknown(step=step))
                gone.add(step)
            case _:
                writer.write(e.StepCancelled(step=step))
                gone.add(step)


@given(journals(), st.data())
def test_folding_on_equals_folding_at_once(events: list[Event], data: st.DataObject) -> None:
    cut = data.draw(st.integers(1, len(events)))
    half = fold(events[:cut])
    assert fold(events[cut:], half) == fold(events)
    assert fold([], half) == half


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
