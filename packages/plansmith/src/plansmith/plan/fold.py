"""`fold`: computes the state of a run from its events."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Final, cast

from msgspec.structs import replace

from plansmith.errors import JournalDamaged
from plansmith.plan import events as e
from plansmith.plan.data import CALL_MARK
from plansmith.plan.events import PlanningFailed, PrefetchEnded, PrefetchStarted
from plansmith.plan.graph import needs
from plansmith.plan.plan import Plan
from plansmith.plan.run import OVER, Covered, Made, Prefetch, Run, RunStatus, StepState, StepStatus
from plansmith.plan.second_person import grants, why_not
from plansmith.plan.sentence import Sentence

# Tuples, since looking for a member in a set calls the enum's own `__hash__`.
_Allowed = tuple[StepStatus, ...]
WAITING: Final[_Allowed] = (StepStatus.WAITING,)
CALLED: Final[_Allowed] = (StepStatus.RUNNING, StepStatus.ASKING)
ASKING: Final[_Allowed] = (StepStatus.ASKING,)
UNSURE: Final[_Allowed] = (StepStatus.UNKNOWN,)
OPEN: Final[_Allowed] = (*WAITING, *CALLED)
OPEN_OR_UNSURE: Final[_Allowed] = (*OPEN, *UNSURE)
CALLED_OR_UNSURE: Final[_Allowed] = (*CALLED, *UNSURE)
ENDED: Final[_Allowed] = tuple(each for each in StepStatus if each not in OPEN)


def waiting_again(step: StepState) -> StepState:
    """Returns a step that waits again or left the plan; the calls that it made are kept."""
    made = step.made
    if step.status is StepStatus.DONE and step.callee:
        made = (*made, Made(step.callee, step.call, step.result_hash))
        permit = step.permit
        if permit is not None and permit.instead_of and permit.state[:CALL_MARK] == step.call:
            # The call that a person replaced by this one is not to be made either.
            made = (*made, Made(step.callee, permit.instead_of[:CALL_MARK], step.result_hash))
    return StepState(item=step.item, made=made, asked=step.asked)


def misfit(event: e.Event, why: str) -> JournalDamaged:
    """Returns the error for an event that cannot come next."""
    return JournalDamaged(
        Sentence(
            "event {number} ({kind}) does not fit: {why}",
            number=event.number,
            kind=event.body.type,
            why=why,
        )
    )


GO_ON: Final = "go_on"
_SPEAKERS: Final = ("person", "program")
_NEW_STEP: Final = StepState()
PLANNING_LIMITS: Final = frozenset({"replans", "iterations"})
# Programs may answer the plan's and the planner's questions; only persons answer the others.
FOR_PROGRAMS: Final = frozenset[e.QuestionKind]({"step", "request"})


def fold(events: Iterable[e.Event], run: Run | None = None) -> Run:
    """Returns the run after these events.

    Args:
        events: The events of one run, in order.
        run: The run before them; None if they begin it.

    Raises:
        JournalDamaged: An event is missing or does not fit.

    Examples:
        >>> from plansmith import Plansmith, fold, read_plan
        >>> smith = Plansmith()
        >>> run = await smith.submit(read_plan({"steps": [{"id": "name", "question": "Who?"}]}))
        >>> fold([event async for event in smith.events(run.id)]) == run
        True
    """
    some = [*events]
    if run is None and not some:
        raise JournalDamaged("a run needs at least one event")
    return RunFold(run or Run(id=some[0].run)).after(some).result()


class RunFold:
    """Builds a run event by event; each event type has a method of the same name."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self._needs: Mapping[str, frozenset[str]] = needs(run.plan) if run.plan else {}
        self._result: Run | None = None
        self._last = run.last
        self.questions: Mapping[str, e.QuestionAsked] = run.questions
        self.steps = {
            name: step.replace(status=StepStatus.WAITING)
            if step.status is StepStatus.READY
            else step
            for name, step in run.steps.items()
        }

    def _set(self, **fields: Any) -> None:
        self.run = replace(self.run, **fields)

    @property
    def updated_at(self) -> datetime | None:
        return self._last.at if self._last else None

    def after(self, events: Iterable[e.Event]) -> RunFold:
        """Returns the fold after these events, or raises `JournalDamaged`; this one stays."""
        later = RunFold.__new__(RunFold)
        vars(later).update(vars(self), steps=dict(self.steps))
        for event in events:
            later.take(event)
        return later

    def fitting(self, events: Iterable[e.Event]) -> list[e.Event]:
        """Returns the events up to the first one that does not fit; the fold stays."""
        later, good = self.after(()), list[e.Event]()
        for event in events:
            try:
                later.take(event)
            except JournalDamaged:
                break
            good.append(event)
        return good

    def take(self, event: e.Event) -> None:
        """Applies the next event; raises `JournalDamaged` if it does not fit."""
        body, last = event.body, self._last
        first = isinstance(body, e.RunCreated)
        number = last.number + 1 if last else 1
        if event.number != number or event.run != self.run.id or first != (number == 1):
            raise self._misplaced(event, number)
        if self.run.phase in OVER:
            raise misfit(event, "the run is over")
        try:
            _HANDLERS[type(body)](self, event, body)
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            raise misfit(event, repr(error)) from error
        self._last, self._result = event, None

    def result(self) -> Run:
        """Returns the run as it is now; later events do not change the returned object."""
        if self._result is None:
            self._result = self.run.replace(
                steps=self._with_ready(),
                questions=self.questions,
                last=self._last,
                updated_at=self.updated_at,
            )
        return self._result

    def _with_ready(self) -> dict[str, StepState]:
        if self.run.plan is None or self.run.phase is not RunStatus.RUNNING:
            return dict(self.steps)
        done = {name for name, step in self.steps.items() if step.settled}
        ready = {
            name: self.steps[name].replace(status=StepStatus.READY)
            for name, before in self._needs.items()
            if self.steps[name].status is StepStatus.WAITING and before <= done
        }
        return {**self.steps, **ready}

    def _misplaced(self, event: e.Event, number: int) -> JournalDamaged:
        if event.number == number and event.run == self.run.id:
            return misfit(event, "a run begins with run_created, once")
        return misfit(event, f"expected event {number} of run {self.run.id}")

    @property
    def plan_hash(self) -> str:
        """The hash of the current plan; empty without one."""
        return self.run.plan.hash if self.run.plan is not None else ""

    def _check_hash(self, event: e.Event, digest: str) -> None:
        if not self.plan_hash or self.plan_hash != digest:
            raise misfit(event, "its hash is not the hash of the current plan")

    def run_created(self, event: e.Event, body: e.RunCreated) -> None:
        self._set(
            request=body.request,
            locale=body.locale,
            options=body.options,
            origin=body.origin,
            folder=body.folder,
            created_at=event.at,
            asked_by=event.by,
        )

    def triaged(self, _: e.Event, body: e.Triaged) -> None:
        self._set(phase=RunStatus.PLANNING, decision=body.decision, reason=body.reason)
        self._spend(body.tokens, body.cost)

    def planning_failed(self, _: e.Event, body: PlanningFailed) -> None:
        self._set(problems=body.problems if self.run.plan is None else self.run.problems)
        self._spend(body.tokens, body.cost)

    def plan_proposed(self, event: e.Event, body: e.PlanProposed) -> None:
        known = {**self.run.left, **self.steps}
        self._needs = needs(body.plan)
        self.steps = dict.fromkeys([step.id for step in body.plan.steps], _NEW_STEP)
        ids = frozenset(self.steps)
        self.steps |= {name: step for name, step in known.items() if name in ids}
        self.steps.update(
            (name, part) for name, part in known.items() if "/" in name and _root(name) in ids
        )
        self._drop_permits(body.plan)
        left = {name: waiting_again(step) for name, step in known.items() if _root(name) not in ids}
        # A plan that a person or a program gave is not a replan, so its coverage starts anew.
        own = body.origin not in ("model", "rules")
        replanning = self.run.phase is RunStatus.REPLANNING and not own
        self._set(
            plan=body.plan,
            acts=body.acts,
            templates=body.templates,
            # Once pinned, always the same: neither a revision nor an undo may change what is used.
            earlier={**body.earlier, **self.run.earlier} if body.earlier else self.run.earlier,
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
            edited_by=event.by if event.by.kind in _SPEAKERS else self.run.edited_by,
        )
        self._spend(body.tokens, body.cost)

    def review_asked(self, event: e.Event, body: e.ReviewAsked) -> None:
        self._check_hash(event, body.hash)
        # A new review request voids an earlier approval of the same plan.
        approved = "" if self.run.approved == body.hash else self.run.approved
        self._set(phase=RunStatus.REVIEWING, approved=approved, drops=body.drops, changing=False)

    def _drop_permits(self, plan: Plan) -> None:
        """Forgets what a person allowed for steps that a new plan changes: it was another call."""
        before = self.run.plan.by_id if self.run.plan else {}
        for name, step in self.steps.items():
            if step.permit is None:
                continue
            if before.get(_root(name)) != plan.by_id[_root(name)]:
                self.steps[name] = replace(step, permit=None)

    def plan_approved(self, event: e.Event, body: e.PlanApproved) -> None:
        self._check_hash(event, body.hash)
        if event.by.kind != "person":
            raise misfit(event, f"a {event.by.kind} cannot approve a plan")
        self._need_second_person(event)
        self._set(
            approved_by=event.by,
            approved=body.hash,
            approved_tools=body.tools,
            covered=self._current(),
            dropped=self.run.drops,
        )

    def _need_second_person(self, event: e.Event) -> None:
        """Refuses an approval, or such an answer, by who asked or changed the plan last."""
        if why := why_not(self.run, event.by):
            raise misfit(event, why)

    def plan_rejected(self, _: e.Event, body: e.PlanRejected) -> None:
        self._set(approved="", reason=body.reason)

    def changes_asked(self, event: e.Event, body: e.ChangesAsked) -> None:
        self._set(
            approved="",
            edited_by=event.by,
            phase=RunStatus.PLANNING,
            reason=body.text,
            rejections=self.run.rejections + 1,
            changing=True,
        )

    def question_asked(self, event: e.Event, body: e.QuestionAsked) -> None:
        if body.question in self.questions:
            raise misfit(event, f"question {body.question!r} is open already")
        self.questions = {**self.questions, body.question: body}
        self._set(asked_at={**self.run.asked_at, body.question: event.number})
        if body.step is not None:
            step = self._step(event, body.step, OPEN_OR_UNSURE)
            if step.status is not StepStatus.UNKNOWN:
                again = step.asked + (body.kind == "consent")
                self.steps[body.step] = step.replace(status=StepStatus.ASKING, asked=again)

    def question_answered(self, event: e.Event, body: e.QuestionAnswered) -> None:
        asked = self.questions.get(body.question)
        timed_out = body.no_answer and event.by.kind == "system"
        only_persons = asked is not None and asked.kind not in FOR_PROGRAMS and not timed_out
        if only_persons and event.by.kind != "person":
            raise misfit(event, f"a {event.by.kind} cannot answer this question")
        if only_persons and asked is not None and grants(asked, body.answer):
            self._need_second_person(event)
        self._close(event, body.question)
        if asked is not None and asked.limit and not body.no_answer:
            self._lift(asked.limit, goes_on=body.answer == GO_ON)

    def _lift(self, limit: e.LimitName, *, goes_on: bool) -> None:
        """Grants a limit once more if the person agreed; else a planning limit closes the run."""
        grants = self.run.grants
        if goes_on:
            grants = {**grants, limit: grants.get(limit, 0) + 1}
        closing = self.run.closing or (not goes_on and limit in PLANNING_LIMITS)
        self._set(grants=grants, closing=closing)

    def question_withdrawn(self, event: e.Event, body: e.QuestionWithdrawn) -> None:
        self._close(event, body.question)

    def _close(self, event: e.Event, question: str) -> None:
        if question not in self.questions:
            raise misfit(event, f"question {question!r} is not open")
        self.questions = {name: asked for name, asked in self.questions.items() if name != question}

    def run_started(self, event: e.Event, body: e.RunStarted) -> None:
        self._check_hash(event, body.hash)
        started = self.run.started_at or event.at
        replanned = self.run.phase is RunStatus.REPLANNING
        covered = self.run.covered if replanned else self._current()
        self._set(
            phase=RunStatus.RUNNING, running_hash=body.hash, started_at=started, covered=covered
        )

    def _current(self) -> Covered | None:
        plan = self.run.plan
        return Covered(plan, self.run.templates) if plan is not None else None

    def run_paused(self, _: e.Event, body: e.RunPaused) -> None:
        self._set(paused=True, reason=body.reason)

    def run_resumed(self, _: e.Event, __: e.RunResumed) -> None:
        self._set(paused=False, reason="")

    def run_repaired(self, _: e.Event, body: e.RunRepaired) -> None:
        self._set(paused=True, reason=body.reason)

    def cancel_asked(self, _: e.Event, body: e.CancelAsked) -> None:
        self._set(cancel_asked=True, reason=body.reason)

    def replan_started(self, _: e.Event, body: e.ReplanStarted) -> None:
        self._set(
            phase=RunStatus.REPLANNING,
            reason=body.cause,
            replans=self.run.replans + (body.kind in ("failure", "advice")),
            iterations=self.run.iterations + (body.kind == "iteration"),
            advice=None,
        )

    def report_made(self, _: e.Event, body: e.ReportMade) -> None:
        self._set(report_hash=body.result)

    def run_finished(self, _: e.Event, body: e.RunFinished) -> None:
        self.questions = {}
        status = RunStatus(body.status)
        self._set(phase=status, reason=body.reason, paused=False)

    def _step(self, event: e.Event, name: str, allowed: _Allowed) -> StepState:
        step = self.steps.get(name)
        if step is None and name.rpartition("/")[0] in self.steps:
            step = StepState()  # a part of a map or plan step is added when it first starts
        if step is None:
            raise misfit(event, f"the plan has no step {name!r}")
        if step.status not in allowed:
            raise misfit(event, f"step {name!r} is {step.status}")
        return step

    def _change(self, event: e.Event, name: str, allowed: _Allowed, **changes: Any) -> None:
        self.steps[name] = replace(self._step(event, name, allowed), **changes)

    def prefetch_started(self, event: e.Event, body: PrefetchStarted) -> None:
        begun = Prefetch(tool=body.tool, inputs=body.inputs, started_at=event.at)
        self._set(prefetches={**self.run.prefetches, body.key: begun}, calls=self.run.calls + 1)

    def prefetch_ended(self, event: e.Event, body: PrefetchEnded) -> None:
        begun = self.run.prefetches.get(body.key)
        if begun is None or begun.over:
            raise misfit(event, f"no prefetched read {body.key!r} is under way")
        took = None if body.seconds is None else begun.started_at + timedelta(seconds=body.seconds)
        ended = replace(begun, over=True, ended_at=took, result=body.result, error=body.error)
        self._set(prefetches={**self.run.prefetches, body.key: ended})
        self._spend(body.tokens, body.cost)

    def _spend(self, tokens: int, cost: str) -> None:
        if tokens or cost:
            money = self.run.money + (Decimal(cost) if cost else 0)
            self._set(tokens=self.run.tokens + tokens, money=money)

    def step_started(self, event: e.Event, body: e.StepStarted) -> None:
        step = self._step(event, body.step, WAITING)
        early = self._use_prefetch(event, body) if body.prefetched else None
        self.steps[body.step] = StepState(
            status=StepStatus.RUNNING,
            attempts=body.attempt,
            key=body.key,
            inputs=body.inputs,
            reply=step.reply,
            permit=step.permit,
            asked=step.asked,
            started_at=early.started_at if early else event.at,
            prefetched=body.prefetched,
            callee=body.callee,
            item=body.item,
            unsure=step.unsure,
            made=step.made,
        )
        if body.inputs and not early:  # map and plan steps themselves call nothing
            self._set(calls=self.run.calls + 1)

    def _use_prefetch(self, event: e.Event, body: e.StepStarted) -> Prefetch:
        """Returns the prefetched read whose result a step uses; the step takes over its times."""
        begun = self.run.prefetches.get(body.prefetched)
        if begun is None or begun.step:
            raise misfit(event, f"there is no prefetched read {body.prefetched!r} to use")
        taken = replace(begun, step=body.step, over=True)
        self._set(prefetches={**self.run.prefetches, body.prefetched: taken})
        return taken

    def step_progressed(self, event: e.Event, body: e.StepProgressed) -> None:
        self._change(event, body.step, CALLED, progress=body.text)

    def step_done(self, event: e.Event, body: e.StepDone) -> None:
        step = self._step(event, body.step, CALLED_OR_UNSURE)
        early = self.run.prefetches.get(step.prefetched) if step.prefetched else None
        # What a person knows of a call says nothing about how long it took.
        known = step.finished_at if step.status is StepStatus.UNKNOWN else None
        ended = early.ended_at if early else known
        self.steps[body.step] = replace(
            step,
            status=StepStatus.DONE,
            result_hash=body.result,
            error="",
            tokens=body.tokens,
            program=(event.by.name or "a program") if event.by.kind == "program" else "",
            finished_at=ended or event.at,
            unsure=False,
        )
        self._spend(body.tokens, body.cost)

    def step_reused(self, event: e.Event, body: e.StepReused) -> None:
        self._change(
            event,
            body.step,
            WAITING,
            status=StepStatus.DONE,
            result_hash=body.result,
            program=body.program,
            finished_at=body.done_at or event.at,
            reused_from=body.run,
        )

    def step_failed(self, event: e.Event, body: e.StepFailed) -> None:
        status = StepStatus.WAITING if body.again else StepStatus.FAILED
        known = self.steps.get(body.step)
        self._change(
            event,
            body.step,
            OPEN_OR_UNSURE,
            status=StepStatus.SKIPPED if body.passed else status,
            error=body.error,
            finished_at=event.at,
            error_kind=body.kind,
            unsure=body.unsure or (body.again and known is not None and known.unsure),
            rule="error" if body.passed else "",
            result_hash=body.result,
        )
        self._spend(body.tokens, body.cost)

    def step_replied(self, event: e.Event, body: e.StepReplied) -> None:
        step = self._step(event, body.step, ASKING)
        if body.instead_of and self.run.options.second_person != "never":
            raise misfit(event, "nobody else has seen these values")
        # What a call asks later does not take back the consent to make it.
        given: dict[str, Any] = {"permit": body}
        if not body.permit:
            given = {"reply": body, "answered": step.attempts}
        self.steps[body.step] = replace(step, status=StepStatus.WAITING, **given)

    def step_skipped(self, event: e.Event, body: e.StepSkipped) -> None:
        known = self.steps.get(body.step)
        # A running step can be skipped only if it calls nothing itself.
        calls_nothing = known is not None and not known.inputs
        allowed = OPEN if calls_nothing else (*WAITING, *ASKING)
        self._change(
            event,
            body.step,
            allowed,
            status=StepStatus.SKIPPED,
            error=body.reason,
            finished_at=event.at,
            error_kind="" if event.by.kind == "system" else "person",
            rule=body.rule,
            result_hash=body.result,
        )

    def step_waits(self, event: e.Event, body: e.StepWaits) -> None:
        until = event.at + timedelta(seconds=body.seconds) if body.seconds else None
        self._change(event, body.step, WAITING, wakes_at=until)

    def step_cancelled(self, event: e.Event, body: e.StepCancelled) -> None:
        ended = {"status": StepStatus.CANCELLED, "error": body.reason, "finished_at": event.at}
        self._change(event, body.step, OPEN, **ended)

    def step_unknown(self, event: e.Event, body: e.StepUnknown) -> None:
        known = self.steps.get(body.step)
        allowed = OPEN if known is not None and known.unsure else CALLED
        at = known.started_at if body.died and known is not None else event.at
        ended = {"status": StepStatus.UNKNOWN, "error": body.reason, "finished_at": at}
        self._change(event, body.step, allowed, **ended)

    def step_reset(self, event: e.Event, body: e.StepReset) -> None:
        step = self._step(event, body.step, ENDED)
        again = waiting_again(step)
        self.steps[body.step] = replace(again, permit=step.permit) if body.same_call else again

    def step_advised(self, event: e.Event, body: e.StepAdvised) -> None:
        self._step(event, body.step, CALLED)
        self._set(advice=self.run.advice or body)


def _root(name: str) -> str:
    return name.split("/", maxsplit=1)[0]


_HANDLERS: Final = {
    each: cast("Callable[[RunFold, e.Event, Any], None]", getattr(RunFold, each.type))
    for each in e.EVENT_TYPES
}
