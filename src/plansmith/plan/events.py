"""The events of a run: typed, numbered, with actor and time, chained by hash."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import cache, lru_cache
from typing import Any, Final, Literal, get_args

import msgspec

from plansmith.errors import JournalDamaged
from plansmith.plan.chain import hash_of, moment, run_text
from plansmith.plan.data import Instant, Json, canonical_json, read_canonical
from plansmith.plan.event_body import (
    Count,
    EventBody,
    Fields,
    JsonField,
    Moment,
    ShownField,
    compare_defaults,
    need_plain,
    read_field,
)
from plansmith.plan.origin import OWN_REQUEST, Origin
from plansmith.plan.planning_events import (
    PlanningFailed,
    PlanOrigin,
    PlanProposed,
    PrefetchEnded,
    PrefetchStarted,
    Triaged,
)
from plansmith.plan.run_options import NO_OPTIONS, RunOptions
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


class Actor(Fields, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
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


class RunCreated(EventBody, frozen=True, kw_only=True):
    """A request came in; `options` holds what else was given, to plan again after a crash.

    `folder` is the working folder the run belongs to: it is run nowhere else.
    """

    request: str
    locale: str = "en"
    options: RunOptions = NO_OPTIONS
    origin: Origin = OWN_REQUEST
    folder: str = ""


class ReviewAsked(EventBody, frozen=True, kw_only=True):
    """A person is asked to approve a plan.

    `drops` are all calls that were approved before, did not happen, and are not made by this plan.
    """

    hash: str
    reasons: tuple[ShownField, ...] = ()
    drops: tuple[ShownField, ...] = ()


class PlanApproved(EventBody, frozen=True, kw_only=True):
    """A person approved the plan with this hash; `tools` are the hashes of the tools it calls."""

    hash: str
    tools: dict[str, str] = {}


class PlanRejected(EventBody, frozen=True, kw_only=True):
    """A person rejected the plan."""

    reason: str = ""


class ChangesAsked(EventBody, frozen=True, kw_only=True):
    """A person asks for a changed plan and says what should change."""

    text: str


QuestionKind = Literal["step", "call", "request", "consent", "unknown", "limit"]
LimitName = Literal["budget", "shared_budget", "replans", "iterations", "rejections"]
LIMITS: Final[tuple[LimitName, ...]] = get_args(LimitName)


class QuestionAsked(EventBody, frozen=True, kw_only=True):
    """Somebody is asked a question; `kind` says who asks, and no plan can choose it.

    An ask step (`step`) and a tool or agent (`call`) ask what they like. The system asks about the
    request, for consent to the values of a call, whether an `unknown` call took effect, and beyond
    a limit. A call that asks leaves a `state`, by its content hash, with which it is made again;
    for consent, it is the values as they would be sent, with what would be called, the sources of
    the values, and how often if it is for each of many.
    """

    question: str
    text: ShownField
    options: tuple[str, ...] = ()
    answer_schema: dict[str, JsonField] | None = None
    step: str | None = None
    expires_at: Moment | None = None
    state: str = ""
    link: str = ""
    kind: QuestionKind | None = None
    callee: str = ""
    sources: tuple[str, ...] = ()
    times: int = 0
    limit: LimitName | None = None

    def __post_init__(self) -> None:
        """Refuses a schema that JSON cannot hold."""
        need_plain(self.answer_schema)

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


class QuestionAnswered(EventBody, frozen=True, kw_only=True):
    """A question was answered; `no_answer` when its time limit passed first."""

    question: str
    answer: JsonField = None
    no_answer: bool = False

    def __post_init__(self) -> None:
        """Refuses an answer that JSON cannot hold."""
        need_plain(self.answer)


class QuestionWithdrawn(EventBody, frozen=True, kw_only=True):
    """A question no longer needs an answer."""

    question: str
    reason: ShownField = ""


class RunStarted(EventBody, frozen=True, kw_only=True):
    """The steps of the plan with this hash may now run."""

    hash: str
    reason: ShownField = ""


class RunPaused(EventBody, frozen=True, kw_only=True):
    """No new step starts until the run is resumed."""

    reason: ShownField = ""


class RunResumed(EventBody, frozen=True, kw_only=True):
    """A paused run continues."""


class RunRepaired(EventBody, frozen=True, kw_only=True):
    """A damaged journal continues after its last good event; later rows were set aside.

    `lost` counts events that nobody can read. The run is paused: what they did is not known.
    """

    aside: Count = 0
    lost: Count = 0
    reason: ShownField = ""


class CancelAsked(EventBody, frozen=True, kw_only=True):
    """Somebody asked to cancel the run."""

    reason: ShownField = ""


class ReplanStarted(EventBody, frozen=True, kw_only=True):
    """A new plan is being made while the run is under way."""

    cause: ShownField
    kind: Literal["failure", "advice", "person", "iteration"] = "failure"


class ReportStarted(EventBody, frozen=True, kw_only=True):
    """The report is being written."""


class ReportMade(EventBody, frozen=True, kw_only=True):
    """The report is finished and stored under its content hash."""

    result: str


class RunFinished(EventBody, frozen=True, kw_only=True):
    """The run is over."""

    status: Literal["done", "partly_done", "failed", "cancelled", "answered"]
    reason: ShownField = ""


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
EVENT_TYPES: tuple[type[EventBody], ...] = get_args(AnyBody)
compare_defaults(EVENT_TYPES)


class Event(Fields, frozen=True, kw_only=True, eq=False):
    """One entry of a run's journal, with the texts of its body and actor as they are stored."""

    run: str
    number: int
    at: datetime
    by: Actor
    body: AnyBody
    before: str = ""
    hash: str
    body_text: bytes
    by_text: bytes

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Event) and self._all_texts() == other._all_texts()

    def __hash__(self) -> int:
        return hash(self.hash)

    def _all_texts(self) -> tuple[object, ...]:
        return self.run, self.number, self.at, self.by_text, self.body_text, self.before, self.hash

    def fresh_hash(self) -> str:
        """Computes the hash of the present content, to compare it with the stored one."""
        place = self.number, run_text(self.run)
        texts = self.body.canonical(), actor_text(self.by)
        return hash_of(moment(self.at).encode(), self.before.encode(), *texts, *place)

    def to_json(self) -> dict[str, Json]:
        """Returns the event as it is stored, streamed and hashed."""
        return self._json(read_canonical(self.body_text))

    def shown_json(self, locale: str = "en") -> dict[str, Json]:
        """Returns the event with sentences as text; its hash is not the hash of this form."""
        shown: dict[str, Json] = {"type": self.body.type}
        return self._json(shown | self.body.shown_json(locale))

    def _json(self, body: Json) -> dict[str, Json]:
        told: dict[str, Json] = {"run": self.run, "number": self.number, "at": moment(self.at)}
        by = read_canonical(self.by_text)
        return told | {"by": by, "body": body, "before": self.before, "hash": self.hash}


