"""`fold`: computes the state of a run from its events."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Any, Final, cast

from msgspec.structs import replace

from plansmith.errors import JournalDamaged
from plansmith.plan import events as e
from plansmith.plan.graph import downstream
from plansmith.plan.ids import parent_of, root_of
from plansmith.plan.looks import (
    failed_looks,
    permits_of,
    waiting_again,
    why_not_begun,
    without_looks,
)
from plansmith.plan.plan import differ
from plansmith.plan.planning import ModelUse
from plansmith.plan.question_options import FOR_PROGRAMS, GO_ON, permits
from plansmith.plan.run import (
    BEFORE_START,
    BEGUN,
    NOT_STARTED,
    OVER,
    UNFINISHED,
    ApprovedPlan,
    Run,
    RunStatus,
    Steps,
    StepState,
    StepStatus,
)
from plansmith.plan.second_person import why_cannot_approve
from plansmith.plan.sentence import Sentence

_ASKING: Final = (StepStatus.ASKING,)
_RESULT_MISSING: Final = (*BEGUN, StepStatus.UNKNOWN)
_ENDED: Final = tuple(each for each in StepStatus if each not in UNFINISHED)
_NEW_STEP: Final = StepState()
_MAY_HAVE_DIED: Final = (e.StepFailed, e.StepUnknown)
_UNDER_WAY: Final = (RunStatus.RUNNING, RunStatus.REPLANNING)
_NO_TIME: Final = timedelta()


def fold(events: Iterable[e.Event], run: Run | None = None) -> Run:
    """Returns the run after these events.

    Args:
        events: The events of one run, in order.
        run: The run before them; None if they begin it.

    Raises:
        JournalDamaged: An event is missing or does not fit.

    Examples:
        >>> from plansmith import Plansmith, read_plan
        >>> from plansmith.plan.fold import fold
        >>> smith = Plansmith()
        >>> run = await smith.submit(read_plan({"steps": [{"id": "name", "question": "Who?"}]}))
        >>> fold([event async for event in smith.events(run.id)]) == run
        True
    """
    some = [*events]
    if run is None and not some:
        raise JournalDamaged("a run needs at least one event")
    return with_ready_steps(apply(run or Run(id=some[0].run), some))


def apply(run: Run, events: Sequence[e.Event]) -> Run:
    """Returns the run after these events; in it every step that has not started waits."""
    if not events:
        return run
    later = _Fold(run)
    for event in events:
        later.take(event)
    return later.result()


def with_ready_steps(run: Run) -> Run:
    """Returns the run for readers: waiting steps that can start are ready."""
    not_started = run.steps.index.not_started()
    if not not_started:
        return run
    startable = {*run.startable_steps}
    steps = Steps(run.steps)
    for name in not_started:
        status = StepStatus.READY if name in startable else StepStatus.WAITING
        if steps[name].status is not status:
            steps[name] = replace(steps[name], status=status)
    return replace(run, steps=steps)


def fitting(events: Sequence[e.Event], run: Run) -> Sequence[e.Event]:
    """Returns the events up to the first one that does not fit."""
    later = _Fold(run)
    for place, event in enumerate(events):
        try:
            later.take(event)
        except JournalDamaged:
            return events[:place]
    return events


class _Fold:
    """Takes events one by one; each event type has a method of the same name.

    The run it begins with is never changed. What most events change (steps, questions, open calls,
    times) is copied once and changed here: read it here, since `run` has it only after `result`.
    """

    def __init__(self, run: Run) -> None:
        self.run, self.steps = run, Steps(run.steps)
        self.questions, self.question_events = {**run.questions}, {**run.question_events}
        self.calls_open, self.spent, self.calls = {*run.calls_open}, run.spent, run.calls
        self._last = run.last

    def take(self, event: e.Event) -> None:
        """Applies the next event; raises `JournalDamaged` if it does not fit."""
        run, kind, last = self.run, type(event.body), self._last
        number = last.number + 1 if last is not None else 1
        if event.number != number or event.run != run.id:
            raise _misfit(event, f"expected event {number} of run {run.id}")
        if (kind is e.RunCreated) != (number == 1):
            raise _misfit(event, "a run begins with run_created, once")
        if run.phase in OVER:
            raise _misfit(event, "the run is over")
        if last is not None and event.at > last.at:
            self._count_time(event, event.at - last.at)
        try:
            _HANDLERS[kind](self, event, event.body)
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            raise _misfit(event, repr(error)) from error
        self._last = event

    def _count_time(self, event: e.Event, passed: timedelta) -> None:
        """Adds the time before an event to what the run was doing."""
        if isinstance(event.body, _MAY_HAVE_DIED) and event.body.died:
            return  # nobody knows how long a call took if its process died
        doing = "waiting" if self.run.paused or self.questions else self.run.time_counts_as
        doing = "running" if self.calls_open else doing
        self.spent = {**self.spent, doing: self.spent.get(doing, _NO_TIME) + passed}

    def result(self) -> Run:
        """Returns the run after the events."""
        return replace(
            self.run,
            steps=self.steps,
            questions=self.questions,
            question_events=self.question_events,
            calls_open=frozenset(self.calls_open),
            calls=self.calls,
            spent=self.spent,
            last=self._last,
            updated_at=self._last.at if self._last else None,
        )

    def _set(self, **fields: Any) -> None:
        self.run = replace(self.run, **fields)

    def _spend(self, tokens: int, cost: str) -> None:
        if tokens or cost:
            money = self.run.money + (Decimal(cost) if cost else 0)
            self._set(tokens=self.run.tokens + tokens, money=money)

    def _planned(self, body: e.PlanningBody) -> None:
        """Counts what planning used."""
        used = {**self.run.models}
        for name, (calls, tokens) in body.models.items():
            before = used.get(name, ModelUse(0, 0))
            used[name] = ModelUse(before.calls + calls, before.tokens + tokens)
        self._set(models=used)
        self._spend(body.tokens, body.cost)

    def _require_hash(self, event: e.Event, digest: str) -> None:
        if self.run.plan is None or self.run.plan.hash != digest:
            raise _misfit(event, "its hash is not the hash of the current plan")

    def _require_second_person(self, event: e.Event) -> None:
        """Refuses a permission by the person who asked for the run, or last changed its plan."""
        if why := why_cannot_approve(self.run, event.by):
            raise _misfit(event, why)

    def _approved_plan(self) -> ApprovedPlan | None:
        plan = self.run.plan
        return ApprovedPlan(plan, self.run.templates) if plan is not None else None

    def run_created(self, event: e.Event, body: e.RunCreated) -> None:
        self._set(
            request=body.request,
            locale=body.locale,
            options=body.options,
            origin=body.origin,
            folder=body.folder,
            created_at=event.at,
            requested_by=event.by,
        )

    def triaged(self, _: e.Event, body: e.Triaged) -> None:
        self._set(phase=RunStatus.PLANNING, decision=body.decision, reason=body.reason)
        self._planned(body)

    def planning_failed(self, _: e.Event, body: e.PlanningFailed) -> None:
        if self.run.plan is None:
            self._set(problems=body.problems)
        self._planned(body)

    def plan_proposed(self, event: e.Event, body: e.PlanProposed) -> None:
        """Takes over a plan: steps keep their state by name.

        A step that does something else now loses its permit; one that the plan no longer has is
        kept in `removed_steps`, with the calls it made.
        """
        plan, steps = body.plan, {**self.run.removed_steps, **self.steps}
        removed, before = dict[str, StepState](), self.run.plan.by_id if self.run.plan else {}
        self.steps = Steps(dict.fromkeys([step.id for step in plan.steps], _NEW_STEP))
        for name, step in steps.items():
            root = root_of(name)
            if root not in plan.by_id:
                removed[name] = waiting_again(step)
            elif step.permit is not None and (
                root not in before or differ(before[root], plan.by_id[root])
            ):
                # A person allowed another call than this one.
                self.steps[name] = replace(step, permit=None)
            else:
                self.steps[name] = step
        seen = {root_of(name) for name in self.run.permits} & plan.by_id.keys() & before.keys()
        same = {name for name in seen if not differ(before[name], plan.by_id[name])}
        # A plan that a person or a program gave is no replan: when it runs, all of it is approved.
        is_given = body.origin not in ("model", "rules")
        replanning = self.run.phase is RunStatus.REPLANNING and not is_given
        self._set(
            plan=plan,
            acts=body.acts,
            templates=body.templates,
            # Once pinned, always the same: neither a revision nor an undo may change what is used.
            pins={**body.pins, **self.run.pins} if body.pins else self.run.pins,
            approved="",
            previewing="",
            previewed=None,
            permits={k: v for k, v in self.run.permits.items() if root_of(k) in same},
            left_out=tuple(each for each in self.run.left_out if root_of(each) in same),
            review_reasons=None,
            drops_in_review=(),
            locale=plan.locale,
            problems=body.problems,
            estimate=body.estimate,
            figures=body.figures,
            revisions=self.run.revisions + 1,
            removed_steps=removed,
            change_asked=False,
            phase=RunStatus.REPLANNING if replanning else RunStatus.PLANNING,
            running_hash="",
            edited_by=event.by if event.by.speaks else self.run.edited_by,
            time_counts_as="waiting",
        )
        self._planned(body)

    def review_asked(self, event: e.Event, body: e.ReviewAsked) -> None:
        self._require_hash(event, body.hash)
        # A new review request voids an earlier approval of the same plan.
        approved = "" if self.run.approved == body.hash else self.run.approved
        self._set(
            phase=RunStatus.REVIEWING,
            approved=approved,
            review_reasons=body.reasons,
            drops_in_review=body.drops,
            change_asked=False,
            time_counts_as="waiting",
        )

    def preview_started(self, event: e.Event, body: e.PreviewStarted) -> None:
        """Lets reads run before the approval: again where they failed, or data is given."""
        self._require_hash(event, body.hash)
        run = self.run
        if run.phase not in BEFORE_START or run.is_approved or run.plan is None:
            raise _misfit(event, "only a plan that waits for its approval is previewed")
        if run.options.mode == "review" and event.by.kind == "program":
            raise _misfit(event, "a person wants to see this plan before anything runs")
        if body.fresh:
            self.steps = without_looks(self.steps, lambda _, __: True)
        self._try_again()
        known = [name for name in body.given if name in run.plan.by_id]
        again = {*known, *downstream(run.plan.needs, known)}
        self.steps = without_looks(self.steps, lambda name, _: root_of(name) in again)
        for name, digest in body.given.items():
            if name not in run.plan.by_id or name in run.acts:
                raise _misfit(event, f"no result can be given for {name!r}")
            self._require_step(event, name, NOT_STARTED)
            self.steps[name] = StepState(
                status=StepStatus.DONE,
                result_hash=digest,
                looked_at=True,
                given_by=event.by.label or event.by.kind,
                finished_at=event.at,
            )
        self._set(previewing=body.hash, previewed=None, left_out=())

    def preview_made(self, event: e.Event, body: e.PreviewMade) -> None:
        if not self.run.previewing or self.run.previewing != body.hash:
            raise _misfit(event, "no preview of this plan is under way")
        self._set(previewing="", previewed=body)

    def _try_again(self) -> None:
        """Lets steps wait again that failed in a preview, or were passed over for that."""
        self.steps = without_looks(self.steps, failed_looks(self.steps))

    def plan_approved(self, event: e.Event, body: e.PlanApproved) -> None:
        self._require_hash(event, body.hash)
        if event.by.kind != "person":
            raise _misfit(event, f"a {event.by.kind} cannot approve a plan")
        self._require_second_person(event)
        permits = permits_of(self.run, self.steps, body) if body.preview else {}
        for name, state in self.steps.items() if permits else ():
            # They say more than what was said of a call before; what was done before was seen.
            if state.permit is not None:
                permit = None if name in permits else state.permit.replace(touches=())
                self.steps[name] = replace(state, permit=permit)
        self._set(
            permits=permits,
            items_seen=self.run.previewed.items if permits and self.run.previewed else {},
            left_out=body.left_out,
            reads_again=body.fresh,
            bounds=body.bounds,
            previewing="",
            previewed=self.run.previewed if body.preview else None,
            approved_by=event.by,
            approved=body.hash,
            approved_tools=body.tools,
            approved_plan=self._approved_plan(),
            drops_approved=self.run.drops_in_review,
        )

    def changes_asked(self, event: e.Event, body: e.ChangesAsked) -> None:
        self._set(
            approved="",
            edited_by=event.by,
            phase=RunStatus.PLANNING,
            reason=body.text,
            rejections=self.run.rejections + 1,
            change_asked=True,
            time_counts_as="planning",
        )

    def question_asked(self, event: e.Event, body: e.QuestionAsked) -> None:
        if body.question in self.questions:
            raise _misfit(event, f"question {body.question!r} is open already")
        self.questions[body.question], self.question_events[body.question] = body, event.number
        if body.step is not None:
            step = self._require_step(event, body.step, (*UNFINISHED, StepStatus.UNKNOWN))
            if body.kind == "consent":  # what was seen before is not what would happen
                self._set(permits={k: v for k, v in self.run.permits.items() if k != body.step})
                step = replace(step, permit=None)
            if step.status is not StepStatus.UNKNOWN:
                again = step.consents_asked + (body.kind == "consent")
                self._end_call(
                    body.step, replace(step, status=StepStatus.ASKING, consents_asked=again)
                )

    def question_answered(self, event: e.Event, body: e.QuestionAnswered) -> None:
        asked = self._close_question(event, body.question)
        timed_out = body.no_answer and event.by.kind == "system"
        if asked.kind not in FOR_PROGRAMS and not timed_out:
            if event.by.kind != "person":
                raise _misfit(event, f"a {event.by.kind} cannot answer this question")
            if permits(asked, body.answer):
                self._require_second_person(event)
        if (limit := asked.limit) is None or body.no_answer:
            return
        if body.answer == GO_ON:
            self._set(grants={**self.run.grants, limit: self.run.grants.get(limit, 0) + 1})
        elif limit in ("replans", "iterations"):
            self._set(limit_refused=True)

    def question_withdrawn(self, event: e.Event, body: e.QuestionWithdrawn) -> None:
        self._close_question(event, body.question)

    def _close_question(self, event: e.Event, name: str) -> e.QuestionAsked:
        if name not in self.questions:
            raise _misfit(event, f"question {name!r} is not open")
        return self.questions.pop(name)

    def run_started(self, event: e.Event, body: e.RunStarted) -> None:
        self._require_hash(event, body.hash)
        replanned = self.run.phase is RunStatus.REPLANNING
        # Nobody who approved the plan alone, or no plan, has agreed to what was given.
        is_agreed = self.run.is_approved and self.run.previewed is not None
        if not is_agreed and any(each.given_by for each in self.steps.values()):
            self.steps = without_looks(self.steps, lambda _, __: True)
        elif self.run.reads_again:
            self.steps = without_looks(self.steps, lambda _, state: not state.given_by)
        self._try_again()
        for name, state in self.steps.items():
            if state.looked_at:
                self.steps[name] = replace(state, looked_at=False)
        self._set(
            phase=RunStatus.RUNNING,
            previewing="",
            time_counts_as="running",
            running_hash=body.hash,
            started_at=self.run.started_at or event.at,
            approved_plan=self.run.approved_plan if replanned else self._approved_plan(),
        )

    def plan_rejected(self, _: e.Event, body: e.PlanRejected) -> None:
        self._set(approved="", reason=body.reason)

    def run_paused(self, _: e.Event, body: e.RunPaused | e.RunRepaired) -> None:
        self._set(paused=True, reason=body.reason)

    run_repaired = run_paused

    def run_resumed(self, _: e.Event, __: e.RunResumed) -> None:
        self._set(paused=False, reason="")

    def cancel_asked(self, _: e.Event, body: e.CancelAsked) -> None:
        self._set(cancel_asked=True, reason=body.reason)

    def request_answered(self, _: e.Event, body: e.RequestAnswered) -> None:
        self._set(answer_hash=body.result)

    def run_finished(self, _: e.Event, body: e.RunFinished) -> None:
        self.questions = {}
        self._set(phase=RunStatus(body.status), reason=body.reason, paused=False, previewing="")

    def replan_started(self, _: e.Event, body: e.ReplanStarted) -> None:
        self._set(
            phase=RunStatus.REPLANNING,
            time_counts_as="planning",
            reason=body.cause,
            replans=self.run.replans + (body.kind in ("failure", "advice")),
            iterations=self.run.iterations + (body.kind == "iteration"),
            advice=None,
        )

    def _require_step(
        self, event: e.Event, name: str, allowed: tuple[StepStatus, ...]
    ) -> StepState:
        step = self.steps.get(name)
        # A part of a map or plan step is added when it first starts; in a preview before its whole.
        whole = root_of(name) if self.run.previewing else parent_of(name)
        if step is None and whole in self.steps:
            step = _NEW_STEP
        if step is None:
            raise _misfit(event, f"the plan has no step {name!r}")
        if step.status not in allowed:
            raise _misfit(event, f"step {name!r} is {step.status}")
        return step

    def _end_call(self, name: str, step: StepState) -> None:
        self.steps[name] = step
        self.calls_open.discard(name)

    def step_started(self, event: e.Event, body: e.StepStarted) -> None:
        step = self._require_step(event, body.step, NOT_STARTED)
        if why := why_not_begun(self.run, self.steps, body):
            raise _misfit(event, why)
        if body.inputs:  # map and plan steps themselves call nothing
            self.calls += 1
        self.steps[body.step] = StepState(
            status=StepStatus.RUNNING,
            attempts=body.attempt,
            inputs=body.inputs,
            call_mark=body.call_mark,
            reply=step.reply,
            permit=step.permit,
            consents_asked=step.consents_asked,
            attempts_answered=step.attempts_answered,
            started_at=event.at,
            callee=body.callee,
            item=body.item,
            unsure=step.unsure,
            past_calls=step.past_calls,
            looked_at=bool(self.run.previewing),
        )
        if body.inputs:
            self.calls_open.add(body.step)

    def _is_look(self, step: StepState) -> bool:
        """Tells whether a step ends for a preview that has not begun before."""
        return bool(self.run.previewing) and step.status in NOT_STARTED

    def step_done(self, event: e.Event, body: e.StepDone) -> None:
        step = self._require_step(event, body.step, _RESULT_MISSING)
        # What a person knows of a call says nothing about how long it took.
        known = step.finished_at if step.status is StepStatus.UNKNOWN else None
        ended = replace(
            step,
            status=StepStatus.DONE,
            result_hash=body.result,
            error="",
            tokens=body.tokens,
            program=(event.by.name or "a program") if event.by.kind == "program" else "",
            finished_at=known or event.at,
            unsure=False,
        )
        self._end_call(body.step, ended)
        self._spend(body.tokens, body.cost)

    def step_reused(self, event: e.Event, body: e.StepReused) -> None:
        self.steps[body.step] = replace(
            self._require_step(event, body.step, NOT_STARTED),
            status=StepStatus.DONE,
            result_hash=body.result,
            program=body.program,
            finished_at=body.done_at or event.at,
            reused_from=body.run,
        )

    def step_failed(self, event: e.Event, body: e.StepFailed) -> None:
        step = self._require_step(event, body.step, (*UNFINISHED, StepStatus.UNKNOWN))
        status = StepStatus.WAITING if body.again else StepStatus.FAILED
        ended = replace(
            step,
            status=StepStatus.SKIPPED if body.passed else status,
            error=body.error,
            finished_at=event.at,
            error_kind=body.kind,
            unsure=body.unsure or (body.again and step.unsure),
            rule="error" if body.passed else "",
            result_hash=body.result,
            looked_at=step.looked_at or self._is_look(step),
        )
        self._end_call(body.step, ended)
        self._spend(body.tokens, body.cost)

    def step_replied(self, event: e.Event, body: e.StepReplied) -> None:
        step = self._require_step(event, body.step, _ASKING)
        if body.instead_of and self.run.options.second_person != "never":
            raise _misfit(event, "nobody else has seen these values")
        # What a call asks later does not take back the consent to make it.
        given: dict[str, Any] = {"permit": body}
        if not body.permit:
            given = {"reply": body, "attempts_answered": step.attempts}
        self.steps[body.step] = replace(step, status=StepStatus.WAITING, **given)

    def step_skipped(self, event: e.Event, body: e.StepSkipped) -> None:
        before = self.steps.get(body.step, _NEW_STEP)
        # A running step can be skipped only if it calls nothing itself.
        allowed = UNFINISHED if not before.inputs else (*NOT_STARTED, *_ASKING)
        ended = replace(
            self._require_step(event, body.step, allowed),
            status=StepStatus.SKIPPED,
            error=body.reason,
            finished_at=event.at,
            error_kind="" if event.by.kind == "system" else "person",
            rule=body.rule,
            result_hash=body.result,
            looked_at=bool(body.rule) and self._is_look(before),
        )
        self._end_call(body.step, ended)

    def step_cancelled(self, event: e.Event, body: e.StepCancelled) -> None:
        step = self._require_step(event, body.step, UNFINISHED)
        ended = replace(step, status=StepStatus.CANCELLED, error=body.reason, finished_at=event.at)
        self._end_call(body.step, ended)

    def step_unknown(self, event: e.Event, body: e.StepUnknown) -> None:
        before = self.steps.get(body.step)
        unsure = before is not None and before.unsure
        step = self._require_step(event, body.step, UNFINISHED if unsure else BEGUN)
        at = step.started_at if body.died else event.at
        ended = replace(step, status=StepStatus.UNKNOWN, error=body.reason, finished_at=at)
        self._end_call(body.step, ended)

    def step_reset(self, event: e.Event, body: e.StepReset) -> None:
        step = self._require_step(event, body.step, _ENDED)
        permit = step.permit if body.same_call else None
        self.steps[body.step] = replace(waiting_again(step), permit=permit)

    def step_progressed(self, event: e.Event, body: e.StepProgressed) -> None:
        step = self._require_step(event, body.step, BEGUN)
        self.steps[body.step] = replace(step, progress=body.text)

    def step_waits(self, event: e.Event, body: e.StepWaits) -> None:
        until = event.at + timedelta(seconds=body.seconds) if body.seconds else None
        step = self._require_step(event, body.step, NOT_STARTED)
        self.steps[body.step] = replace(step, wakes_at=until)

    def step_advised(self, event: e.Event, body: e.StepAdvised) -> None:
        self._require_step(event, body.step, BEGUN)
        self._set(advice=self.run.advice or body)


def _misfit(event: e.Event, why: str) -> JournalDamaged:
    about = {"number": event.number, "kind": event.body.type, "why": why}
    return JournalDamaged(Sentence("event {number} ({kind}) does not fit: {why}", **about))


_HANDLERS: Final = {
    event_type: cast("Callable[[_Fold, e.Event, Any], None]", getattr(_Fold, event_type.type))
    for event_type in e.EVENT_TYPES
}
