"""`fold`: a run is nothing but its events, one after the other."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any, Final, cast

from plansmith.errors import JournalDamaged
from plansmith.plan import events as e
from plansmith.plan.graph import needs
from plansmith.plan.run import Run, RunStatus, StepState, StepStatus

GO_ON: Final = "go_on"
PLANNING_LIMITS: Final = frozenset({"replans", "iterations"})
LIMITS: Final = PLANNING_LIMITS | {"budget", "shared_budget", "rejections"}
_WAITING: Final = frozenset({StepStatus.WAITING})
_CALLED: Final = frozenset({StepStatus.RUNNING, StepStatus.ASKING})
_ASKING: Final = frozenset({StepStatus.ASKING})
_UNSURE: Final = frozenset({StepStatus.UNKNOWN})
_OPEN: Final = _WAITING | _CALLED
_ENDED: Final = frozenset(StepStatus) - _OPEN


def fold(events: Iterable[e.Event], run: Run | None = None) -> Run:
    """The run after these events; folding half and then the rest gives the same."""
    folding = RunFold(run) if run else None
    for event in events:
        folding = folding or RunFold(Run(id=event.run))
        folding.take(event)
    if folding is None:
        raise JournalDamaged("a run without any event is not a run")
    return folding.result()


class RunFold:
    """A run under construction, event by event; the method of an event's name applies it."""

    def __init__(self, run: Run) -> None:
        self.run = replace(run)
        self._needs: Mapping[str, frozenset[str]] = needs(run.plan) if run.plan else {}
        self._result: Run | None = None
        self._hash: str = ""
        self.questions = dict(run.questions)
        self.steps: MutableMapping[str, StepState] = {
            name: replace(step, status=StepStatus.WAITING)
            if step.status is StepStatus.READY
            else step
            for name, step in run.steps.items()
        }

    def take(self, event: e.Event) -> None:
        """Apply the next event."""
        self._check_place(event)
        apply = cast("Callable[[e.Event, Any], None]", getattr(self, event.body.type))
        try:
            apply(event, event.body)
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            raise _misfit(event, repr(error)) from error
        self._set(last=event, updated_at=event.at)
        self._result = None

    def check(self, events: Sequence[e.Event]) -> None:
        """Say whether these events would fit, and take none: `JournalDamaged` tells the first."""
        kept = self.run, self.steps, self.questions, self._needs, self._hash, self._result
        self.run = replace(self.run)
        # An overlay, since a copy of all steps an append would cost too much.
        self.steps = ChainMap({}, self.steps)
        self.questions = dict(self.questions)
        try:
            for event in events:
                self.take(event)
        finally:
            plan, digest = self.run.plan, self._hash
            self.run, self.steps, self.questions, self._needs, self._hash, self._result = kept
            if plan is self.run.plan:
                self._hash = digest

    def _set(self, **fields: Any) -> None:
        """Change the run, which nobody else holds yet: a copy an event costs too much."""
        for name, value in fields.items():
            object.__setattr__(self.run, name, value)

    def result(self) -> Run:
        """The run as it stands, apart from what comes later."""
        if self._result is None:
            self._result = replace(
                self.run, steps=self._with_ready(), questions=dict(self.questions)
            )
        return self._result

    def _with_ready(self) -> dict[str, StepState]:
        if self.run.plan is None or self.run.phase is not RunStatus.RUNNING:
            return dict(self.steps)
        done = {name for name, step in self.steps.items() if step.status is StepStatus.DONE}
        ready = {
            name: replace(self.steps[name], status=StepStatus.READY)
            for name, before in self._needs.items()
            if self.steps[name].status is StepStatus.WAITING and before <= done
        }
        return {**self.steps, **ready}

    def _check_place(self, event: e.Event) -> None:
        number = self.run.last.number + 1 if self.run.last else 1
        if event.run != self.run.id or event.number != number:
            raise _misfit(event, f"expected event {number} of run {self.run.id}")
        if (event.number == 1) != isinstance(event.body, e.RunCreated):
            raise _misfit(event, "a run begins with run_created, once")
        if self.run.phase.over:
            raise _misfit(event, "the run is over")

    @property
    def plan_hash(self) -> str:
        """The hash of the current plan, made once."""
        if self.run.plan is not None and not self._hash:
            self._hash = self.run.plan.hash
        return self._hash

    def _check_hash(self, event: e.Event, digest: str) -> None:
        if not self.plan_hash or self.plan_hash != digest:
            raise _misfit(event, "its hash is not that of the current plan")

    def _step(self, event: e.Event, name: str, allowed: frozenset[StepStatus]) -> StepState:
        step = self.steps.get(name)
        if step is None and name.rpartition("/")[0] in self.steps:
            step = StepState()  # a part of a map or plan step appears when it first starts
        if step is None:
            raise _misfit(event, f"the plan has no step {name!r}")
        if step.status not in allowed:
            raise _misfit(event, f"step {name!r} is {step.status}")
        return step

    def run_created(self, event: e.Event, body: e.RunCreated) -> None:
        self._set(
            request=body.request,
            locale=body.locale,
            options=body.options,
            origin=body.origin,
            folder=body.folder,
            created_at=event.at,
        )

    def triaged(self, _: e.Event, body: e.Triaged) -> None:
        self._set(phase=RunStatus.PLANNING, decision=body.decision, reason=body.reason)
        self._spend(body.tokens, body.cost)

    def plan_proposed(self, _: e.Event, body: e.PlanProposed) -> None:
        known = self.steps
        self._needs = needs(body.plan)
        self.steps = {step.id: known.get(step.id, StepState()) for step in body.plan.steps}
        known_ids = frozenset(self.steps)
        parts = {name: part for name, part in known.items() if "/" in name}
        self.steps.update(
            (name, part) for name, part in parts.items() if name.split("/")[0] in known_ids
        )
        self._hash = ""
        replanning = self.run.phase is RunStatus.REPLANNING
        self._set(
            plan=body.plan,
            locale=body.plan.locale,
            problems=body.problems,
            estimate=body.estimate,
            metrics=body.metrics,
            revisions=self.run.revisions + 1,
            phase=RunStatus.REPLANNING if replanning else RunStatus.PLANNING,
            running_hash="",
        )
        self._spend(body.tokens, body.cost)

    def _spend(self, tokens: int, cost: str) -> None:
        if tokens or cost:
            money = self.run.money + (Decimal(cost) if cost else 0)
            self._set(tokens=self.run.tokens + tokens, money=money)

    def review_asked(self, event: e.Event, body: e.ReviewAsked) -> None:
        self._check_hash(event, body.hash)
        self._set(phase=RunStatus.REVIEWING)

    def plan_approved(self, event: e.Event, body: e.PlanApproved) -> None:
        self._check_hash(event, body.hash)
        if event.by.kind != "person":
            raise _misfit(event, f"a {event.by.kind} cannot approve a plan")
        self._set(approved=body.hash)

    def plan_rejected(self, _: e.Event, body: e.PlanRejected) -> None:
        self._set(approved="", reason=body.reason)

    def changes_asked(self, _: e.Event, body: e.ChangesAsked) -> None:
        self._set(
            approved="",
            phase=RunStatus.PLANNING,
            reason=body.text,
            rejections=self.run.rejections + 1,
        )

    def question_asked(self, event: e.Event, body: e.QuestionAsked) -> None:
        if body.question in self.questions:
            raise _misfit(event, f"question {body.question!r} is open already")
        self.questions[body.question] = body
        if body.step is not None:
            step = self._step(event, body.step, _OPEN | _UNSURE)
            if step.status is not StepStatus.UNKNOWN:
                self.steps[body.step] = replace(step, status=StepStatus.ASKING)

    def question_answered(self, event: e.Event, body: e.QuestionAnswered) -> None:
        self._close(event, body.question)
        limit, _, number = body.question.rpartition(":")
        if limit in LIMITS and number.isdigit() and not body.no_answer:
            self._lift(limit, goes_on=body.answer == GO_ON)

    def _lift(self, limit: str, *, goes_on: bool) -> None:
        """A person grants once more what was used up, or ends it here."""
        grants = self.run.grants
        if goes_on:
            grants = {**grants, limit: grants.get(limit, 0) + 1}
        closing = self.run.closing or (not goes_on and limit in PLANNING_LIMITS)
        self._set(grants=grants, closing=closing)

    def question_withdrawn(self, event: e.Event, body: e.QuestionWithdrawn) -> None:
        self._close(event, body.question)

    def _close(self, event: e.Event, question: str) -> None:
        if self.questions.pop(question, None) is None:
            raise _misfit(event, f"question {question!r} is not open")

    def run_started(self, event: e.Event, body: e.RunStarted) -> None:
        self._check_hash(event, body.hash)
        started = self.run.started_at or event.at
        self._set(phase=RunStatus.RUNNING, running_hash=body.hash, started_at=started)

    def step_started(self, event: e.Event, body: e.StepStarted) -> None:
        step = self._step(event, body.step, _WAITING)
        self.steps[body.step] = StepState(
            status=StepStatus.RUNNING,
            attempts=body.attempt,
            key=body.key,
            inputs=body.inputs,
            reply=step.reply,
            started_at=event.at,
        )
        if body.inputs:  # a step that only holds others together calls nothing
            self._set(calls=self.run.calls + 1)

    def step_progressed(self, event: e.Event, body: e.StepProgressed) -> None:
        step = self._step(event, body.step, _CALLED)
        self.steps[body.step] = replace(step, progress=body.text)

    def step_done(self, event: e.Event, body: e.StepDone) -> None:
        step = self._step(event, body.step, _CALLED | _UNSURE)
        # Not `replace`, which takes three times as long: this is the most frequent event.
        self.steps[body.step] = StepState(
            status=StepStatus.DONE,
            attempts=step.attempts,
            key=step.key,
            inputs=step.inputs,
            result_hash=body.result,
            error_kind=step.error_kind,
            progress=step.progress,
            tokens=body.tokens,
            reply=step.reply,
            started_at=step.started_at,
            finished_at=event.at,
        )
        self._spend(body.tokens, body.cost)

    def step_reused(self, event: e.Event, body: e.StepReused) -> None:
        step = self._step(event, body.step, _WAITING)
        self.steps[body.step] = replace(
            step, status=StepStatus.DONE, result_hash=body.result, finished_at=event.at
        )

    def step_failed(self, event: e.Event, body: e.StepFailed) -> None:
        again = StepStatus.WAITING if body.again else StepStatus.FAILED
        self._end(event, body.step, again, body.error, _OPEN | _UNSURE)
        self.steps[body.step] = replace(self.steps[body.step], error_kind=body.kind)
        self._spend(body.tokens, body.cost)

    def step_replied(self, event: e.Event, body: e.StepReplied) -> None:
        step = self._step(event, body.step, _ASKING)
        self.steps[body.step] = replace(step, status=StepStatus.WAITING, reply=body)

    def step_skipped(self, event: e.Event, body: e.StepSkipped) -> None:
        self._end(event, body.step, StepStatus.SKIPPED, body.reason, _WAITING)

    def step_cancelled(self, event: e.Event, body: e.StepCancelled) -> None:
        self._end(event, body.step, StepStatus.CANCELLED, body.reason, _OPEN)

    def step_unknown(self, event: e.Event, body: e.StepUnknown) -> None:
        self._end(event, body.step, StepStatus.UNKNOWN, body.reason, _CALLED)

    def _end(
        self,
        event: e.Event,
        name: str,
        status: StepStatus,
        error: str,
        allowed: frozenset[StepStatus],
    ) -> None:
        step = self._step(event, name, allowed)
        self.steps[name] = replace(step, status=status, error=error, finished_at=event.at)

    def step_reset(self, event: e.Event, body: e.StepReset) -> None:
        self._step(event, body.step, _ENDED)
        self.steps[body.step] = StepState()

    def run_paused(self, _: e.Event, body: e.RunPaused) -> None:
        self._set(paused=True, reason=body.reason)

    def run_resumed(self, _: e.Event, __: e.RunResumed) -> None:
        self._set(paused=False, reason="")

    def run_repaired(self, _: e.Event, body: e.RunRepaired) -> None:
        self._set(paused=True, reason=body.reason)

    def cancel_asked(self, _: e.Event, body: e.CancelAsked) -> None:
        self._set(cancel_asked=True, reason=body.reason)

    def step_advised(self, event: e.Event, body: e.StepAdvised) -> None:
        self._step(event, body.step, _CALLED)
        self._set(advice=self.run.advice or body)

    def replan_started(self, _: e.Event, body: e.ReplanStarted) -> None:
        self._set(
            phase=RunStatus.REPLANNING,
            reason=body.cause,
            replans=self.run.replans + (body.kind in ("failure", "advice")),
            iterations=self.run.iterations + (body.kind == "iteration"),
            advice=None,
        )

    def report_started(self, _: e.Event, __: e.ReportStarted) -> None:
        self._set(phase=RunStatus.REPORTING)

    def report_made(self, _: e.Event, body: e.ReportMade) -> None:
        self._set(report_hash=body.result)

    def run_finished(self, _: e.Event, body: e.RunFinished) -> None:
        self.questions = {}
        status = RunStatus(body.status)
        self._set(phase=status, reason=body.reason, paused=False)


def _misfit(event: e.Event, why: str) -> JournalDamaged:
    return JournalDamaged(f"event {event.number} ({event.body.type}) does not fit: {why}")
