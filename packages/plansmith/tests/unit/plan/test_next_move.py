"""Next move: what a run waits for, or does next, from its state alone."""

from __future__ import annotations

from typing import Any

import pytest

from plansmith.plan.events import QuestionAsked
from plansmith.plan.next_move import (
    AwaitAnswer,
    AwaitReview,
    Conclude,
    Damaged,
    Execute,
    MakePlan,
    Move,
    Over,
    Paused,
    goes_on,
    next_move,
)
from plansmith.plan.plan import Plan
from plansmith.plan.run import Run, RunStatus, StepState, StepStatus
from plansmith.plan.run_options import RunOptions

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
    return run(plan=PLAN, phase=RUNNING, questions=dict(questions), steps=states)


@pytest.mark.parametrize(
    ("given", "move"),
    [
        (run(), MakePlan()),
        (run(questions=ASKED), AwaitAnswer(("q",))),
        (run(plan=PLAN, phase=PLANNING, changing=True), MakePlan(changed=True)),
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
        (run(plan=PLAN, phase=RUNNING, paused=True, cancel_asked=True), Conclude()),
        (run(cancel_asked=True), Conclude()),
        (run(plan=PLAN, phase=RunStatus.REPLANNING), Conclude()),
        (run(phase=RunStatus.DONE), Over(RunStatus.DONE)),
        (run(phase=RUNNING, damage="event 3 is missing"), Damaged("event 3 is missing")),
        # Under way, it waits only when nothing else can be done.
        (under_way(a=StepStatus.READY), Execute()),
        (under_way(a=StepStatus.FAILED), Execute()),
        (under_way(ASKED, a=StepStatus.ASKING), AwaitAnswer(("q",), begun=True)),
        (under_way(a=StepStatus.UNKNOWN), AwaitAnswer(begun=True)),
        (under_way(ASKED, a=StepStatus.ASKING, b=StepStatus.READY), Execute()),
        (under_way(ASKED, a=StepStatus.ASKING, b=StepStatus.WAITING), Execute()),
        (
            under_way(ASKED, a=StepStatus.ASKING, behind_a=StepStatus.WAITING),
            AwaitAnswer(("q",), begun=True),
        ),
        # A disabled step never starts, and nothing waits for it.
        (
            under_way(ASKED, a=StepStatus.ASKING, off=StepStatus.WAITING),
            AwaitAnswer(("q",), begun=True),
        ),
        (under_way(ASKED, a=StepStatus.DONE, behind_off=StepStatus.WAITING), Execute()),
        (under_way(ASKED, a=StepStatus.ASKING, b=StepStatus.RUNNING), Execute()),
        (under_way(ASKED, m=StepStatus.RUNNING, m__0=StepStatus.ASKING), AwaitAnswer(("q",), True)),
        (
            under_way(ASKED, m=StepStatus.RUNNING, m__0=StepStatus.ASKING, m__1=StepStatus.WAITING),
            Execute(),
        ),
        (
            under_way(ASKED, m=StepStatus.RUNNING, m__0=StepStatus.DONE, a=StepStatus.ASKING),
            Execute(),
        ),
    ],
)
def test_the_state_of_a_run_tells_its_next_move(given: Run, move: Move) -> None:
    assert next_move(given) == move


def test_who_executes_a_run_says_when_no_step_can_start() -> None:
    assert next_move(under_way(a=StepStatus.FAILED, b=StepStatus.WAITING), idle=True) == Conclude()
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

    def settled(state: StepState) -> bool:
        looks.append(state)
        return state.status is StepStatus.DONE

    monkeypatch.setattr(StepState, "settled", property(settled))
    assert run(plan=plan, phase=RUNNING, steps=states).can_start == tuple(behind)
    assert len(looks) <= 2 * len(states)  # the index looks at them too


def test_a_plan_that_nobody_started_does_not_go_on_by_itself() -> None:
    planned = run(plan=PLAN, phase=PLANNING)
    assert not goes_on(planned)
    assert goes_on(planned.replace(options=RunOptions(mode="read_only")))
    assert goes_on(run())
    assert goes_on(run(cancel_asked=True))
    assert not goes_on(run(questions=ASKED))
    assert not goes_on(run(phase=RunStatus.DONE))
