"""Writes the journal of this release: runs that between them hold every kind of event there is.

    python tests/replay/write_journal.py tests/replay/journal-0.1.jsonl

A journal that is there stays as it is: later releases must read what earlier ones wrote.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from plansmith import Plan
from plansmith.plan import events as e
from plansmith.plan.events import (
    Actor,
    AnyBody,
    Event,
    PlanningFailed,
    PrefetchEnded,
    PrefetchStarted,
    next_event,
)
from plansmith.plan.limits import BudgetLimits
from plansmith.plan.planning import Estimate, Measured, PickedTool, PlanningFigures
from plansmith.plan.problem import problem
from plansmith.plan.run_options import EarlierMessage, Origin, Profile, RunOptions, Team

START = datetime(2026, 1, 1, 12, 0, 0, 123456, tzinfo=UTC)
ADA, SYSTEM = Actor(kind="person", name="ada"), Actor(kind="system")
DIGEST = "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
PLAN = Plan.model_validate(
    {
        "id": "p",
        "goal": "Compare Oslo and Rome 比较",
        "locale": "en",
        "thought": "first look, then tell",
        "assumptions": ["today"],
        "steps": [
            {"id": "a", "tool": "weather", "inputs": {"city": "Oslo", "deep": [1, {"x": None}]}},
            {"id": "b", "agent": "researcher", "task": "Find {{a.t}}", "timeout_s": 30.0},
            {"id": "q", "question": "Which?", "options": ["x", "y"]},
            {"id": "m0", "tool": "weather", "inputs": {"city": "{{q}}"}},
            {"id": "m", "over": "{{a.list}}", "each": {"tool": "weather", "inputs": {}}},
            {"id": "t", "template": "inner", "version": 2, "inputs": {"n": 1}},
            {"id": "off", "tool": "weather", "disabled": True},
            {"id": "r", "instruction": "Tell {{a}} and {{b}}", "after": ["m"]},
        ],
    }
)
REVISED = PLAN.replace(revision=2, goal="Compare them")


def started(step: str, **fields: Any) -> e.StepStarted:
    return e.StepStarted(step=step, key=f"k/{step}", inputs=DIGEST, **fields)


def done(step: str, **fields: Any) -> e.StepDone:
    return e.StepDone(step=step, result=DIGEST, **fields)


def whole_story() -> Iterator[tuple[AnyBody, Actor]]:
    """A run that was planned, changed, approved, disturbed in every way, and finished."""
    options = RunOptions(
        locale="en",
        history=(EarlierMessage("user", "hello"),),
        profile=Profile(role="clerk", goals=("less",)),
        budget=BudgetLimits(money=Decimal("0.50"), seconds=60),
        team=Team(name="data", database="sqlite:///shop.db"),
    )
    origin = Origin(kind="run", id="other", event=3)
    yield e.RunCreated(request="Compare the weather", options=options, origin=origin), ADA
    yield e.Triaged(decision="ask", reason="vague", tokens=12, cost="0.001"), SYSTEM
    yield e.QuestionAsked(question="request:1", text="Which cities?", kind="request"), SYSTEM
    yield e.QuestionAnswered(question="request:1", answer="Oslo and Rome"), ADA
    yield PrefetchStarted(key="early/1", tool="weather", inputs=DIGEST), SYSTEM
    yield PrefetchEnded(key="early/1", result=DIGEST, seconds=0.25, tokens=2), SYSTEM
    yield e.Triaged(decision="plan", reason="work", query="weather"), SYSTEM
    estimate = Estimate(
        seconds=3.5, tokens=10, effects={"read": 1}, measured={"weather": Measured(seconds=0.5)}
    )
    note = problem("PS205", "coerced", hint="nothing", step="a", path=("inputs", "city"))
    yield (
        e.PlanProposed(
            plan=PLAN,
            problems=(note,),
            estimate=estimate,
            metrics=PlanningFigures(parsed=True, seconds={"draft": 0.25}),
            picks=(PickedTool(name="weather", reason="fits"),),
            tokens=100,
            cost="0.01",
        ),
        SYSTEM,
    )
    yield e.ReviewAsked(hash=PLAN.hash, reasons=("b changes something",)), SYSTEM
    yield e.ChangesAsked(text="shorter"), ADA
    yield e.PlanProposed(plan=REVISED, origin="person", cause="shorter"), ADA
    yield e.ReviewAsked(hash=REVISED.hash), SYSTEM
    yield e.PlanApproved(hash=REVISED.hash), ADA
    yield e.RunStarted(hash=REVISED.hash), SYSTEM
    yield from _steps()
    yield e.ReplanStarted(cause="failed: t", kind="failure"), SYSTEM
    again = REVISED.replace(revision=3)
    yield e.PlanProposed(plan=again, cause="failed: t"), SYSTEM
    yield e.StepReset(step="t", reason="the plan was revised"), SYSTEM
    yield e.RunStarted(hash=again.hash, reason="nothing new is touched"), SYSTEM
    yield e.StepSkipped(step="t", reason="the goal is met already"), SYSTEM
    yield e.StepSkipped(step="off", reason="switched off"), SYSTEM
    yield started("r"), SYSTEM
    yield done("r", size=9, tokens=50), SYSTEM
    yield e.ReportMade(result=DIGEST), SYSTEM
    yield e.RunFinished(status="partly_done", reason="failed: t"), SYSTEM


def _steps() -> Iterator[tuple[AnyBody, Actor]]:
    yield e.StepReused(step="a", result=DIGEST, run="other"), SYSTEM
    yield started("b"), SYSTEM
    yield e.StepProgressed(step="b", text="half way"), SYSTEM
    yield e.StepAdvised(step="b", advice="replan", reason="found more"), SYSTEM
    yield e.StepFailed(step="b", error="later", again=True, kind="time"), SYSTEM
    yield e.StepWaits(step="b", seconds=60), SYSTEM
    yield started("b", attempt=2), SYSTEM
    yield e.StepUnknown(step="b", reason="the process ended during the call"), SYSTEM
    unknown = e.QuestionAsked(
        question="unknown:b",
        text="Did it?",
        options=("done", "not_done", "retry"),
        step="b",
        kind="unknown",
    )
    yield unknown, SYSTEM
    yield e.QuestionAnswered(question="unknown:b", answer="done"), ADA
    yield done("b"), ADA
    asked = e.QuestionAsked(
        question="q",
        text="Which?",
        options=("x", "y"),
        answer_schema={"enum": ["x", "y"]},
        step="q",
        expires_at=START + timedelta(days=1),
        kind="step",
    )
    yield asked, SYSTEM
    yield e.QuestionAnswered(question="q", no_answer=True), SYSTEM
    yield e.StepFailed(step="q", error="nobody answered in time", kind="person"), SYSTEM
    yield started("m0"), SYSTEM
    call = e.QuestionAsked(
        question="m0?1",
        text="Which?",
        step="m0",
        state=DIGEST,
        link="https://a.example",
        kind="call",
    )
    yield call, SYSTEM
    yield e.QuestionAnswered(question="m0?1", answer="x"), ADA
    yield e.StepReplied(step="m0", answer="x", state=DIGEST, permit=True), ADA
    yield started("m0", attempt=2), SYSTEM
    yield done("m0"), SYSTEM
    yield e.RunPaused(reason="lunch"), ADA
    yield e.RunRepaired(aside=2, lost=1, reason="event 9 was altered"), ADA
    yield e.RunResumed(), ADA
    yield e.StepStarted(step="m", key="k/m"), SYSTEM
    yield started("m/0"), SYSTEM
    yield done("m/0", size=2, tokens=3, cost="0.002"), SYSTEM
    yield done("m", size=4), SYSTEM
    yield e.StepStarted(step="t", key="k/t"), SYSTEM
    yield started("t/x"), SYSTEM
    yield e.StepFailed(step="t/x", error="no", kind="result"), SYSTEM
    yield e.StepFailed(step="t", error="1 of 1 parts failed", kind="reference"), SYSTEM


def short_stories() -> Iterator[list[tuple[AnyBody, Actor]]]:
    """Runs that end early: rejected, cancelled, answered."""
    created = e.RunCreated(request="do it", locale="zh-CN"), ADA
    proposed = e.PlanProposed(plan=PLAN, origin="submitted"), ADA
    review = e.ReviewAsked(hash=PLAN.hash), SYSTEM
    yield [
        *(created, proposed, review, (e.PlanRejected(reason="no"), ADA)),
        (e.RunFinished(status="cancelled", reason="the plan was rejected"), ADA),
    ]
    yield [
        *(created, proposed, (e.RunStarted(hash=PLAN.hash), SYSTEM), (started("a"), SYSTEM)),
        (e.QuestionAsked(question="budget:1", text="?", kind="limit", limit="budget"), SYSTEM),
        (e.QuestionWithdrawn(question="budget:1", reason="cancelled"), SYSTEM),
        (e.CancelAsked(reason="enough"), ADA),
        (e.StepCancelled(step="a", reason="cancelled"), SYSTEM),
        (e.RunFinished(status="cancelled"), SYSTEM),
    ]
    yield [
        *(created, (e.Triaged(decision="answer", reason="small talk"), SYSTEM)),
        *((e.ReportMade(result=DIGEST), SYSTEM), (e.RunFinished(status="answered"), SYSTEM)),
    ]
    yield [
        *(created, (e.Triaged(decision="plan"), SYSTEM)),
        (PlanningFailed(reason="no key", tokens=3, cost="0.1"), SYSTEM),
        (e.RunFinished(status="failed", reason="no plan could be made: no key"), SYSTEM),
    ]


def journals() -> Iterator[list[Event]]:
    """All stories as chains of events."""
    for number, story in enumerate([list(whole_story()), *short_stories()], start=1):
        events: list[Event] = []
        for place, (body, by) in enumerate(story):
            last = events[-1] if events else None
            at = START + timedelta(seconds=place)
            events.append(next_event(body, run=f"run-{number}", by=by, at=at, last=last))
        yield events


def main(name: str) -> None:
    """Write the journal, once."""
    with Path(name).open("x", encoding="utf-8") as file:
        for events in journals():
            file.writelines(
                json.dumps(event.to_json(), ensure_ascii=False) + "\n" for event in events
            )


if __name__ == "__main__":
    main(sys.argv[1])
