"""A thread as a planner reads it: what was said, decided and found, as messages."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from plansmith.plan import events as e
from plansmith.plan.run import Run, RunStatus
from plansmith.plan.sentence import in_language
from plansmith.plan.steps import ReplyStep
from plansmith.ports import Message
from plansmith.text import clip

if TYPE_CHECKING:
    from plansmith.plan.thread import ThreadMessage, ThreadState

_LONGEST_ANSWER: Final = 800
_LONGEST_TEXT: Final = 400


@dataclass(frozen=True, slots=True)
class RunDigest:
    """A run with its results and events, as far as they are needed to tell what came of it."""

    run: Run
    events: Sequence[e.Event] = ()


def conversation(
    thread: ThreadState, runs: Mapping[str, RunDigest], *, reader: e.Actor | None = None
) -> tuple[Message, ...]:
    """Returns a thread as messages for a model; what came of each request stands behind it.

    For a request of `reader`, the words of other programs are not those of a user.
    """
    messages: list[Message] = []
    start = 0
    if thread.summary is not None:
        start = thread.summary.upto
        messages.append(Message("assistant", f"[what came before, in short] {thread.summary.text}"))
    if thread.summary is None and thread.adopted in runs:
        first = runs[thread.adopted]
        messages += [Message("user", first.run.request), Message("assistant", outcome(first))]
    for said in thread.messages:
        if said.number > start:
            messages += _told(said, runs, reader or said.by)
    return tuple(messages)


def _told(said: ThreadMessage, runs: Mapping[str, RunDigest], reader: e.Actor) -> Iterator[Message]:
    if said.undone and said.instead not in runs:
        return
    if said.by.kind == "person" or said.by.label == reader.label:
        yield Message("user", said.text)
    else:
        yield Message("assistant", f"(said by the {said.by.label}) {said.text}")
    reading = said.reading
    if said.undone:
        yield Message("assistant", f"(taken back by the person) {outcome(runs[said.instead])}")
        return
    if said.reply is not None:
        yield Message("assistant", clip(str(said.reply.text), _LONGEST_ANSWER))
    elif reading is not None and reading.kind == "request":
        run = runs.get(said.instead) or runs.get(reading.run)
        yield from [Message("assistant", outcome(run))] if run is not None else []
    elif reading is not None and reading.kind == "answer":
        yield Message("assistant", "(taken as the answer to a question of the request before)")
    elif reading is not None and reading.kind == "change":
        yield Message("assistant", "(the plan was changed as asked)")


def outcome(digest: RunDigest) -> str:
    """Says what came of a run: its plan, what was decided, how it stands, what it answered."""
    run = digest.run
    lines = [f"Status: {run.status.value}."]
    if run.plan is not None and run.plan.goal and run.plan.goal != run.request:
        lines.append(f"Goal: {clip(run.plan.goal, _LONGEST_TEXT)}.")
    if run.plan is not None and run.plan.steps:
        steps = ", ".join(step.id for step in run.plan.steps[:12])
        lines.append(f"Plan: {steps}.")
    lines += decided(digest.events)
    for asked in run.questions.values():
        lines.append(f"Open question: {clip(in_language(asked.text, 'en'), _LONGEST_TEXT)}")
    answer = answer_text(run)
    if answer:
        lines.append(f"Answer: {clip(answer, _LONGEST_ANSWER)}")
    return "\n".join(lines)


def decided(events: Sequence[e.Event]) -> list[str]:
    """Returns what persons decided about a run, oldest first."""
    asked: dict[str, str] = {}
    lines: list[str] = []
    for event in events:
        match event.body:
            case e.QuestionAsked(question=name, text=text):
                asked[name] = in_language(text, "en")
            case e.QuestionAnswered(question=name, answer=answer) if name in asked:
                shown = answer if isinstance(answer, str) else json.dumps(answer)
                lines.append(f"Asked {asked[name]!r}: {clip(shown, _LONGEST_TEXT)}.")
            case e.ChangesAsked(text=text):
                lines.append(f"A change of the plan was asked for: {clip(text, _LONGEST_TEXT)}.")
            case e.PlanApproved():
                lines.append("The plan was approved.")
            case e.PlanRejected():
                lines.append("The plan was rejected.")
            case _:
                continue
    return lines


def answer_text(run: Run) -> str:
    """Returns what a run told the person: the texts of its replies, or its answer at once."""
    if run.status is RunStatus.ANSWERED:
        return run.report.strip()
    replies = (
        [step.id for step in run.plan.steps if isinstance(step, ReplyStep)] if run.plan else []
    )
    texts = [run.steps[name].result for name in replies if name in run.steps]
    return "\n".join(each.strip() for each in texts if isinstance(each, str))
