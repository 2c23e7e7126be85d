"""Applies events to the steps of a run and to its prefetched reads."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any, Final

from msgspec.structs import replace

from plansmith.errors import JournalDamaged
from plansmith.plan import events as e
from plansmith.plan.data import CALL_MARK
from plansmith.plan.planning_events import PrefetchEnded, PrefetchStarted
from plansmith.plan.run import Run, StepState, StepStatus
from plansmith.plan.run_parts import Made, Prefetch
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


class StepsFold:
    """Builds the steps of a run, event by event."""

    run: Run
    steps: dict[str, StepState]

    def _set(self, **fields: Any) -> None:
        """Changes fields of the run."""
        self.run = replace(self.run, **fields)

    def _step(self, event: e.Event, name: str, allowed: _Allowed) -> StepState:
        step = self.steps.get(name)
        if step is None and name.rpartition("/")[0] in self.steps:
            step = StepState()  # a part of a map or plan step is added when it first starts
        if step is None:
            raise misfit(event, f"the plan has no step {name!r}")
        if step.status not in allowed:
            raise misfit(event, f"step {name!r} is {step.status}")
        return step

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
        step = self._step(event, body.step, CALLED)
        self.steps[body.step] = replace(step, progress=body.text)

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
        step = self._step(event, body.step, WAITING)
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
        again = StepStatus.SKIPPED if body.passed else again
        self._end(event, body.step, again, body.error, OPEN_OR_UNSURE)
        unsure = body.unsure or (body.again and self.steps[body.step].unsure)
        self.steps[body.step] = replace(
            self.steps[body.step],
            error_kind=body.kind,
            unsure=unsure,
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
        self._end(event, body.step, StepStatus.SKIPPED, body.reason, allowed)
        self.steps[body.step] = replace(
            self.steps[body.step],
            error_kind="" if event.by.kind == "system" else "person",
            rule=body.rule,
            result_hash=body.result,
        )

    def step_waits(self, event: e.Event, body: e.StepWaits) -> None:
        step = self._step(event, body.step, WAITING)
        until = event.at + timedelta(seconds=body.seconds) if body.seconds else None
        self.steps[body.step] = replace(step, wakes_at=until)

    def step_cancelled(self, event: e.Event, body: e.StepCancelled) -> None:
        self._end(event, body.step, StepStatus.CANCELLED, body.reason, OPEN)

    def step_unknown(self, event: e.Event, body: e.StepUnknown) -> None:
        known = self.steps.get(body.step)
        allowed = OPEN if known is not None and known.unsure else CALLED
        self._end(event, body.step, StepStatus.UNKNOWN, body.reason, allowed)
        if body.died:
            ended = self.steps[body.step]
            self.steps[body.step] = replace(ended, finished_at=ended.started_at)

    def _end(
        self,
        event: e.Event,
        name: str,
        status: StepStatus,
        error: str,
        allowed: _Allowed,
    ) -> None:
        step = self._step(event, name, allowed)
        self.steps[name] = replace(step, status=status, error=error, finished_at=event.at)

    def step_reset(self, event: e.Event, body: e.StepReset) -> None:
        step = self._step(event, body.step, ENDED)
        again = waiting_again(step)
        self.steps[body.step] = replace(again, permit=step.permit) if body.same_call else again

    def step_advised(self, event: e.Event, body: e.StepAdvised) -> None:
        self._step(event, body.step, CALLED)
        self._set(advice=self.run.advice or body)


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