def next_event(
    body: AnyBody, *, run: str, by: Actor, at: datetime, last: Event | None = None
) -> Event:
    """Makes the event that follows the last one of a run."""
    [event] = next_events([(body, by)], run=run, at=at, last=last)
    return event


def next_events(
    entries: Iterable[tuple[AnyBody, Actor]], *, run: str, at: datetime, last: Event | None = None
) -> list[Event]:
    """Makes the events that follow the last one of a run, all at the same time."""
    number, before = (last.number, last.hash) if last else (0, "")
    if at.tzinfo is not UTC:
        at = at.astimezone(UTC)
    when, name, events = moment(at).encode(), run_text(run), list[Event]()
    for body, by in entries:
        number += 1
        body_text, by_text = body.canonical(), actor_text(by)
        digest = hash_of(when, before.encode(), body_text, by_text, number, name)
        event = Event(
            run=run,
            number=number,
            at=at,
            by=by,
            body=body,
            before=before,
            hash=digest,
            body_text=body_text,
            by_text=by_text,
        )
        events.append(event)
        before = digest
    return events


@lru_cache(maxsize=256)
def actor_text(by: Actor) -> bytes:
    """Returns the canonical text of an actor; cached, since a run has few actors."""
    return canonical_json(by)


@lru_cache(maxsize=256)
def _read_actor(text: bytes) -> Actor:
    return msgspec.json.decode(text, type=Actor)


@cache
def _body_reader() -> msgspec.json.Decoder[AnyBody]:
    return msgspec.json.Decoder(AnyBody, dec_hook=read_field)


def stored_event(
    *,
    run: str,
    number: int,
    at: str,
    by: bytes,
    body: bytes,
    before: str,
    hash: str,  # noqa: A002
) -> Event:
    """Reads an event from its stored texts; the hash is not checked."""
    try:
        return Event(
            run=run,
            number=number,
            at=_read_moment(at),
            by=_read_actor(by),
            body=_body_reader().decode(body),
            before=before,
            hash=hash,
            body_text=body,
            by_text=by,
        )
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise JournalDamaged(
            f"an event cannot be read: {error}",
            hint="it may be damaged, or written by a newer Plansmith",
        ) from None


def read_event(value: Mapping[str, Any]) -> Event:
    """Reads an event from its JSON form."""
    try:
        return stored_event(
            run=value["run"],
            number=value["number"],
            at=value["at"],
            by=canonical_json(value["by"]),
            body=canonical_json(value["body"]),
            before=value.get("before", ""),
            hash=value["hash"],
        )
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise JournalDamaged(f"an event cannot be read: {error!r}") from None


def _read_moment(text: str) -> datetime:
    at = datetime.fromisoformat(text)
    if at.tzinfo is None:
        raise ValueError(f"the time {text!r} has no time zone")
    return at.astimezone(UTC)


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
