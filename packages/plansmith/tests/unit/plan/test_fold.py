from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any, Literal

import pytest
from pydantic import ValidationError

from plansmith import Plan, Run
from plansmith.errors import JournalDamaged
from plansmith.plan import events as e
from plansmith.plan.events import Event, next_event, read_event, verify_chain
from plansmith.plan.fold import fold
from plansmith.plan.question_options import GO_ON
from plansmith.plan.run_options import Origin

PLAN = Plan.model_validate(
    {"steps": [{"id": "a", "tool": "t"}, {"id": "b", "tool": "t", "after": ["a"]}]}
)
PERSON = e.Actor(kind="person", name="ada")
BEGINNING: tuple[e.AnyBody, ...] = (
    e.RunCreated(request="do it", locale="zh"),
    e.Triaged(decision="plan"),
    e.PlanProposed(plan=PLAN),
)
RUNNING: tuple[e.AnyBody, ...] = (*BEGINNING, e.RunStarted(hash=PLAN.hash))


def journal(*bodies: e.AnyBody, by: e.Actor = PERSON) -> list[Event]:
    events: list[Event] = []
    for number, body in enumerate(bodies):
        at = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=number)
        events.append(next_event(body, run="r", by=by, at=at, last=events[-1] if events else None))
    return events


def run(*bodies: e.AnyBody) -> Run:
    return fold(journal(*bodies))


@pytest.mark.parametrize(
    ("bodies", "status"),
    [
        (BEGINNING[:1], "triaging"),
        (BEGINNING[:2], "planning"),
        (BEGINNING, "planning"),
        ((*BEGINNING, e.QuestionAsked(question="q", text="?", kind="request")), "asking"),
        ((*BEGINNING, e.ReviewAsked(hash=PLAN.hash)), "reviewing"),
        (RUNNING, "running"),
        ((*RUNNING, e.RunPaused(reason="budget")), "paused"),
        ((*RUNNING, e.RunPaused(), e.RunResumed()), "running"),
        ((*RUNNING, e.ReplanStarted(cause="failed")), "replanning"),
        ((*RUNNING, e.ReplanStarted(cause="x"), e.PlanProposed(plan=PLAN)), "replanning"),
        ((*RUNNING, e.RunFinished(status="partly_done")), "partly_done"),
        ((*BEGINNING[:2], e.RunFinished(status="answered")), "answered"),
        ((*BEGINNING, e.ReviewAsked(hash=PLAN.hash), e.ChangesAsked(text="no")), "planning"),
    ],
)
def test_the_status_follows_the_events(bodies: tuple[e.AnyBody, ...], status: str) -> None:
    assert run(*bodies).status == status


@pytest.mark.parametrize(
    ("bodies", "why"),
    [
        ((), "at least one event"),
        (BEGINNING[1:], "begins with run_created"),
        ((*BEGINNING, e.RunCreated(request="again")), "begins with run_created"),
        ((*RUNNING, e.RunFinished(status="done"), e.RunPaused()), "the run is over"),
        ((*RUNNING, e.StepDone(step="a", result="h")), "step 'a' is waiting"),
        ((*RUNNING, e.StepStarted(step="z", key="k")), "no step 'z'"),
        ((*RUNNING, e.StepUnknown(step="b")), "step 'b' is waiting"),
        ((*RUNNING, e.StepReset(step="a")), "step 'a' is waiting"),
        ((*RUNNING, e.QuestionAnswered(question="q")), "'q' is not open"),
        (
            (*RUNNING, *[e.QuestionAsked(question="q", text="?", kind="request")] * 2),
            "open already",
        ),
        ((*BEGINNING, e.PlanApproved(hash="f" * 64)), "not the hash of the current plan"),
        ((*BEGINNING[:2], e.RunStarted(hash=PLAN.hash)), "not the hash of the current plan"),
    ],
)
def test_events_that_do_not_fit_are_refused(bodies: tuple[e.AnyBody, ...], why: str) -> None:
    with pytest.raises(JournalDamaged, match=why):
        run(*bodies)


@pytest.mark.parametrize("kind", ["model", "system", "program"])
def test_only_a_person_can_approve(kind: Literal["model", "system", "program"]) -> None:
    with pytest.raises(JournalDamaged, match="cannot approve"):
        fold(journal(*BEGINNING, e.PlanApproved(hash=PLAN.hash), by=e.Actor(kind=kind)))


def test_the_approval_is_bound_to_the_hash() -> None:
    approved = run(*BEGINNING, e.ReviewAsked(hash=PLAN.hash), e.PlanApproved(hash=PLAN.hash))
    assert approved.approved == PLAN.hash
    changed = PLAN.replace(steps=PLAN.steps[:1])
    bodies = (*BEGINNING, e.PlanApproved(hash=PLAN.hash), e.PlanProposed(plan=changed))
    assert run(*bodies).approved != changed.hash


def test_an_event_is_stored_in_utc_whatever_zone_it_came_in() -> None:
    east = timezone(timedelta(hours=8))
    event = next_event(
        e.RunCreated(request="x"), run="r", by=PERSON, at=datetime(2026, 1, 1, 8, tzinfo=east)
    )
    assert event.to_json()["at"] == "2026-01-01T00:00:00.000000Z"
    assert verify_chain([read_event(event.to_json())]) == event


def test_an_event_of_an_unknown_type_is_refused_with_a_hint() -> None:
    stored = journal(*BEGINNING)[0].to_json()
    with pytest.raises(JournalDamaged, match="newer Plansmith"):
        read_event(stored | {"body": {"type": "from_the_future"}})


def lifted(**fields: Any) -> dict[e.LimitName, int]:
    """What a person grants by going on after this question."""
    asked = e.QuestionAsked.from_json({"question": "q", "text": "?"} | fields)
    word = e.QuestionAnswered(question=asked.question, answer=GO_ON)
    return dict(run(*RUNNING, asked, word).grants)


def test_a_limit_is_lifted_by_the_field_whatever_the_name() -> None:
    assert lifted(kind="limit", limit="replans", question="whatever") == {"replans": 1}
    assert lifted(kind="limit", question="shared_budget:2") == {}


@pytest.mark.parametrize("kind", ["step", "call", "request"])
def test_no_question_of_a_plan_lifts_a_limit_by_its_name(kind: str) -> None:
    assert lifted(kind=kind, question="budget:1") == {}
    assert lifted(kind=kind, question="replans:1", step="a") == {}


@pytest.mark.parametrize("wrong", [{"kind": "moon"}, {"kind": "run", "to": "x"}, 7, ["schedule"]])
def test_what_is_no_origin_is_refused(wrong: object) -> None:
    with pytest.raises(ValidationError):
        Origin.model_validate(wrong)
