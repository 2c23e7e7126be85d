"""What comes of a message, and the texts for what no message can do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from plansmith.errors import Refused
from plansmith.lazy import lazy_pattern
from plansmith.plan.planning import PlanRequest
from plansmith.plan.run_options import NO_OPTIONS, OWN_REQUEST, Origin
from plansmith.plan.sentence import Sentence
from plansmith.plan.thread import Judge, MessageAdded, MessageKind, Reading, ThreadReply

if TYPE_CHECKING:
    from plansmith.plan.run import Run
    from plansmith_planner.threads.reading import Situation

LONGEST: Final = 100_000
_HALF: Final = lazy_pattern("[\ud800-\udfff]")
PLANS: Final = frozenset({"request", "answer", "change"})


class Turn(NamedTuple):
    """What came of a message: a run, or an answer at once in `text`.

    `kind` is what the message was taken for, `judge` and `reason` say by whom and why; `undo`
    takes that back. `earlier` are messages that a process left behind when it died: they were
    read before this one, and may need `plan`.
    """

    thread: str
    number: int
    kind: MessageKind
    run: Run | None = None
    text: str = ""
    judge: Judge = "rules"
    reason: str = ""
    earlier: tuple[Turn, ...] = ()


def message_added(
    text: str, options: Mapping[str, Any], *, key: str = "", origin: Origin | None = None
) -> MessageAdded:
    """Returns a message with the options of `Plansmith.plan`; refuses one that is no message."""
    if not text.strip():
        raise Refused(Sentence("the message is empty"), hint=Sentence("say what should be done"))
    if len(text) > LONGEST:
        long = Sentence("the message is longer than {most} characters", most=LONGEST)
        hint = Sentence("put long texts into a file of the folder, and name the file")
        raise Refused(long, hint=hint)
    if _HALF.search(text):
        hint = Sentence("send it as Unicode text")
        raise Refused(Sentence("the message holds half a character (a lone surrogate)"), hint=hint)
    given = PlanRequest(text, **options).options()
    return MessageAdded(
        text=text,
        key=key,
        options=NO_OPTIONS if given == NO_OPTIONS else given,
        origin=origin or OWN_REQUEST,
    )


def not_by_message(reading: Reading, now: Situation) -> ThreadReply:
    """Says how to decide what no message decides."""
    said = Sentence(
        "A message approves nothing and rejects nothing. Look at the "
        "plan and decide: on the page, or with plansmith go {run}.",
        run=reading.run,
    )
    if reading.question:
        waiting = [*now.decisions, *now.questions]
        asked = next((each.question for each in waiting if each.name == reading.question), None)
        said = Sentence(
            "This question takes its own answer, not a message: "
            "{question} Answer it on the page, or with plansmith go "
            "{run}.",
            question=asked.text if asked else reading.question,
            run=reading.run,
        )
    return ThreadReply(said, reading.run)
