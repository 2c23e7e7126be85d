"""What waits in a thread when a message comes: questions, a plan under review, earlier runs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from plansmith.engine.answers import guarded, permits
from plansmith.plan.events import QuestionAsked
from plansmith.plan.run import Run, RunStatus
from plansmith_planner.threads.memory import MOST_RUNS

if TYPE_CHECKING:
    from plansmith.engine.journal import Journal
    from plansmith.plan.events import Actor
    from plansmith.plan.thread import ThreadState
    from plansmith.runs.service import RunService

# What the system itself asks before an effect or beyond a limit: no message answers that.
ASKED_BY_PLANS: Final = frozenset({"step", "call", "request"})


class Waiting(NamedTuple):
    """An open question of a run; `guards`: something is changed once it is answered.

    `permits`: it only asks whether to go on with that. `number` is that of the event that asked:
    a question that is asked again under its name is another one, with another `key`.
    """

    run: Run
    question: QuestionAsked
    guards: bool = False
    permits: bool = False
    number: int = 0

    @property
    def name(self) -> str:
        """The name of the question in its run."""
        return self.question.question

    @property
    def key(self) -> str:
        """Names the question apart from an earlier or later one of the same name."""
        return f"{self.run.id}/{self.number}"


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
    found: list[Run] = []
    questions: list[Waiting] = []
    decisions: list[Waiting] = []
    for name in reversed(thread.runs[-MOST_RUNS:]):
        journal = await runs.journals.readable(name)
        if journal is None or journal.run.damage:
            continue
        run = journal.run
        found.append(run)
        if run.status.over or not run.questions:
            continue
        known = await runs.intake.known(run.plan, run.templates)
        for asked in reversed([*run.questions.values()]):
            guards = bool(run.plan and asked.step and guarded(run.plan, asked.step, known))
            # A program answers nothing after which something is changed.
            by_message = asked.kind in ASKED_BY_PLANS and (by.kind == "person" or not guards)
            number = _asked_at(journal, asked.question)
            waiting = Waiting(run, asked, guards, permits(run, asked, known), number)
            (questions if by_message else decisions).append(waiting)
    return Situation(found, questions, decisions)


def open_question(journal: Journal, question: str) -> str:
    """Returns the key of a question of a run; empty if it is not open."""
    is_open = question in journal.run.questions
    return f"{journal.id}/{_asked_at(journal, question)}" if is_open else ""


def _asked_at(journal: Journal, question: str) -> int:
    """Returns the number of the event that asked a question last."""
    for each in reversed(journal.events):
        if isinstance(each.body, QuestionAsked) and each.body.question == question:
            return each.number
    return 0
