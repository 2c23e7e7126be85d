"""`fold`: a run is nothing but its events, one after the other."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any, Final, cast

from plansmith.errors import JournalDamaged
from plansmith.plan import events as e
from plansmith.plan.graph import needs
from plansmith.plan.planning_events import PlanningFailed, PrefetchEnded, PrefetchStarted
from plansmith.plan.run import (
    Covered,
    Made,
    Prefetch,
    Run,
    RunStatus,
    StepState,
    StepStatus,
)

GO_ON: Final = "go_on"
PLANNING_LIMITS: Final = frozenset({"replans", "iterations"})
LIMITS: Final = PLANNING_LIMITS | {"budget", "shared_budget", "rejections"}
# What a plan or the planner asks may be answered by a program; all else is a person's to answer.
FOR_PROGRAMS: Final = frozenset[e.QuestionKind]({"step", "request"})
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
        self._hash = ""
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

    def prefetch_started(self, event: e.Event, body: PrefetchStarted) -> None:
        begun = Prefetch(body.tool, body.inputs, event.at)
        self._set(prefetches={**self.run.prefetches, body.key: begun}, calls=self.run.calls + 1)

    def prefetch_ended(self, event: e.Event, body: PrefetchEnded) -> None:
        begun = self.run.prefetches.get(body.key)
        if begun is None or begun.over:
            raise _misfit(event, f"no early read {body.key!r} is under way")
        took = None if body.seconds is None else begun.started_at + timedelta(seconds=body.seconds)
        ended = replace(begun, over=True, ended_at=took, result=body.result, error=body.error)
        self._set(prefetches={**self.run.prefetches, body.key: ended})
        self._spend(body.tokens, body.cost)

    def planning_failed(self, _: e.Event, body: PlanningFailed) -> None:
        self._set(problems=body.problems if self.run.plan is None else self.run.problems)
        self._spend(body.tokens, body.cost)

    def plan_proposed(self, _: e.Event, body: e.PlanProposed) -> None:
        known = {**self.run.left, **self.steps}
        self._needs = needs(body.plan)
        self.steps = {step.id: known.get(step.id, StepState()) for step in body.plan.steps}
        ids = frozenset(self.steps)
        self.steps.update(
            (name, part) for name, part in known.items() if "/" in name and _root(name) in ids
        )
        left = {name: _without(step) for name, step in known.items() if _root(name) not in ids}
        self._hash = ""
        # A plan of a person's own is no replan: it stands for itself, and so is covered anew.
        own = body.origin not in ("model", "rules")
        replanning = self.run.phase is RunStatus.REPLANNING and not own
        self._set(
            plan=body.plan,
            templates=body.templates,
            approved="",
            drops=(),
            locale=body.plan.locale,
            problems=body.problems,
            estimate=body.estimate,
            metrics=body.metrics,
            revisions=self.run.revisions + 1,
            left=left,
            changing=False,
            phase=RunStatus.REPLANNING if replanning else RunStatus.PLANNING,
            running_hash="",
        )
        if body.restores:  # whoever goes back decides anew
            self._set(approved="")
        self._spend(body.tokens, body.cost)

    def _spend(self, tokens: int, cost: str) -> None:
        if tokens or cost:
            money = self.run.money + (Decimal(cost) if cost else 0)
            self._set(tokens=self.run.tokens + tokens, money=money)

    def review_asked(self, event: e.Event, body: e.ReviewAsked) -> None:
        self._check_hash(event, body.hash)
        # Who is asked again about a plan has not approved it as things are now.
        approved = "" if self.run.approved == body.hash else self.run.approved
        self._set(phase=RunStatus.REVIEWING, approved=approved, drops=body.drops, changing=False)

    def plan_approved(self, event: e.Event, body: e.PlanApproved) -> None:
        self._check_hash(event, body.hash)
        if event.by.kind != "person":
            raise _misfit(event, f"a {event.by.kind} cannot approve a plan")
        self._set(
            approved=body.hash,
            approved_tools=body.tools,
            covered=self._current(),
            dropped=self.run.drops,
        )

    def plan_rejected(self, _: e.Event, body: e.PlanRejected) -> None:
        self._set(approved="", reason=body.reason)

    def changes_asked(self, _: e.Event, body: e.ChangesAsked) -> None:
        self._set(
            approved="",
            phase=RunStatus.PLANNING,
            reason=body.text,
            rejections=self.run.rejections + 1,
            changing=True,
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
        asked = self.questions.get(body.question)
        timed_out = body.no_answer and event.by.kind == "system"
        only_persons = asked is not None and asked.asks not in FOR_PROGRAMS and not timed_out
        if only_persons and event.by.kind != "person":
            raise _misfit(event, f"a {event.by.kind} cannot answer this question")
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
        replanned = self.run.phase is RunStatus.REPLANNING
        covered = self.run.covered if replanned else self._current()
        self._set(
            phase=RunStatus.RUNNING, running_hash=body.hash, started_at=started, covered=covered
        )

    def _current(self) -> Covered | None:
        """The plan there is now, with the templates it runs."""
        plan = self.run.plan
        return Covered(plan, self.run.templates) if plan is not None else None

    def step_started(self, event: e.Event, body: e.StepStarted) -> None:
        step = self._step(event, body.step, _WAITING)
        early = self._taken(event, body) if body.prefetched else None
        self.steps[body.step] = StepState(
            status=StepStatus.RUNNING,
            attempts=body.attempt,
            key=body.key,
            inputs=body.inputs,
            reply=step.reply,
            started_at=early.started_at if early else event.at,
            prefetched=body.prefetched,
            callee=body.callee,
            item=body.item,
            unsure=step.unsure,
            made=step.made,
        )
        if body.inputs and not early:  # a step that only holds others together calls nothing
            self._set(calls=self.run.calls + 1)

    def _taken(self, event: e.Event, body: e.StepStarted) -> Prefetch:
        """The early read whose result a step takes: its times are the step's."""
        begun = self.run.prefetches.get(body.prefetched)
        if begun is None or begun.step:
            raise _misfit(event, f"there is no early read {body.prefetched!r} to take")
        taken = replace(begun, step=body.step, over=True)
        self._set(prefetches={**self.run.prefetches, body.prefetched: taken})
        return taken

    def step_progressed(self, event: e.Event, body: e.StepProgressed) -> None:
        step = self._step(event, body.step, _CALLED)
        self.steps[body.step] = replace(step, progress=body.text)

    def step_done(self, event: e.Event, body: e.StepDone) -> None:
        step = self._step(event, body.step, _CALLED | _UNSURE)
        early = self.run.prefetches.get(step.prefetched) if step.prefetched else None
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
            program=_program(event.by),
            reply=step.reply,
            started_at=step.started_at,
            finished_at=(early.ended_at if early else None) or event.at,
            prefetched=step.prefetched,
            callee=step.callee,
            item=step.item,
            made=step.made,
        )
        self._spend(body.tokens, body.cost)

    def step_reused(self, event: e.Event, body: e.StepReused) -> None:
        step = self._step(event, body.step, _WAITING)
        self.steps[body.step] = replace(
            step,
            status=StepStatus.DONE,
            result_hash=body.result,
            program=body.program,
            finished_at=body.done_at or event.at,
            reused_from=body.run,
        )

    def step_failed(self, event: e.Event, body: e.StepFailed) -> None:
        again = StepStatus.WAITING if body.again else StepStatus.FAILED
        self._end(event, body.step, again, body.error, _OPEN | _UNSURE)
        unsure = body.unsure or (body.again and self.steps[body.step].unsure)
        self.steps[body.step] = replace(self.steps[body.step], error_kind=body.kind, unsure=unsure)
        self._spend(body.tokens, body.cost)

    def step_replied(self, event: e.Event, body: e.StepReplied) -> None:
        step = self._step(event, body.step, _ASKING)
        self.steps[body.step] = replace(step, status=StepStatus.WAITING, reply=body)

    def step_skipped(self, event: e.Event, body: e.StepSkipped) -> None:
        known = self.steps.get(body.step)
        holds = known is not None and not known.inputs  # only a call in flight cannot be left out
        allowed = _OPEN if holds else _WAITING | _ASKING
        self._end(event, body.step, StepStatus.SKIPPED, body.reason, allowed)
        kind = "" if event.by.kind == "system" else "person"
        self.steps[body.step] = replace(self.steps[body.step], error_kind=kind)

    def step_cancelled(self, event: e.Event, body: e.StepCancelled) -> None:
        self._end(event, body.step, StepStatus.CANCELLED, body.reason, _OPEN)

    def step_unknown(self, event: e.Event, body: e.StepUnknown) -> None:
        known = self.steps.get(body.step)
        allowed = _OPEN if known is not None and known.unsure else _CALLED
        self._end(event, body.step, StepStatus.UNKNOWN, body.reason, allowed)

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
        self.steps[body.step] = _without(self._step(event, body.step, _ENDED))

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


def _root(name: str) -> str:
    return name.split("/", maxsplit=1)[0]


def _without(step: StepState) -> StepState:
    """A step that waits again, or is in the plan no more; the calls it made are not forgotten."""
    made = step.made
    if step.status is StepStatus.DONE and step.callee:
        made = (*made, Made(step.callee, step.inputs, step.result_hash))
    return StepState(item=step.item, made=made)


def _program(by: e.Actor) -> str:
    """The name under which a program's result is remembered as such."""
    return (by.name or "a program") if by.kind == "program" else ""


def _misfit(event: e.Event, why: str) -> JournalDamaged:
    return JournalDamaged(f"event {event.number} ({event.body.type}) does not fit: {why}")
