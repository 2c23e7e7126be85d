"""The events of a run: typed, numbered, with actor and time, chained by hash."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from hashlib import sha256
from typing import Annotated, Final, Literal, Self, get_args

from pydantic import Field, TypeAdapter, ValidationError

from plansmith.errors import JournalDamaged
from plansmith.plan.chain import event_text, moment, texts_of
from plansmith.plan.data import Instant, Json, Record, Whole
from plansmith.plan.origin import Origin
from plansmith.plan.planning_events import (
    PlanningFailed,
    PlanOrigin,
    PlanProposed,
    PrefetchEnded,
    PrefetchStarted,
    Triaged,
)
from plansmith.plan.run_options import RunOptions
from plansmith.plan.sentence import ShownText
from plansmith.plan.step_events import (
    StepAdvised,
    StepCancelled,
    StepDone,
    StepFailed,
    StepProgressed,
    StepReplied,
    StepReset,
    StepReused,
    StepSkipped,
    StepStarted,
    StepUnknown,
)
from plansmith.plan.steps import Inputs, Value

# Re-exported, so that this module has every event.
__all__ = [
    "Instant",
    "PlanOrigin",
    "PlanProposed",
    "StepAdvised",
    "StepCancelled",
    "StepDone",
    "StepFailed",
    "StepProgressed",
    "StepReplied",
    "StepReset",
    "StepReused",
    "StepSkipped",
    "StepStarted",
    "StepUnknown",
    "Triaged",
]


class Actor(Record):
    """Who caused an event; what a `program` does never counts as done by a person."""

    kind: Literal["person", "program", "model", "system"]
    name: str = ""

    @property
    def speaks(self) -> bool:
        """Whether the actor is a person or a program that uses Plansmith."""
        return self.kind in ("person", "program")

    @property
    def label(self) -> str:
        """The actor's name as one text that also tells programs from people."""
        return f"program {self.name}".rstrip() if self.kind == "program" else self.name


Who = str | Actor


def actor(who: Who) -> Actor:
    """Returns the actor for a name (a person) or an actor (unchanged)."""
    return who if isinstance(who, Actor) else Actor(kind="person", name=who)


class RunCreated(Record):
    """A request came in; `options` holds what else was given, to plan again after a crash.

    `folder` is the working folder the run belongs to: it is run nowhere else.
    """

    type: Literal["run_created"] = "run_created"
    request: str
    locale: str = "en"
    options: RunOptions = RunOptions()
    origin: Origin = Origin()
    folder: str = ""


class ReviewAsked(Record):
    """A person is asked to approve a plan.

    `drops` are all calls that were approved before, did not happen, and are not made by this plan.
    """

    type: Literal["review_asked"] = "review_asked"
    hash: str
    reasons: tuple[ShownText, ...] = ()
    drops: tuple[ShownText, ...] = ()


class PlanApproved(Record):
    """A person approved the plan with this hash; `tools` are the hashes of the tools it calls."""

    type: Literal["plan_approved"] = "plan_approved"
    hash: str
    tools: dict[str, str] = Field(default_factory=dict)


class PlanRejected(Record):
    """A person rejected the plan."""

    type: Literal["plan_rejected"] = "plan_rejected"
    reason: str = ""


class ChangesAsked(Record):
    """A person asks for a changed plan and says what should change."""

    type: Literal["changes_asked"] = "changes_asked"
    text: str


QuestionKind = Literal["step", "call", "request", "consent", "unknown", "limit"]
LimitName = Literal["budget", "shared_budget", "replans", "iterations", "rejections"]
LIMITS: Final[tuple[LimitName, ...]] = get_args(LimitName)


class QuestionAsked(Record):
    """Somebody is asked a question; `kind` says who asks, and no plan can choose it.

    An ask step (`step`) and a tool or agent (`call`) ask what they like. The system asks about the
    request, for consent to the values of a call, whether an `unknown` call took effect, and beyond
    a limit. A call that asks leaves a `state`, by its content hash, with which it is made again;
    for consent, it is the values as they would be sent, with what would be called, the sources of
    the values, and how often if it is for each of many.
    """

    type: Literal["question_asked"] = "question_asked"
    question: str
    text: ShownText
    options: tuple[str, ...] = ()
    answer_schema: Inputs | None = None
    step: str | None = None
    expires_at: Instant | None = None
    state: str = ""
    link: str = ""
    kind: QuestionKind | None = None
    callee: str = ""
    sources: tuple[str, ...] = ()
    times: Whole = 0
    limit: LimitName | None = None

    @property
    def asks(self) -> QuestionKind:
        """The kind of the question; also works for questions written by earlier releases."""
        if self.kind is not None:
            return self.kind
        for sign, found in _SIGNS.items():
            if self.question.startswith(sign):
                return found
        return "call" if self.state else "step" if self.step is not None else "limit"

    @property
    def limit_asked(self) -> LimitName | None:
        """The limit that the question is about, or None."""
        if self.limit is not None or self.asks != "limit":
            return self.limit
        name = self.question.rpartition(":")[0]
        return next((each for each in LIMITS if each == name), None)


_SIGNS: Final[dict[str, QuestionKind]] = {
    "data:": "consent",
    "unknown:": "unknown",
    "request:": "request",
}


class QuestionAnswered(Record):
    """A question was answered; `no_answer` when its time limit passed first."""

    type: Literal["question_answered"] = "question_answered"
    question: str
    answer: Value = None
    no_answer: bool = False


class QuestionWithdrawn(Record):
    """A question no longer needs an answer."""

    type: Literal["question_withdrawn"] = "question_withdrawn"
    question: str
    reason: ShownText = ""


