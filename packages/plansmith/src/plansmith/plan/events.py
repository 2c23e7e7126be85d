"""The events of a run: typed, numbered, with actor and time, chained by hash."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import cache, lru_cache
from hashlib import sha256
from typing import Any, get_args

import msgspec

from plansmith.errors import EventMisfit, JournalDamaged
from plansmith.plan.chain import EVENT_TEXT, hash_of, moment, moment_text, run_text
from plansmith.plan.data import (
    Instant,
    Json,
    Record,
    as_plain,
    canonical_json,
    parse_json,
    stored_json,
)
from plansmith.plan.event_body import (
    EventBody,
    FrozenStruct,
    ShownField,
    compare_defaults,
    read_field,
)
from plansmith.plan.planning_events import (
    PlanningFailed,
    PlanOrigin,
    PlanProposed,
    PrefetchEnded,
    PrefetchStarted,
    Triaged,
)
from plansmith.plan.run_events import (
    LIMITS,
    Actor,
    CancelAsked,
    ChangesAsked,
    LimitName,
    PlanApproved,
    PlanRejected,
    QuestionAnswered,
    QuestionAsked,
    QuestionKind,
    QuestionWithdrawn,
    ReplanStarted,
    ReportMade,
    ReviewAsked,
    RunCreated,
    RunFinished,
    RunPaused,
    RunRepaired,
    RunResumed,
    RunStarted,
    Who,
    actor,
)
from plansmith.plan.sentence import Sentence, check_sentence
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
    StepWaits,
)

# Re-exported, so that this module has every event.
__all__ = [
    "LIMITS",
    "Actor",
    "CancelAsked",
    "ChangesAsked",
    "Instant",
    "LimitName",
    "PlanApproved",
    "PlanOrigin",
    "PlanProposed",
    "PlanRejected",
    "PlanningFailed",
    "PrefetchEnded",
    "PrefetchStarted",
    "QuestionAnswered",
    "QuestionAsked",
    "QuestionKind",
    "QuestionWithdrawn",
    "ReplanStarted",
    "ReportMade",
    "ReviewAsked",
    "RunCreated",
    "RunFinished",
    "RunPaused",
    "RunRepaired",
    "RunResumed",
    "RunStarted",
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
    "StepWaits",
    "Triaged",
    "Who",
    "actor",
]

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
    | StepWaits
    | RunPaused
    | RunResumed
    | RunRepaired
    | CancelAsked
    | ReplanStarted
    | ReportMade
    | RunFinished
)
EVENT_TYPES: tuple[type[EventBody], ...] = get_args(AnyBody)
compare_defaults(EVENT_TYPES)


class Event(FrozenStruct, frozen=True, kw_only=True, eq=False):
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
        return hash_of(moment_text(self.at), self.before.encode(), *texts, *place)

    def to_json(self) -> dict[str, Json]:
        """Returns the event as it is stored, streamed and hashed."""
        return self._json(parse_json(self.body_text))

    def shown_json(self, locale: str = "en") -> dict[str, Json]:
        """Returns the event with sentences as text; its hash is not the hash of this form."""
        shown: dict[str, Json] = {"type": self.body.type}
        return self._json(shown | self.body.shown_json(locale))

    def _json(self, body: Json) -> dict[str, Json]:
        told: dict[str, Json] = {"run": self.run, "number": self.number, "at": moment(self.at)}
        by = parse_json(self.by_text)
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
    when, name, events = moment_text(at), run_text(run), list[Event]()
    check, known, by_text = _body_checker().decode, None, b""
    for body, by in entries:
        number += 1
        body_text = body.canonical()
        try:
            check(body_text)
        except (msgspec.ValidationError, TypeError) as error:
            raise _misfit(body.type, error) from None
        if by is not known:
            known, by_text = by, actor_text(by)
        text = EVENT_TEXT % (when, before.encode(), body_text, by_text, number, name)
        digest = sha256(text).hexdigest()
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
    told = msgspec.to_builtins(by, enc_hook=as_plain)
    try:
        msgspec.convert(told, Actor)
    except msgspec.ValidationError as error:
        raise _misfit("actor", error) from None
    return canonical_json(told)


def _misfit(what: str, error: Exception) -> EventMisfit:
    hint = Sentence("nothing was stored; give a value of the right type")
    return EventMisfit(
        Sentence("the {what} cannot be stored: {error}", what=what, error=error), hint=hint
    )


@lru_cache(maxsize=256)
def _read_actor(text: bytes) -> Actor:
    return msgspec.json.decode(text, type=Actor)


@cache
def _body_reader() -> msgspec.json.Decoder[AnyBody]:
    return msgspec.json.Decoder(AnyBody, dec_hook=read_field)


@cache
def _body_checker() -> msgspec.json.Decoder[AnyBody]:
    return msgspec.json.Decoder(AnyBody, dec_hook=_stand_in)


def _stand_in(kind: type[Any], value: object) -> object:
    """Checks a sentence; a record was validated when it was made, and need not be made again."""
    if kind is ShownField:
        return check_sentence(value)
    return _empty(kind) if issubclass(kind, Record) else read_field(kind, value)


@cache
def _empty(kind: type[Record]) -> Record:
    return kind.model_construct()


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
            Sentence("an event cannot be read: {error}", error=error),
            hint=Sentence("it may be damaged, or written by a newer Plansmith"),
        ) from None


def read_event(value: Mapping[str, Any]) -> Event:
    """Reads an event from its JSON form."""
    try:
        return stored_event(
            run=value["run"],
            number=value["number"],
            at=value["at"],
            by=canonical_json(value["by"]),
            body=stored_json(value["body"]),
            before=value.get("before", ""),
            hash=value["hash"],
        )
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise JournalDamaged(Sentence("an event cannot be read: {error}", error=error)) from None


@lru_cache(maxsize=256)
def _read_moment(text: str) -> datetime:
    at = datetime.fromisoformat(text)
    if at.tzinfo is None:
        raise ValueError(f"the time {text!r} has no time zone")
    return at if at.tzinfo is UTC else at.astimezone(UTC)


def verify_chain(events: Iterable[Event], last: Event | None = None) -> Event | None:
    """Checks numbers, links and hashes; returns the last event or raises `JournalDamaged`."""
    for event in events:
        number, before = (last.number + 1, last.hash) if last else (1, "")
        if event.number != number or (last and event.run != last.run):
            raise JournalDamaged(
                Sentence("event {number} of run {run} is missing", number=number, run=event.run)
            )
        if event.before != before or event.fresh_hash() != event.hash:
            raise JournalDamaged(
                Sentence("event {number} of run {run} was altered", number=number, run=event.run)
            )
        last = event
    return last
