"""Pauses, resumes and cancels runs, and leaves steps out."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from plansmith.engine.answers import NOT_BEGUN, behind
from plansmith.engine.journal import Journal
from plansmith.errors import Refused, StaleDecision, StaleWriter
from plansmith.plan import events as e
from plansmith.plan.data import Json
from plansmith.plan.run import Run, StepStatus
from plansmith.plan.sentence import Sentence
from plansmith.runs.execution import RunExecution
from plansmith.runs.journals import Journals

_REASON: Final = Sentence("step.left_out")


class LeftOut(NamedTuple):
    """A step that a person left out, and those that cannot run without it."""

    step: str
    with_it: tuple[str, ...] = ()


async def decided(
    journal: Journal, *bodies: e.AnyBody, by: e.Who, values: Sequence[Json] = ()
) -> None:
    """Write down what somebody decided; of two, the second is refused."""
    try:
        await journal.append(*bodies, by=e.actor(by), values=values)
    except StaleWriter:
        raise StaleDecision(f"someone else decided about run {journal.id} first") from None


class RunStopping:
    """Stops runs, for a while or for good, whoever executes them."""

    def __init__(self, *, journals: Journals, execution: RunExecution) -> None:
        self._journals = journals
        self.execution = execution

    async def cancel(self, run_id: str, *, by: e.Who = "", reason: str = "") -> Run:
        """Stop a run for good, and say why: nothing new starts, what runs is cancelled.

        A call that was cut off in the middle may have taken effect: its step is `unknown`.
        """
        await self.execution.interrupt(
            run_id, lambda executor: executor.cancel(e.actor(by), reason)
        )
        journal = await self._journals.load(run_id)
        if not journal.run.status.over and not journal.run.cancel_asked:
            await decided(journal, e.CancelAsked(reason=reason), by=by)
            await self._let_others_end(journal)
        while not journal.run.status.over:
            try:
                await self.execution.end(journal)
            except StaleWriter:
                await journal.catch_up()
        return await self._journals.whole(journal)

    async def _let_others_end(self, journal: Journal) -> None:
        """Give a process that may be making calls for this run the time to stop them."""
        running = bool(journal.run.calls_open)
        try:
            async with asyncio.timeout(self.execution.limits.grace_s if running else 0):
                while not journal.run.status.over:
                    await journal.wait()
                    await journal.catch_up()
        except TimeoutError:
            return

    async def pause(self, run_id: str, *, by: e.Who = "", reason: str = "") -> Run:
        """Start nothing more until `resume`; what runs now may end."""
        await self.execution.interrupt(run_id, lambda executor: executor.pause(e.actor(by), reason))
        journal = await self._journals.load(run_id)
        if not journal.run.status.over and not journal.run.paused:
            await journal.append(e.RunPaused(reason=reason), by=e.actor(by))
        return await self._journals.whole(journal)

    async def resume(self, run_id: str, *, by: e.Who = "") -> Run:
        """Let a paused run go on; `run` runs it."""
        journal = await self._journals.own(run_id)
        if not journal.run.paused:
            raise Refused(f"run {run_id} is not paused: it is {journal.run.status}")
        await journal.append(e.RunResumed(), by=e.actor(by))
        return await self._journals.whole(journal)

    async def pause_at_once(self, run_id: str, *, by: e.Who = "", reason: str = "") -> None:
        """Write that nothing more starts, while calls still run; who executes it heeds that."""
        while True:
            journal = await self._journals.load(run_id)
            if journal.run.status.over or journal.run.paused:
                raise Refused(f"run {run_id} is {journal.run.status}")
            try:
                await journal.append(e.RunPaused(reason=reason), by=e.actor(by))
            except StaleWriter:
                continue  # it went on meanwhile: that changes nothing about the wish
            return

    async def skip(self, run_id: str, step: str, *, by: e.Who = "") -> LeftOut:
        """Leave a step out that has not begun, or that asks, and tell what cannot run without it.

        It is one append, heeded by whoever conducts the run: nothing is paused, what runs goes on.
        """
        while True:
            journal = await self._journals.own(run_id)
            _check(journal.run, step)
            with_it = behind(journal.run, step)
            try:
                bodies = _left_out(journal.run, step, with_it)
                await journal.append(*bodies, by=e.actor(by))
            except StaleWriter:
                continue  # it went on meanwhile: perhaps the step has begun
            return LeftOut(step, with_it)


def _check(run: Run, step: str) -> None:
    state = run.steps.get(step)
    if state is None:
        raise Refused(f"run {run.id} has no step {step!r}")
    if run.status.over:
        raise Refused(f"run {run.id} is over: it is {run.status}")
    if state.status is StepStatus.UNKNOWN or state.unsure:
        hint = "answer its question: done, not_done or retry"
        raise Refused(f"it is not known whether {step!r} took effect", hint=hint)
    if state.status not in NOT_BEGUN | {StepStatus.ASKING}:
        hint = "only a step that has not begun, or that asks, can be left out"
        raise Refused(f"step {step!r} is {state.status}", hint=hint)


def _left_out(run: Run, step: str, with_it: tuple[str, ...]) -> Iterator[e.AnyBody]:
    for name, asked in run.questions.items():
        if asked.step == step:
            yield e.QuestionWithdrawn(question=name, reason=_REASON)
    yield e.StepSkipped(step=step, reason=_REASON)
    for name in with_it:
        yield e.StepSkipped(step=name, reason=Sentence("step.left_out_need", step=step))