class RunStarted(Record):
    """The steps of the plan with this hash may now run."""

    type: Literal["run_started"] = "run_started"
    hash: str
    reason: ShownText = ""


class RunPaused(Record):
    """No new step starts until the run is resumed."""

    type: Literal["run_paused"] = "run_paused"
    reason: ShownText = ""


class RunResumed(Record):
    """A paused run continues."""

    type: Literal["run_resumed"] = "run_resumed"


class RunRepaired(Record):
    """A damaged journal continues after its last good event; later rows were set aside.

    `lost` counts events that nobody can read. The run is paused: what they did is not known.
    """

    type: Literal["run_repaired"] = "run_repaired"
    aside: int = Field(default=0, ge=0)
    lost: int = Field(default=0, ge=0)
    reason: ShownText = ""


class CancelAsked(Record):
    """Somebody asked to cancel the run."""

    type: Literal["cancel_asked"] = "cancel_asked"
    reason: ShownText = ""


class ReplanStarted(Record):
    """A new plan is being made while the run is under way."""

    type: Literal["replan_started"] = "replan_started"
    cause: ShownText
    kind: Literal["failure", "advice", "person", "iteration"] = "failure"


class ReportStarted(Record):
    """The report is being written."""

    type: Literal["report_started"] = "report_started"


class ReportMade(Record):
    """The report is finished and stored under its content hash."""

    type: Literal["report_made"] = "report_made"
    result: str


class RunFinished(Record):
    """The run is over."""

    type: Literal["run_finished"] = "run_finished"
    status: Literal["done", "partly_done", "failed", "cancelled", "answered"]
    reason: ShownText = ""


AnyBody = (
    RunCreated
    | Triaged
    | PrefetchStarted
    | PrefetchEnded
    | PlanningFailed
    | PlanProposed
    | ReviewAsked
    | PlanApproved
    | PlanRejected
    | ChangesAsked
    | QuestionAsked
    | QuestionAnswered
    | QuestionWithdrawn
    | RunStarted
    | StepStarted
    | StepProgressed
    | StepAdvised
    | StepDone
    | StepReused
    | StepFailed
    | StepReplied
    | StepSkipped
    | StepCancelled
    | StepUnknown
    | StepReset
    | RunPaused
    | RunResumed
    | RunRepaired
    | CancelAsked
    | ReplanStarted
    | ReportStarted
    | ReportMade
    | RunFinished
)
Body = Annotated[AnyBody, Field(discriminator="type")]
EVENT_TYPES: tuple[type[Record], ...] = get_args(AnyBody)


class Event(Record):
    """One entry of a run's journal."""

    run: str
    number: int = Field(ge=1)
    at: Instant
    by: Actor
    body: Body
    before: str = ""
    hash: str
    _texts: tuple[bytes, bytes] | None = None

    @property
    def texts(self) -> tuple[bytes, bytes]:
        """The event body and the actor as canonical text."""
        return self._texts or _texts(self.body, self.by)

    def with_texts(self, texts: tuple[bytes, bytes]) -> Self:
        """Caches these texts, because storing the event needs them again; returns the event."""
        self._texts = texts
        return self

    def fresh_hash(self) -> str:
        """Computes the hash of the present content, to compare it with the stored one."""
        texts = _texts(self.body, self.by)
        text = event_text(self.run, self.number, moment(self.at), self.before, texts)
        return sha256(text).hexdigest()

    def to_json(self) -> dict[str, Json]:
        """Returns the event as it is stored, streamed and hashed."""
        return self.shown_json("")

    def shown_json(self, locale: str = "en") -> dict[str, Json]:
        """Returns the event with sentences as text; its hash is not the hash of this form."""
        body = {"type": self.body.type} | self.body.shown_json(locale)
        told: dict[str, Json] = {"run": self.run, "number": self.number, "at": moment(self.at)}
        told |= {"by": self.by.to_json(), "body": body, "before": self.before, "hash": self.hash}
        return told


def next_event(
    body: AnyBody, *, run: str, by: Actor, at: datetime, last: Event | None = None
) -> Event:
    """Makes the event that follows the last one of a run."""
    number, before = (last.number + 1, last.hash) if last else (1, "")
    at = at.astimezone(UTC)
    texts = _texts(body, by)
    digest = sha256(event_text(run, number, moment(at), before, texts)).hexdigest()
    event = Event(run=run, number=number, at=at, by=by, body=body, before=before, hash=digest)
    return event.with_texts(texts)


def _texts(body: AnyBody, by: Actor) -> tuple[bytes, bytes]:
    return texts_of(body.type, body, (by.kind, by.name))


def read_event(value: object) -> Event:
    """Reads an event from its stored form."""
    try:
        return _READER.validate_python(value)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise JournalDamaged(
            f"an event cannot be read: {place}: {first['msg']}",
            hint="it may be damaged, or written by a newer Plansmith",
        ) from None


_READER: TypeAdapter[Event] = TypeAdapter(Event)


def verify_chain(events: Iterable[Event], last: Event | None = None) -> Event | None:
    """Checks numbers, links and hashes; returns the last event or raises `JournalDamaged`."""
    for event in events:
        number, before = (last.number + 1, last.hash) if last else (1, "")
        if event.number != number or (last and event.run != last.run):
            raise JournalDamaged(f"event {number} of run {event.run} is missing")
        if event.before != before or event.fresh_hash() != event.hash:
            raise JournalDamaged(f"event {number} of run {event.run} was altered")
        last = event
    return last
