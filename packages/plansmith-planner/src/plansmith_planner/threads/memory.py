"""What a thread remembers: what was said, decided and found, and results that plans may use."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from plansmith.errors import JournalDamaged
from plansmith.plan import events as e
from plansmith.plan.earlier import results_of
from plansmith.plan.run import Run, RunStatus
from plansmith.plan.sentence import in_language
from plansmith.plan.steps import ReplyStep
from plansmith.plan.thread import RunJoined
from plansmith.ports import Message
from plansmith.text import clip
from plansmith_planner.threads.store import ThreadStore

if TYPE_CHECKING:
    from plansmith.plan.earlier import EarlierResult
    from plansmith.plan.run_options import RunOptions
    from plansmith.plan.thread import ThreadState
    from plansmith.runs.journals import Journals

MOST_RUNS: Final = 20
_LONGEST_ANSWER: Final = 800
_LONGEST_TEXT: Final = 400
# What is told of a message that has neither a reply nor a run of its own.
_DONE: Final = {
    "answer": "(taken as the answer to a question of the request before)",
    "change": "(the plan was changed as asked)",
}


class RunDigest(NamedTuple):
    """A run with its results and events, as far as they are needed to tell what came of it."""

    run: Run
    events: Sequence[e.Event] = ()


class ThreadMemory:
    """Reads threads and their runs for whoever plans the next request."""

    def __init__(self, journals: Journals) -> None:
        self._journals = journals
        self.store = ThreadStore(journals.store, journals.clock)

    async def digests(self, names: Sequence[str]) -> list[RunDigest]:
        """Returns runs with their results and events; those that are gone are left out."""
        found: list[RunDigest] = []
        for name in names:
            with suppress(JournalDamaged):  # a result is gone
                if (journal := await self._journals.readable(name)) is not None:
                    whole = await self._journals.whole(journal)
                    found.append(RunDigest(whole, tuple(journal.events)))
        return found

    async def results(self, thread: str, message: int | None) -> Sequence[EarlierResult]:
        """Returns the results that a plan for a message may use: those of earlier messages."""
        state = (await self.store.read(thread)).before(message or 1)
        return results_of([each.run for each in await self.digests(state.runs[-MOST_RUNS:])])

    async def before(self, thread: str, message: int | None) -> Sequence[Message]:
        """Returns the conversation before a message."""
        state = await self.store.read(thread)
        asking = state.message(message or 1)
        return await self.said(state.before(message or 1), reader=asking.by if asking else None)

    async def join(self, run: str, options: RunOptions) -> None:
        """Adds a run that repeats or continues one of a thread to that thread."""
        state = await self.store.read(options.thread)
        known = state.message(options.message or 0)
        if known is not None and run not in state.runs:
            await self.store.add(options.thread, RunJoined(run=run, message=known.number))

    async def said(
        self, thread: ThreadState, *, reader: e.Actor | None = None
    ) -> tuple[Message, ...]:
        """Returns a thread as messages for a model; what came of each request stands behind it.

        For a request of `reader`, the words of other programs are not those of a user.
        """
        runs = {each.run.id: each for each in await self.digests(thread.runs[-MOST_RUNS:])}
        messages: list[Message] = []
        if thread.summary is not None:
            text = f"[what came before, in short] {thread.summary.text}"
            messages.append(Message("assistant", text))
        elif thread.adopted in runs:
            first = runs[thread.adopted]
            messages += [Message("user", first.run.request), Message("assistant", _outcome(first))]
        start = thread.summary.upto if thread.summary else 0
        for said in thread.messages:
            if said.number <= start or (said.undone and said.instead not in runs):
                continue
            run = runs.get(said.instead) or runs.get(said.run)
            if said.undone:
                told = f"(taken back by the person) {_outcome(runs[said.instead])}"
            elif said.reply is not None:
                told = clip(str(said.reply.text), _LONGEST_ANSWER)
            elif said.kind == "request":
                told = _outcome(run) if run is not None else ""
            else:
                told = _DONE.get(said.kind or "", "")
            own = said.by.kind == "person" or said.by.label == (reader or said.by).label
            words = said.text if own else f"(said by the {said.by.label}) {said.text}"
            messages.append(Message("user" if own else "assistant", words))
            messages += [Message("assistant", told)] if told or said.reply is not None else []
        return tuple(messages)


def _outcome(digest: RunDigest) -> str:
    """Says what came of a run: its plan, what was decided, how it stands, what it answered."""
    run = digest.run
    lines = [f"Status: {run.status.value}."]
    if run.plan is not None and run.plan.goal and run.plan.goal != run.request:
        lines.append(f"Goal: {clip(run.plan.goal, _LONGEST_TEXT)}.")
    if run.plan is not None and run.plan.steps:
        lines.append(f"Plan: {', '.join(step.id for step in run.plan.steps[:12])}.")
    lines += _decided(digest.events)
    for asked in run.questions.values():
        lines.append(f"Open question: {clip(in_language(asked.text, 'en'), _LONGEST_TEXT)}")
    answer = answer_text(run)
    return "\n".join([*lines, *([f"Answer: {clip(answer, _LONGEST_ANSWER)}"] if answer else [])])


def _decided(events: Sequence[e.Event]) -> Iterator[str]:
    """Yields what persons decided about a run, oldest first."""
    asked: dict[str, str] = {}
    for event in events:
        match event.body:
            case e.QuestionAsked(question=name, text=text):
                asked[name] = in_language(text, "en")
            case e.QuestionAnswered(question=name, answer=answer) if name in asked:
                shown = answer if isinstance(answer, str) else json.dumps(answer)
                yield f"Asked {asked[name]!r}: {clip(shown, _LONGEST_TEXT)}."
            case e.ChangesAsked(text=text):
                yield f"A change of the plan was asked for: {clip(text, _LONGEST_TEXT)}."
            case e.PlanApproved():
                yield "The plan was approved."
            case e.PlanRejected():
                yield "The plan was rejected."
            case _:
                continue


def answer_text(run: Run) -> str:
    """Returns what a run told the person: the texts of its replies, or its answer at once."""
    if run.status is RunStatus.ANSWERED:
        return run.report.strip()
    steps = run.plan.steps if run.plan else ()
    replies = [step.id for step in steps if isinstance(step, ReplyStep) and step.id in run.steps]
    texts = [run.steps[name].result for name in replies]
    return "\n".join(each.strip() for each in texts if isinstance(each, str))
