"""What waits in a thread when a message comes: questions, a plan under review, earlier runs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from plansmith.engine.answers import guarded, permits
from plansmith.plan.events import QuestionAsked
from plansmith.plan.run import Run, RunStatus

if TYPE_CHECKING:
    from plansmith.engine.journal import Journal
    from plansmith.plan.events import Actor, Event
    from plansmith.plan.thread import ThreadState
    from plansmith.runs.service import RunService

MOST_RUNS: Final = 20
# What the system itself asks before an effect or beyond a limit: no message answers that.
ASKED_BY_PLANS: Final = frozenset({"step", "call", "request"})


class Waiting(NamedTuple):
    """An open question of a run; `guards`: something is changed once it is answered.

    `permits`: it only asks whether to go on with that. `number` is that of the event that asked:
    a question that is asked again under its name is another one.
    """

    run: Run
    question: QuestionAsked
    guards: bool = False
    permits: bool = False
    number: int = 0

    @property
    def key(self) -> str:
        """Names the question apart from an earlier or later one of the same name."""
        return _key(self.run.id, self.number)


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
    def asked(self) -> tuple[str, ...]:
        """The keys of the questions that a message may answer."""
        return tuple(each.key for each in self.questions)

    def seen_with(self, asked: Collection[str]) -> Situation:
        """Returns what a message meets that was said when only these questions were open.

        A question that was asked later is answered by name only: the message was not meant for it.
        """
        known = [each for each in self.questions if each.key in asked]
        later = [each for each in self.questions if each.key not in asked]
        return replace(self, questions=known, decisions=[*self.decisions, *later])

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
    found: list[Journal] = []
    for name in reversed(thread.runs[-MOST_RUNS:]):
        journal = await runs.journals.readable(name)
        if journal is not None and not journal.run.damage:
            found.append(journal)
    waiting = [each for journal in found for each in [w async for w in _waiting(journal, runs)]]
    return Situation(
        [journal.run for journal in found],
        [each for each in waiting if _takes_message(each, by)],
        [each for each in waiting if not _takes_message(each, by)],
    )


def _takes_message(waiting: Waiting, by: Actor) -> bool:
    """Tells whether a message may answer; a program's never where something is changed."""
    if waiting.question.kind not in ASKED_BY_PLANS:
        return False
    return by.kind == "person" or not waiting.guards


def question_key(journal: Journal, question: str) -> str:
    """Returns the key of a question of a run that is open."""
    return _key(journal.id, _asked_at(journal.events).get(question, 0))


def is_open(journal: Journal, question: str, asked: Collection[str]) -> bool:
    """Tells whether a question with one of these keys is open: not one that is asked anew."""
    return question in journal.run.questions and question_key(journal, question) in asked


def _key(run: str, number: int) -> str:
    return f"{run}/{number}"


def _asked_at(events: Sequence[Event]) -> dict[str, int]:
    """Returns the number of the event that asked each question last."""
    return {
        event.body.question: event.number
        for event in events
        if isinstance(event.body, QuestionAsked)
    }


async def _waiting(journal: Journal, runs: RunService) -> AsyncIterator[Waiting]:
    run = journal.run
    if run.status.over or not run.questions:
        return
    known = await runs.intake.known(run.plan, run.templates)
    numbers = _asked_at(journal.events)
    for asked in reversed([*run.questions.values()]):
        acting = guarded(run.plan, asked.step, known) if run.plan and asked.step else ()
        number = numbers.get(asked.question, 0)
        yield Waiting(run, asked, bool(acting), permits(run, asked, known), number)
