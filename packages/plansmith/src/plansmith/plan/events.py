"""The events of a run: typed, numbered, with actor and time, chained by hash."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import cache, lru_cache
from typing import Any, Final, Literal, cast, get_args

import msgspec

from plansmith.errors import EventMisfit, JournalDamaged
from plansmith.plan.data import (
    Json,
    Record,
    as_plain,
    canonical_json,
    frozen_json,
    parse_json,
    stored_json,
)
from plansmith.plan.event_body import (
    Count,
    EventBody,
    FrozenStruct,
    JsonField,
    Moment,
    Seconds,
    ShownField,
    compare_defaults,
    hash_of,
    moment,
    moment_text,
    read_field,
    run_text,
)
from plansmith.plan.plan import Plan
from plansmith.plan.planning import (
    Estimate,
    PickedTool,
    PlanningFigures,
    PlanOrigin,
    TriageDecision,
)
from plansmith.plan.problem import Problem
from plansmith.plan.run_options import NO_OPTIONS, OWN_REQUEST, Origin, RunOptions
from plansmith.plan.sentence import Sentence, check_sentence
from plansmith.plan.step_events import (
    StepAdvised,
    StepBody,
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
]


class Actor(
    FrozenStruct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """Who caused an event; what a `program` does never counts as done by a person.

    `user` is whose token was used, where that is not the name.
    """

    kind: Literal["person", "program", "model", "system"]
    name: str = ""
    user: str = ""

    @property
    def identity(self) -> str:
        """The user behind the actor, the same for all their tokens; empty if nobody knows."""
        if self.user or self.kind != "person":
            return self.user
        # A token of no named user is called "ann (token laptop)".
        return self.name.partition(" (token ")[0] if self.name.endswith(")") else self.name

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
    given = cast("object", who)  # a program may give anything
    if isinstance(given, Actor):
        return given
    if not isinstance(given, str):
        raise TypeError(f"an actor is a name or an Actor, not {given!r}")
    return Actor(kind="person", name=given)


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
    for consent, it identifies the values as they would be sent, beside what would be called, the
    sources of the values, and how often if it is for each of many.

    Attributes:
        question: Its name, by which it is answered.
        text: What is asked.
        options: The answers to choose from, if there are any.
        answer_schema: The JSON Schema of the answer.
        step: The step that waits for the answer.
        expires_at: When it is closed as unanswered.
        state: What the call goes on with; for consent, the identity of its values.
        link: A page on which it is answered.
        kind: Who asks.
        callee: What would be called.
        sources: The steps that the values come from.
        times: For how many calls consent is given.
        limit: The limit that is reached.
        values: The hash under which the values of a consent are stored, their keys in order.

    Examples:
        >>> from plansmith import QuestionAsked
        >>> QuestionAsked(question="go", text="Go on?", kind="step").kind
        'step'
    """

    question: str
    text: ShownField
    options: tuple[str, ...] = ()
    answer_schema: dict[str, JsonField] | None = None
    step: str | None = None
    expires_at: Moment | None = None
    state: str = ""
    link: str = ""
    kind: QuestionKind
    callee: str = ""
    sources: tuple[str, ...] = ()
    times: int = 0
    limit: LimitName | None = None
    values: str = ""

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "answer_schema", frozen_json(self.answer_schema))


class QuestionAnswered(EventBody, frozen=True, kw_only=True):
    """A question was answered; `no_answer` when its time limit passed first."""

    question: str
    answer: JsonField = None
    no_answer: bool = False

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "answer", frozen_json(self.answer))


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
    """A paused run continues; with a `reason`, one that was taken from a living process."""

    reason: ShownField = ""


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
    kind: Literal["failure", "advice", "person", "iteration", "rethink"] = "failure"


class ReportMade(EventBody, frozen=True, kw_only=True):
    """The report is finished and stored under its content hash."""

    result: str


class RunFinished(EventBody, frozen=True, kw_only=True):
    """The run is over."""

    status: Literal["done", "partly_done", "failed", "cancelled", "answered"]
    reason: ShownField = ""


class Triaged(EventBody, frozen=True, kw_only=True):
    """Triage decided what a request needs."""

    decision: TriageDecision
    reason: ShownField = ""
    query: str = ""
    tokens: Count = 0
    cost: str = ""
    record: str = ""


class PrefetchStarted(EventBody, frozen=True, kw_only=True):
    """A read is about to be made before its plan is complete; stored before the call."""

    key: str
    tool: str
    inputs: str


class PrefetchEnded(EventBody, frozen=True, kw_only=True):
    """A prefetched read has ended; `result` is the content hash of what it returned, if anything.

    `seconds` is the time the call took; none when its process died and nobody knows.
    """

    key: str
    result: str = ""
    error: ShownField = ""
    seconds: Seconds | None = None
    tokens: Count = 0
    cost: str = ""


class PlanningFailed(EventBody, frozen=True, kw_only=True):
    """Planning gave no usable plan; `record` is the exchange with the models."""

    reason: ShownField
    problems: tuple[Problem, ...] = ()
    tokens: Count = 0
    cost: str = ""
    record: str = ""


class PlanProposed(EventBody, frozen=True, kw_only=True):
    """A new or revised plan, its problems, and how it was made.

    `origin` is who made it: a model, rules without one, a person's edit, whoever submitted it (a
    program, where that is one), a template, or an earlier run, which `RunCreated.origin` names.
    `record` is the content hash of what models were asked and said for it. `acts` are the steps
    that change something, by what was known of their tools then. `templates` are the plans of the
    templates that it runs, at every depth, by name: the run uses these and no others. `earlier` are
    the results of earlier runs that it uses, each with its content hash: the run uses exactly
    these contents. `restores` is the number of the event whose plan stands again.
    """

    plan: Plan
    problems: tuple[Problem, ...] = ()
    origin: PlanOrigin = "model"
    cause: ShownField = ""
    acts: tuple[str, ...] = ()
    estimate: Estimate | None = None
    metrics: PlanningFigures | None = None
    picks: tuple[PickedTool, ...] = ()
    tokens: Count = 0
    cost: str = ""
    record: str = ""
    templates: dict[str, Plan] = {}
    earlier: dict[str, str] = {}
    restores: Count = 0


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
    | StepBody
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
        place = {"number": number, "run": event.run}
        if event.number != number or (last and event.run != last.run):
            raise JournalDamaged(Sentence("event {number} of run {run} is missing", **place))
        if event.before != before or event.fresh_hash() != event.hash:
            raise JournalDamaged(Sentence("event {number} of run {run} was altered", **place))
        last = event
    return last
