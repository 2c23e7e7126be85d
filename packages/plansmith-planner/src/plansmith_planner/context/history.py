"""Fits a conversation into a number of tokens: newest messages whole, older ones shortened."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from plansmith.plan.plan import Plan
from plansmith.plan.sentence import Sentence
from plansmith.ports import ChatModel, Clock, Message, Prompt
from plansmith_planner.context.fence import fence, indented, label
from plansmith_planner.context.timeouts import Failed, with_timeout
from plansmith_planner.context.token_budget import clipped, rough_count
from plansmith_planner.model_calls import ModelAnswer, read_answer, render

TITLE: Final = "conversation so far"
_SHARE_OF_OLDER: Final = 3  # a third of the tokens is for messages that do not fit whole
_MAX_LINE: Final = 120
_SUMMARY_S: Final = 20.0
_SUMMARY_READS: Final = 8000  # tokens


@dataclass(frozen=True, slots=True)
class RunOutcome(Message):
    """What came of an earlier request; `before` is that request with its plan."""

    before: tuple[str, Plan] | None = None


class Recalled(NamedTuple):
    """A conversation as text, and notes on what was left out."""

    text: str
    notes: tuple[str, ...] = ()


def recall(history: Sequence[Message], *, tokens: int) -> Recalled:
    """Returns the conversation, oldest message first, in at most so many tokens."""
    lines = _lines(history)
    whole = "\n".join(lines)
    if rough_count(whole) <= tokens:
        return Recalled(whole)
    for_older = tokens // _SHARE_OF_OLDER
    newest = 0
    while rough_count("\n".join(lines[-newest - 1 :])) <= tokens - for_older:
        newest += 1
    older, kept = lines[: len(lines) - newest], lines[len(lines) - newest :]
    notes: list[str] = []
    if not newest:
        older, kept = lines[:-1], [clipped(lines[-1], tokens=tokens - for_older)]
        notes = [Sentence("the newest message of the conversation was clipped")]
    shortened = _excerpts(older, for_older) if older else Recalled("")
    text = "\n".join(part for part in [shortened.text, *kept] if part)
    text = clipped(text, tokens=tokens, keep_end=True)
    return Recalled(text, (*notes, *shortened.notes))


async def summarise(
    history: Sequence[Message],
    *,
    words: int,
    model: ChatModel,
    clock: Clock,
    prompts: Path | None = None,
) -> ModelAnswer | None:
    """Returns a conversation in short, as a model words it; None if it gives nothing."""
    read = clipped("\n".join(_lines(history)), tokens=_SUMMARY_READS, keep_end=True)
    prompt = render(
        "summary",
        folder=prompts,
        words=str(max(words, 20)),
        conversation=fence("conversation", read),
    )
    answer = read_answer(model.stream(Prompt([Message("user", prompt)])))
    found = await with_timeout(answer, seconds=_SUMMARY_S, clock=clock)
    return None if isinstance(found, Failed) or not found.text.strip() else found


def _lines(history: Sequence[Message]) -> list[str]:
    return [f"{label(each.role)}: {indented(each.text)}" for each in history]


def _excerpts(older: Sequence[str], tokens: int) -> Recalled:
    """Returns the beginnings of as many of the later lines as fit, and their number."""
    short = [" ".join(line.split()) for line in older]
    short = [line if len(line) <= _MAX_LINE else f"{line[:_MAX_LINE]}… [clipped]" for line in short]

    def text(kept: int) -> str:
        gone = len(older) - kept
        first_line = [f"[{_messages(gone)} left out]"] if gone else []
        return "\n".join([*first_line, *short[gone:]])

    kept = 0
    while kept < len(older) and rough_count(text(kept + 1)) <= tokens:
        kept += 1
    notes: list[str] = []
    if kept < len(older):
        gone = _messages(len(older) - kept)
        notes.append(Sentence("{messages} of the conversation left out", messages=gone))
    if kept:
        fields = {"messages": _messages(kept)}
        notes.append(Sentence("{messages} of the conversation clipped to a line each", **fields))
    return Recalled(text(kept), tuple(notes))


def _messages(number: int) -> str:
    if number == 1:
        return Sentence("1 earlier message")
    return Sentence("{count} earlier messages", count=number)
