"""What waits in a thread when a message comes: questions, a plan under review, earlier runs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from plansmith.engine.answers import guarded
from plansmith.errors import JournalDamaged
from plansmith.plan.run import Run, RunStatus

if TYPE_CHECKING:
    from plansmith.plan.events import Actor, QuestionAsked
    from plansmith.plan.thread import ThreadState
    from plansmith.runs.service import RunService

MOST_RUNS: Final = 20
# What the system itself asks before an effect or beyond a limit: no message answers that.
ASKED_BY_PLANS: Final = frozenset({"step", "call", "request"})


class Waiting(NamedTuple):
    """An open question of a run; `guards`: something is changed once it is answered."""

    run: Run
    question: QuestionAsked
    guards: bool = False


@dataclass(frozen=True, slots=True)
class Situation:
    """The runs of a thread, newest first, and what waits for its person, newest first.

    `decisions` are questions that are answered by name only: for consent, about what happened,
    beyond a limit.
    """

    runs: Sequence[Run] = ()
    questions: Sequence[Waiting] = ()
    decisions: Sequence[Waiting] = ()

    @property
    def review(self) -> Run | None:
        """The newest run whose plan waits for a decision."""
        return next((run for run in self.runs if run.phase is RunStatus.REVIEWING), None)

    @property
    def waits_once(self) -> bool:
        """Whether exactly one thing waits, so that nothing else can be meant."""
        return len(self.questions) + len(self.decisions) + (self.review is not None) == 1

    @property
    def planned(self) -> Run | None:
        """The newest run with a plan that can still be changed."""
        open_ = (run for run in self.runs if run.plan is not None and not run.status.over)
        return self.review or next(open_, None)


async def situation_of(thread: ThreadState, runs: RunService, *, by: Actor) -> Situation:
    """Reads the runs of a thread for whoever speaks; those that cannot be read are left out."""
    found: list[Run] = []
    for name in reversed(thread.runs[-MOST_RUNS:]):
        try:
            run = (await runs.journals.load(name)).run
        except JournalDamaged:
            continue  # nothing can be done with it here
        if run.created_at is not None and not run.damage:
            found.append(run)
    waiting = [each for run in found for each in [w async for w in _waiting(run, runs)]]
    return Situation(
        found,
        [each for each in waiting if _takes_message(each, by)],
        [each for each in waiting if not _takes_message(each, by)],
    )


def _takes_message(waiting: Waiting, by: Actor) -> bool:
    """Tells whether a message may answer; a program's never where something is changed."""
    if waiting.question.asks not in ASKED_BY_PLANS:
        return False
    return by.kind == "person" or not waiting.guards


async def _waiting(run: Run, runs: RunService) -> AsyncIterator[Waiting]:
    if run.status.over or not run.questions:
        return
    known = await runs.intake.known(run.plan, run.templates)
    for asked in reversed([*run.questions.values()]):
        acting = guarded(run.plan, asked.step, known) if run.plan and asked.step else ()
        yield Waiting(run, asked, bool(acting))
