"""Records the progress of runs that an outside agent executes by itself."""

from __future__ import annotations

from collections.abc import Iterator

from plansmith.engine.journal import Journal
from plansmith.plan import events as e
from plansmith.plan.data import content_of
from plansmith.plan.plan import Plan
from plansmith.plan.run import BEGUN, StepState, StepStatus
from plansmith.plan.run_options import Origin, RunOptions
from plansmith.plan.sentence import Sentence
from plansmith.runs.intake import NewRun
from plansmith.runs.journals import Journals


class NotedRuns:
    """Writes what the agent reports into journals; such runs stay paused: nothing executes them."""

    def __init__(self, *, journals: Journals, by: e.Actor) -> None:
        self._journals = journals
        self._by = by

    async def read(self, run_id: str) -> Journal:
        """Loads the journal of a run; it is empty if the run does not exist yet."""
        journal = self._journals.new(run_id)
        await journal.catch_up()
        return journal

    async def create(
        self, journal: Journal, plan: Plan, *, origin: Origin, options: RunOptions, reason: str
    ) -> None:
        """Creates a run with this plan, paused."""
        new = NewRun(plan=plan, origin=origin, options=options, by=self._by)
        paused = e.RunPaused(reason=reason)
        await journal.append(new.created(self._journals), _proposed(plan), paused, by=self._by)

    async def propose(self, journal: Journal, plan: Plan) -> None:
        """Writes another version of the plan."""
        before = journal.run.plan or Plan()
        await journal.append(_proposed(plan.replace(revision=before.revision + 1)), by=self._by)

    async def pause(self, journal: Journal, reason: str) -> None:
        """Writes another reason why the run is paused."""
        await journal.append(e.RunPaused(reason=reason), by=self._by)

    async def note(self, journal: Journal, step: str, status: StepStatus) -> None:
        """Records the status of a step: waiting, running, done or failed."""
        bodies = list(_events_to_reach(step, journal.run.steps[step], status))
        if bodies:
            await journal.append(*bodies, by=self._by, values=[None])

    async def end(self, journal: Journal, reason: str) -> None:
        """Ends the run; its journal is kept."""
        await journal.append(e.RunFinished(status="cancelled", reason=reason), by=self._by)


def _proposed(plan: Plan) -> e.PlanProposed:
    return e.PlanProposed(plan=plan, origin="submitted")


def _events_to_reach(step: str, state: StepState, status: StepStatus) -> Iterator[e.AnyBody]:
    """Yields the events that take a step from its present status to another."""
    started = state.status in BEGUN
    if state.status is not StepStatus.WAITING and not (
        started and status is not StepStatus.WAITING
    ):
        if started:
            yield e.StepCancelled(step=step, reason=Sentence("it was reset"))
        yield e.StepReset(step=step, reason=Sentence("it was reset"))
        started = False
    if status in (StepStatus.RUNNING, StepStatus.DONE) and not started:
        yield e.StepStarted(step=step)
    if status is StepStatus.DONE:
        yield e.StepDone(step=step, result=content_of(None).digest)
    if status is StepStatus.FAILED:
        yield e.StepFailed(step=step, error="", kind="person")
