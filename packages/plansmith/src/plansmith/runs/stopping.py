"""Pauses, resumes and cancels runs; skips steps."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from plansmith.errors import Refused, StaleWriter
from plansmith.plan import events as e
from plansmith.plan.run import NOT_STARTED, Run, StepStatus
from plansmith.plan.sentence import Sentence
from plansmith.runs.decisions import ONLY_PERSONS, waiting_behind
from plansmith.runs.journals import wrong_status

if TYPE_CHECKING:
    from plansmith.engine.journal import Journal
    from plansmith.runs.execution import RunExecution
    from plansmith.runs.journals import Journals

_SKIPPED: Final = Sentence("a person left it out")


class LeftOut(NamedTuple):
    """A step that a person skipped, and those that cannot run without it."""

    step: str
    with_it: tuple[str, ...] = ()


class RunStopping:
    """Stops runs, for a while or for good, whichever process executes them."""

    def __init__(self, *, journals: Journals, execution: RunExecution) -> None:
        self._journals = journals
        self._execution = execution

    async def cancel(self, run_id: str, *, by: e.Who = "", reason: str = "") -> Run:
        """Stops a run for good: no step starts any more, running calls are cancelled.

        A cancelled call may have taken effect already: its step becomes `unknown`.
        """
        journal = await self._journals.load_cached(run_id)
        asked = await self._instruct(
            journal, e.CancelAsked(reason=reason), by, lambda run: not run.cancel_asked
        )
        if await self._execution.until_stopped(run_id):
            await journal.catch_up()
        elif asked:
            # Another process that makes calls for this run gets time to stop them.
            grace_s = self._execution.limits.grace_s if journal.run.calls_open else 0
            try:
                async with asyncio.timeout(grace_s):
                    while not journal.run.status.over:
                        await journal.wait()
                        await journal.catch_up()
            except TimeoutError:
                pass
        while not journal.run.status.over:
            try:
                await self._execution.end_or_replan(journal)
            except StaleWriter:
                await journal.catch_up()
        return await self._journals.whole(journal)

    async def pause(self, run_id: str, *, by: e.Who = "", reason: str = "") -> Run:
        """Pauses a run: no further step starts until `resume`; running steps finish."""
        journal = await self._journals.load_cached(run_id)
        await self._pause(journal, by, reason)
        if await self._execution.until_stopped(run_id):
            await journal.catch_up()
        return await self._journals.whole(journal)

    async def pause_at_once(self, run_id: str, *, by: e.Who = "", reason: str = "") -> None:
        """Pauses a run without waiting for running calls; the executing process obeys."""
        journal = await self._journals.load_cached(run_id)
        if not await self._pause(journal, by, reason):
            raise wrong_status(journal.run)

    async def _pause(self, journal: Journal, by: e.Who, reason: str) -> bool:
        paused = e.RunPaused(reason=reason)
        return await self._instruct(journal, paused, by, lambda run: not run.paused)

    async def resume(self, run_id: str, *, by: e.Who = "", force: bool = False) -> Run:
        """Ends the pause of a run; call `run` to execute it.

        By `force`, also takes it from a living process, which then writes and calls nothing more.
        """
        journal = await self._journals.load_to_write(run_id)
        if force:
            await self._take_over(journal, e.actor(by))
        resumed = await self._instruct(journal, e.RunResumed(), by, lambda run: run.paused)
        if not resumed and not force:
            status = Sentence(f"status.{journal.run.status.value}")
            why = Sentence("run {run} is not paused: it is {status}", run=run_id, status=status)
            raise Refused(why)
        return await self._journals.whole(journal)

    async def _take_over(self, journal: Journal, by: e.Actor) -> None:
        """Takes a run from the process that executes it, if one does, and records that."""
        if by.kind != "person":
            raise Refused(Sentence("run.kind_no_taking", kind=by.kind), hint=ONLY_PERSONS)
        ownership = self._journals.ownership
        if journal.run.status.over or not (process := await ownership.owner_elsewhere(journal.id)):
            return
        async with ownership.writing(journal, force=True):
            await journal.catch_up()
            reason = Sentence(
                "taken over from {process}: what it was calling may have taken effect",
                process=process,
            )
            await self._instruct(journal, e.RunResumed(reason=reason), by, lambda _: True)

    async def skip(self, run_id: str, step: str, *, by: e.Who = "") -> LeftOut:
        """Skips a step that has not started or that waits for an answer; the rest goes on.

        Args:
            run_id: The id of the run.
            step: The id of the step.
            by: Who acts.

        Returns:
            The step and those that cannot run without it.
        """
        journal = await self._journals.load_to_write(run_id)
        with_it: tuple[str, ...] = ()

        def left_out(run: Run) -> list[e.AnyBody]:
            nonlocal with_it
            _require_skippable(run, step)
            asked = [name for name, each in run.questions.items() if each.step == step]
            with_it = waiting_behind(run, step)
            why = Sentence("it needs {step}, which a person left out", step=step)
            return [
                *(e.QuestionWithdrawn(question=name, reason=_SKIPPED) for name in asked),
                e.StepSkipped(step=step, reason=_SKIPPED),
                *(e.StepSkipped(step=name, reason=why) for name in with_it),
            ]

        await self._journals.write(journal, left_out, by=e.actor(by))
        return LeftOut(step, with_it)

    async def _instruct(
        self, journal: Journal, body: e.AnyBody, by: e.Who, is_wanted: Callable[[Run], bool]
    ) -> bool:
        """Writes what the executing process obeys; false if the run is over or need not."""

        def wanted(run: Run) -> list[e.AnyBody]:
            return [] if run.status.over or not is_wanted(run) else [body]

        is_written = await self._journals.write(journal, wanted, by=e.actor(by))
        self._execution.wake(journal.id)
        return is_written


def _require_skippable(run: Run, step: str) -> None:
    state = run.steps.get(step)
    if state is None:
        hint = Sentence("its steps: {names}", names=[*run.steps])
        raise Refused(Sentence("run {run} has no step '{step}'", run=run.id, step=step), hint=hint)
    if run.status.over:
        raise wrong_status(run)
    if state.status is StepStatus.UNKNOWN or state.unsure:
        why = Sentence("it is not known whether '{step}' took effect", step=step)
        raise Refused(why, hint=Sentence("answer its question: done, not_done or retry"))
    if state.status not in (*NOT_STARTED, StepStatus.ASKING):
        status = Sentence(f"status.{state.status.value}")
        hint = Sentence(
            "only a step that has not started, or that waits for an answer, can be skipped"
        )
        raise Refused(Sentence("step '{step}' is {status}", step=step, status=status), hint=hint)
