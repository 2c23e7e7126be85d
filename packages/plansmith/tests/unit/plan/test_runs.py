"""What a run is by its journal alone: its state, its options, and what it does next."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any, Literal
from uuid import UUID

import pytest
from pydantic import ValidationError

from plansmith import Plan, Run
from plansmith.errors import JournalDamaged, Misconfigured
from plansmith.plan import events as e
from plansmith.plan.events import Event, QuestionAsked, next_event, read_event, verify_chain
from plansmith.plan.fold import fold
from plansmith.plan.ids import Ids, uuid7
from plansmith.plan.next_move import (
    AwaitAnswer,
    AwaitReview,
    Damaged,
    EndOrReplan,
    Execute,
    MakePlan,
    Move,
    Over,
    Paused,
    goes_on,
    next_move,
)
from plansmith.plan.planning import Decision
from plansmith.plan.question_options import GO_ON
from plansmith.plan.run import RunStatus, Steps, StepState, StepStatus
from plansmith.plan.run_options import Origin, RunOptions, read_options


def test_an_id_is_a_version_7_uuid_of_its_time() -> None:
    made = UUID(uuid7(0x0123456789AB, (1 << 74) - 1))
    assert (made.version, made.variant) == (7, "specified in RFC 4122")
    assert made.int >> 80 == 0x0123456789AB


def test_ids_rise_within_one_millisecond_and_when_the_clock_steps_back() -> None:
    times = iter([5, 5, 5, 3, 4, 6] * 2)
    most = (1 << 74) - 2  # the second of a millisecond has no more room
    for ids in (
        Ids(milliseconds=lambda: next(times), randomness=lambda bits: (1 << bits) - 1),
        Ids(milliseconds=lambda: 5, randomness=lambda _: most),
    ):
        made = [ids() for _ in range(6)]
        assert made == sorted(set(made))


@pytest.mark.parametrize(
    ("given_", "place"),
    [
        ({"mode": "at_once"}, "mode"),
        ({"budget": {"mony": 1}}, "budget.mony"),
        ({"budget": {"money": "much"}}, "budget.money"),
        ({"budget": {"money": "NaN"}}, "budget.money"),
        ({"budget": {"tokens": -5}}, r"budget.tokens must be at least 1 \(got -5\)"),
        ({"budget": {"money": 0}}, r"budget.money must be more than 0 \(got 0\)"),
        ({"budget": {"seconds": 0}}, "budget.seconds must be more than 0"),
        ({"history": [["user"]]}, "history"),
        ({"top_k": "3"}, "top_k"),
        ({"colour": "red"}, "colour"),
        ({"team": {"name": "moon"}}, "team.name"),
    ],
)
def test_an_option_that_cannot_be_is_refused_by_its_name(
    given_: dict[str, Any], place: str
) -> None:
    with pytest.raises(Misconfigured, match=place):
        read_options(given_)


TWO_STEPS = Plan.model_validate(
    {"steps": [{"id": "a", "tool": "t"}, {"id": "b", "tool": "t", "after": ["a"]}]}
)
PERSON = e.Actor(kind="person", name="ada")
BEGINNING: tuple[e.AnyBody, ...] = (
    e.RunCreated(request="do it", locale="zh"),
    e.Triaged(decision=Decision.PLAN),
    e.PlanProposed(plan=TWO_STEPS),
)
STARTED: tuple[e.AnyBody, ...] = (*BEGINNING, e.RunStarted(hash=TWO_STEPS.hash))


def journal(*bodies: e.AnyBody, by: e.Actor = PERSON) -> list[Event]:
    events: list[Event] = []
    for number, body in enumerate(bodies):
        at = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=number)
        events.append(next_event(body, run="r", by=by, at=at, last=events[-1] if events else None))
    return events


def folded(*bodies: e.AnyBody) -> Run:
    return fold(journal(*bodies))


@pytest.mark.parametrize(
    ("bodies", "status"),
    [
        (BEGINNING[:1], "triaging"),
        (BEGINNING[:2], "planning"),
        (BEGINNING, "planning"),
        ((*BEGINNING, e.QuestionAsked(question="q", text="?", kind="request")), "asking"),
        ((*BEGINNING, e.ReviewAsked(hash=TWO_STEPS.hash)), "reviewing"),
        (STARTED, "running"),
        ((*STARTED, e.RunPaused(reason="budget")), "paused"),
        ((*STARTED, e.RunPaused(), e.RunResumed()), "running"),
        ((*STARTED, e.ReplanStarted(cause="failed")), "replanning"),
        ((*STARTED, e.ReplanStarted(cause="x"), e.PlanProposed(plan=TWO_STEPS)), "replanning"),
        ((*STARTED, e.RunFinished(status="partly_done")), "partly_done"),
        ((*BEGINNING[:2], e.RunFinished(status="answered")), "answered"),
        ((*BEGINNING, e.ReviewAsked(hash=TWO_STEPS.hash), e.ChangesAsked(text="no")), "planning"),
    ],
)
def test_the_status_follows_the_events(bodies: tuple[e.AnyBody, ...], status: str) -> None:
    assert folded(*bodies).status == status


@pytest.mark.parametrize(
    ("bodies", "why"),
    [
        ((), "at least one event"),
        (BEGINNING[1:], "begins with run_created"),
        ((*BEGINNING, e.RunCreated(request="again")), "begins with run_created"),
        ((*STARTED, e.RunFinished(status="done"), e.RunPaused()), "the run is over"),
        ((*STARTED, e.StepDone(step="a", result="h")), "step 'a' is waiting"),
        ((*STARTED, e.StepStarted(step="z")), "no step 'z'"),
        ((*STARTED, e.StepUnknown(step="b")), "step 'b' is waiting"),
        ((*STARTED, e.StepReset(step="a")), "step 'a' is waiting"),
        ((*STARTED, e.QuestionAnswered(question="q")), "'q' is not open"),
        (
            (*STARTED, *[e.QuestionAsked(question="q", text="?", kind="request")] * 2),
            "open already",
        ),
        ((*BEGINNING, e.PlanApproved(hash="f" * 64)), "not the hash of the current plan"),
        ((*BEGINNING[:2], e.RunStarted(hash=TWO_STEPS.hash)), "not the hash of the current plan"),
    ],
)
def test_events_that_do_not_fit_are_refused(bodies: tuple[e.AnyBody, ...], why: str) -> None:
    with pytest.raises(JournalDamaged, match=why):
        folded(*bodies)


@pytest.mark.parametrize("kind", ["model", "system", "program"])
def test_only_a_person_can_approve(kind: Literal["model", "system", "program"]) -> None:
    with pytest.raises(JournalDamaged, match="cannot approve"):
        fold(journal(*BEGINNING, e.PlanApproved(hash=TWO_STEPS.hash), by=e.Actor(kind=kind)))


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
    return dict(folded(*STARTED, asked, word).grants)


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


STEPS: list[dict[str, Any]] = [
    {"id": "a", "tool": "t"},
    {"id": "b", "tool": "t"},
    {"id": "behind_a", "tool": "t", "after": ["a"]},
    {"id": "off", "tool": "t", "disabled": True},
    {"id": "behind_off", "tool": "t", "after": ["a", "off"]},
]
PLAN = Plan.model_validate({"goal": "g", "steps": [{"kind": "tool", **each} for each in STEPS]})
ASKED = {"q": QuestionAsked(question="q", text="which?", kind="request")}
PLANNING, REVIEWING, RUNNING = RunStatus.PLANNING, RunStatus.REVIEWING, RunStatus.RUNNING


def run(**fields: Any) -> Run:
    return Run(id="r", **fields)


def under_way(questions: Any = (), **steps: StepStatus) -> Run:
    states = {name.replace("__", "/"): StepState(status=each) for name, each in steps.items()}
    return run(plan=PLAN, phase=RUNNING, questions=dict(questions), steps=Steps(states))


S = StepStatus


@pytest.mark.parametrize(
    ("given", "move"),
    [
        (run(), MakePlan()),
        (run(questions=ASKED), AwaitAnswer(("q",))),
        (run(plan=PLAN, phase=PLANNING, change_asked=True), MakePlan(changed=True)),
        (run(plan=PLAN, phase=PLANNING), Execute(begun=False, needs_start=True)),
        (
            run(plan=PLAN, phase=PLANNING, options=RunOptions(mode="read_only")),
            Execute(begun=False),
        ),
        (run(plan=PLAN, phase=PLANNING, options=RunOptions(mode="review")), AwaitReview(PLAN.hash)),
        (run(plan=PLAN, phase=REVIEWING), AwaitReview(PLAN.hash)),
        (run(plan=PLAN, phase=REVIEWING, questions=ASKED), AwaitAnswer(("q",))),
        (run(plan=PLAN, phase=REVIEWING, approved=PLAN.hash), Execute(begun=False)),
        (run(plan=PLAN, phase=REVIEWING, approved="another"), AwaitReview(PLAN.hash)),
        (run(plan=PLAN, phase=RUNNING, paused=True), Paused()),
        (run(plan=PLAN, phase=RUNNING, paused=True, questions=ASKED), Paused(("q",))),
        (run(plan=PLAN, phase=RUNNING, paused=True, cancel_asked=True), EndOrReplan()),
        (run(cancel_asked=True), EndOrReplan()),
        (run(plan=PLAN, phase=RunStatus.REPLANNING), EndOrReplan()),
        (run(phase=RunStatus.DONE), Over(RunStatus.DONE)),
        (run(phase=RUNNING, damage="event 3 is missing"), Damaged("event 3 is missing")),
        # Under way, it waits only when nothing else can be done.
        (under_way(a=S.READY), Execute()),
        (under_way(a=S.FAILED), Execute()),
        (under_way(ASKED, a=S.ASKING), AwaitAnswer(("q",), begun=True)),
        (under_way(a=S.UNKNOWN), AwaitAnswer(begun=True)),
        (under_way(ASKED, a=S.ASKING, b=S.READY), Execute()),
        (under_way(ASKED, a=S.ASKING, b=S.WAITING), Execute()),
        (under_way(ASKED, a=S.ASKING, behind_a=S.WAITING), AwaitAnswer(("q",), begun=True)),
        # A disabled step never starts, and nothing waits for it.
        (under_way(ASKED, a=S.ASKING, off=S.WAITING), AwaitAnswer(("q",), begun=True)),
        (under_way(ASKED, a=S.DONE, behind_off=S.WAITING), Execute()),
        (under_way(ASKED, a=S.ASKING, b=S.RUNNING), Execute()),
        (under_way(ASKED, m=S.RUNNING, m__0=S.ASKING), AwaitAnswer(("q",), True)),
        (under_way(ASKED, m=S.RUNNING, m__0=S.ASKING, m__1=S.WAITING), Execute()),
        (under_way(ASKED, m=S.RUNNING, m__0=S.DONE, a=S.ASKING), Execute()),
    ],
)
def test_the_state_of_a_run_tells_its_next_move(given: Run, move: Move) -> None:
    assert next_move(given) == move


def test_who_executes_a_run_says_when_no_step_can_start() -> None:
    stuck = under_way(a=StepStatus.FAILED, b=StepStatus.WAITING)
    assert next_move(stuck, idle=True) == EndOrReplan()
    asking = under_way(ASKED, a=StepStatus.ASKING, b=StepStatus.READY)
    assert next_move(asking, idle=True) == AwaitAnswer(("q",), begun=True)


def test_what_can_start_takes_one_look_at_each_step(monkeypatch: pytest.MonkeyPatch) -> None:
    first, behind = [f"a{number}" for number in range(20)], [f"b{number}" for number in range(20)]
    steps: list[dict[str, Any]] = [{"kind": "tool", "id": name, "tool": "t"} for name in first]
    steps += [{"kind": "tool", "id": name, "tool": "t", "after": first} for name in behind]
    done = dict.fromkeys(first, StepState(StepStatus.DONE))
    states = done | dict.fromkeys(behind, StepState(StepStatus.WAITING))
    plan = Plan.model_validate({"goal": "g", "steps": steps})
    looks: list[StepState] = []

    def counts_as_done(state: StepState) -> bool:
        looks.append(state)
        return state.status is StepStatus.DONE

    monkeypatch.setattr(StepState, "counts_as_done", property(counts_as_done))
    assert run(plan=plan, phase=RUNNING, steps=Steps(states)).startable_steps == tuple(behind)
    assert len(looks) <= 2 * len(states)  # the index looks at them too


def test_a_plan_that_nobody_started_does_not_go_on_by_itself() -> None:
    planned = run(plan=PLAN, phase=PLANNING)
    assert not goes_on(planned)
    assert goes_on(planned.replace(options=RunOptions(mode="read_only")))
    assert goes_on(run())
    assert goes_on(run(cancel_asked=True))
    assert not goes_on(run(questions=ASKED))
    assert not goes_on(run(phase=RunStatus.DONE))
