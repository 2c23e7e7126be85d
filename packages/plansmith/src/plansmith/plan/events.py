"""The events of a run: typed, numbered, with actor and time, chained by hash."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import cache, lru_cache
from operator import attrgetter
from typing import Any, Final, Literal, cast, get_args

import msgspec

from plansmith.errors import EventMisfit, JournalDamaged
from plansmith.plan import data, event_body, planning
from plansmith.plan.actors import SYSTEM as SYSTEM  # noqa: PLC0414
from plansmith.plan.actors import Actor as Actor  # noqa: PLC0414
from plansmith.plan.actors import Who as Who  # noqa: PLC0414
from plansmith.plan.actors import actor as actor  # noqa: PLC0414
from plansmith.plan.actors import actor_text
from plansmith.plan.data import Json, frozen_json
from plansmith.plan.event_body import (
    Count,
    EventBody,
    FrozenStruct,
    JsonField,
    Moment,
    Positive,
    Seconds,
    ShownField,
)
from plansmith.plan.limits import Bound
from plansmith.plan.plan import Plan
from plansmith.plan.problem import Problem
from plansmith.plan.run_options import NO_OPTIONS, OWN_REQUEST, Origin, RunOptions
from plansmith.plan.sentence import Sentence


class RunCreated(EventBody, frozen=True, kw_only=True):
    """A request came in, with `options`; the run belongs to `folder`, and is run nowhere else."""

    request: str
    locale: str = "en"
    options: RunOptions = NO_OPTIONS
    origin: Origin = OWN_REQUEST
    folder: str = ""


class PlanningBody(EventBody, frozen=True, kw_only=True):
    """What planning used: calls and tokens of each of the `models`; `record` is what they said."""

    tokens: Count = 0
    cost: str = ""
    record: str = ""
    models: dict[str, tuple[Count, Count]] = {}


class Triaged(PlanningBody, frozen=True, kw_only=True):
    """Triage decided what a request needs."""

    decision: planning.Decision
    reason: ShownField = ""
    query: str = ""


class PlanningFailed(PlanningBody, frozen=True, kw_only=True):
    """Planning gave no usable plan."""

    reason: ShownField
    problems: tuple[Problem, ...] = ()


class PlanProposed(PlanningBody, frozen=True, kw_only=True):
    """A new or revised plan, its problems, and how it was made.

    `origin` is who made it, and `acts` are the steps that change something, by what was known of
    their tools then. `templates` are the plans of the templates that it runs, at every depth, by
    name, and `pins` the content hashes of the results of earlier runs that it uses: the run uses
    exactly these. `restores` is the number of the event whose plan stands again.
    """

    plan: Plan
    problems: tuple[Problem, ...] = ()
    origin: planning.PlanOrigin = "model"
    cause: ShownField = ""
    acts: tuple[str, ...] = ()
    estimate: planning.Estimate | None = None
    figures: planning.PlanningFigures | None = None
    picks: tuple[planning.PickedTool, ...] = ()
    templates: dict[str, Plan] = {}
    pins: dict[str, str] = {}
    restores: Count = 0


class ReviewAsked(EventBody, frozen=True, kw_only=True):
    """A person is asked to approve a plan; `drops` are approved calls that it does not make."""

    hash: str
    reasons: tuple[ShownField, ...] = ()
    drops: tuple[ShownField, ...] = ()


class PreviewStarted(EventBody, frozen=True, kw_only=True):
    """Steps that only read run before the approval; `given` results stand in for those of steps.

    `fresh`: what an earlier preview has read, or was given, counts no more.
    """

    hash: str
    given: dict[str, str] = {}
    fresh: bool = False


class PreviewMade(EventBody, frozen=True, kw_only=True):
    """What the changes of a plan would be; `content` is all of that, as a `Preview`.

    By step or part: `covers` has the hash of the inputs of a call, `items` that of the list item it
    is for, `seen` that of what its tool showed, and `touches` the names of what it would change.
    """

    hash: str
    covers: dict[str, str] = {}
    items: dict[str, str] = {}
    seen: dict[str, str] = {}
    touches: dict[str, tuple[str, ...]] = {}
    content: str = ""

    @property
    def approval(self) -> str:
        """The hash by which a person approves the plan with these calls."""
        return data.canonical_hash(self.to_json())


class PlanApproved(EventBody, frozen=True, kw_only=True):
    """A person approved the plan with this hash; `tools` are the hashes of the tools it calls.

    With the hash of a `preview`, the calls shown there as well: but for those `left_out`, and with
    `changed` inputs for some. `fresh`: what was read for it is read again. Within `bounds`, by tool
    or agent, values that are not known yet need no consent.
    """

    hash: str
    tools: dict[str, str] = {}
    preview: str = ""
    left_out: tuple[str, ...] = ()
    changed: dict[str, JsonField] = {}
    fresh: bool = False
    bounds: dict[str, Bound] = {}

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "changed", frozen_json(self.changed))


class PlanRejected(EventBody, frozen=True, kw_only=True):
    """A person rejected the plan."""

    reason: str = ""


class ChangesAsked(EventBody, frozen=True, kw_only=True):
    """A person asks for a changed plan and says what should change."""

    text: str


QuestionKind = Literal["step", "call", "request", "consent", "unknown", "limit"]
LimitName = Literal["budget", "shared_budget", "replans", "iterations", "rejections"]


class QuestionAsked(EventBody, frozen=True, kw_only=True):
    """Somebody is asked a question; `kind` says who asks, and no plan can choose it.

    An ask step (`step`) and a tool or agent (`call`) ask what they like. The system asks about the
    request, for consent to the values of a call, whether an `unknown` call took effect, and whether
    to go on beyond a limit.

    Attributes:
        question: Its name, by which it is answered.
        text: What is asked.
        options: The answers to choose from, if there are any.
        answer_schema: The JSON Schema of the answer.
        step: The step that waits for the answer.
        expires_at: When it is closed as unanswered.
        state: The hash of what a call goes on with; for consent, of the values it would send.
        link: A page on which it is answered.
        kind: Who asks.
        callee: What would be called.
        sources: The steps those values come from; a question names the program that answered it.
        times: For consent to repeated calls, how many it allows.
        limit: The limit that is reached.
        values: For consent, the hash under which these values are stored, to be shown in order.
        shown: For consent, the hash of a `CallPreview`: what the call would do, if that is known.
        seen: A hash of that, by which the call finds that it would do something else.
        touches: The names of what it would change.

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
    shown: str = ""
    seen: str = ""
    touches: tuple[str, ...] = ()

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


class StepBody(EventBody, frozen=True, kw_only=True):
    """What happened to a step."""

    step: str


CallBasis = Literal["", "read", "consent", "settings"]


class StepStarted(StepBody, frozen=True, kw_only=True):
    """A step is about to be called; stored before the call.

    The hash `item` identifies a part of a map step. `basis` says why it may begin: it only reads,
    before an approval; a person agreed to its inputs; or the settings ask for no consent to them.
    """

    attempt: Positive = 1
    inputs: str = ""
    mark: str = ""
    callee: str = ""
    item: str = ""
    basis: CallBasis = ""

    @property
    def call_mark(self) -> str:
        """The mark of the inputs; it is stored as `mark` if their keys are in another order."""
        return self.mark or data.full_hash(self.inputs)[: data.CALL_MARK_DIGITS]


class StepProgressed(StepBody, frozen=True, kw_only=True):
    """A running step reports its progress."""

    text: str


class StepAdvised(StepBody, frozen=True, kw_only=True):
    """A running step reports that the plan should change or that the goal is met."""

    advice: Literal["replan", "finish"]
    reason: ShownField = ""


class StepDone(StepBody, frozen=True, kw_only=True):
    """A step returned a result, stored under its content hash."""

    result: str
    tokens: Count = 0
    cost: str = ""


class StepReused(StepBody, frozen=True, kw_only=True):
    """A step uses the result of an earlier run, or of this one before a changed plan reset it.

    `program` is the program that gave the result as an answer, if it was not a person.
    """

    result: str
    run: str
    program: str = ""
    done_at: Moment | None = None


FailureKind = Literal["tool", "time", "reference", "result", "person", "refused"]


class StepFailed(StepBody, frozen=True, kw_only=True):
    """A step's call failed; `again` when it will be retried.

    An `unsure` call may have taken effect; only a key that makes it safe allows a retry. `passed`:
    by its `on_error` the plan goes on, with `result` if there is one. `died`: its process died.
    """

    error: ShownField
    again: bool = False
    passed: bool = False
    result: str = ""
    kind: FailureKind = "tool"
    tokens: Count = 0
    cost: str = ""
    unsure: bool = False
    died: bool = False


class StepReplied(StepBody, frozen=True, kw_only=True):
    """The person answered a call's question: the step is called again with the answer.

    A `permit` allows the inputs with this content hash, and is not sent. It may hold values of the
    person's own: they are sent `instead_of` the inputs that the person saw. What the call `touches`
    may be otherwise than seen once another call has touched it.
    """

    answer: JsonField = None
    state: str = ""
    permit: bool = False
    instead_of: str = ""
    touches: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "answer", frozen_json(self.answer))


# Why a plan goes on without a step: its condition, a skipped step that it needs, a failure, or a
# person who left it out of an approval.
SkipRule = Literal["when", "need", "error", "left_out"]


class StepSkipped(StepBody, frozen=True, kw_only=True):
    """A step will not run. With a `rule`, the plan says so; `result` is then what stands in."""

    reason: ShownField = ""
    rule: SkipRule | Literal[""] = ""
    result: str = ""


class StepWaits(StepBody, frozen=True, kw_only=True):
    """A step waits some `seconds` before its next round or try; 0 ends the wait."""

    seconds: Seconds = 0.0


class StepCancelled(StepBody, frozen=True, kw_only=True):
    """A step was stopped before it could take effect."""

    reason: ShownField = ""


class StepUnknown(StepBody, frozen=True, kw_only=True):
    """It is not known whether a call took effect; `died`: its process died during the call."""

    reason: ShownField = ""
    died: bool = False


class StepReset(StepBody, frozen=True, kw_only=True):
    """A step waits to run once more; with `same_call`, consent to its call still holds."""

    reason: ShownField = ""
    same_call: bool = False


class RunPaused(EventBody, frozen=True, kw_only=True):
    """No new step starts until the run is resumed."""

    reason: ShownField = ""


class RunResumed(EventBody, frozen=True, kw_only=True):
    """A paused run continues; with a `reason`, one that was taken from a living process."""

    reason: ShownField = ""


class RunRepaired(EventBody, frozen=True, kw_only=True):
    """A damaged journal goes on, paused: `aside` events were set aside, `lost` cannot be read."""

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


class RequestAnswered(EventBody, frozen=True, kw_only=True):
    """The request was answered without a plan; `result` is the hash of the answer."""

    result: str


class RunFinished(EventBody, frozen=True, kw_only=True):
    """The run is over."""

    status: Literal["done", "partly_done", "failed", "cancelled", "answered"]
    reason: ShownField = ""


_Planning = RunCreated | Triaged | PlanningFailed | PlanProposed
_Deciding = ReviewAsked | PreviewStarted | PreviewMade | PlanApproved | PlanRejected | ChangesAsked
_Asking = QuestionAsked | QuestionAnswered | QuestionWithdrawn
_StepEnd = StepDone | StepReused | StepFailed | StepSkipped | StepCancelled | StepUnknown
_Step = StepStarted | StepProgressed | StepAdvised | _StepEnd | StepReplied | StepWaits | StepReset
_Stopping = RunPaused | RunResumed | RunRepaired | CancelAsked
_Ending = ReplanStarted | RequestAnswered | RunFinished
AnyBody = _Planning | _Deciding | _Asking | RunStarted | _Step | _Stopping | _Ending
EVENT_TYPES: tuple[type[EventBody], ...] = get_args(AnyBody)
_BODY_TYPES: Final = {each.type: each for each in EVENT_TYPES}
_NEED_NO_CHECK: Final = (StepStarted, StepDone)  # only our own hashes, names, numbers
# What is to be written: a body, and its actor where that is not the actor of the others.
Entry = AnyBody | tuple[AnyBody, Actor]


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
        return isinstance(other, Event) and _compared(self) == _compared(other)

    def __hash__(self) -> int:
        return hash(self.hash)

    def fresh_hash(self) -> str:
        """Computes the hash of the present content, to compare it with the stored one."""
        texts = self.before, self.body.canonical(), actor_text(self.by)
        at, run = event_body.moment_text(self.at), event_body.run_text(self.run)
        return event_body.hash_of(at, *texts, self.number, run, self.body.type)

    def to_json(self) -> dict[str, Json]:
        """Returns the event as it is streamed: as it is stored, with its type in the body."""
        return self._with_body(cast("dict[str, Json]", data.parse_json(self.body_text)))

    def shown_json(self, locale: str = "en") -> dict[str, Json]:
        """Returns the event with sentences as text; its hash is not the hash of this form."""
        return self._with_body(self.body.shown_json(locale))

    def _with_body(self, fields: dict[str, Json]) -> dict[str, Json]:
        at, by = event_body.moment(self.at), data.parse_json(self.by_text)
        head: dict[str, Json] = {"run": self.run, "number": self.number, "at": at, "by": by}
        head["body"] = {"type": self.body.type, **fields}
        return head | {"before": self.before, "hash": self.hash}


_compared: Final = attrgetter("run", "number", "at", "by_text", "body_text", "before", "hash")


def next_event(
    body: AnyBody, *, run: str, by: Actor, at: datetime, last: Event | None = None
) -> Event:
    """Makes the event that follows the last one of a run."""
    return next_events([body], run=run, by=by, at=at, last=last)[0]


def next_events(
    entries: Iterable[Entry], *, run: str, by: Actor, at: datetime, last: Event | None = None
) -> list[Event]:
    """Makes the events that follow the last one, all at one time; `by` if they name no actor."""
    first, before = (last.number + 1, last.hash) if last else (1, "")
    at = at.astimezone(UTC)
    when, name, events = event_body.moment_text(at), event_body.run_text(run), list[Event]()
    for number, entry in enumerate(entries, first):
        body, who = entry if isinstance(entry, tuple) else (entry, by)
        text, by_text = body.canonical(), actor_text(who)
        try:
            if type(body) not in _NEED_NO_CHECK:
                _decoder(type(body), event_body.check_field).decode(text)
        except (msgspec.ValidationError, TypeError) as error:
            raise _misfit(body.type, error) from None
        event = Event(
            run=run,
            number=number,
            at=at,
            by=who,
            body=body,
            before=before,
            hash=event_body.hash_of(when, before, text, by_text, number, name, body.type),
            body_text=text,
            by_text=by_text,
        )
        events.append(event)
        before = event.hash
    return events


@cache
def _decoder(kind: type[Any], read: Callable[..., object]) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind, dec_hook=read)


def _misfit(what: str, error: Exception) -> EventMisfit:
    why = Sentence("the {what} cannot be stored: {error}", what=what, error=error)
    return EventMisfit(why, hint=Sentence("nothing was stored; give a value of the right type"))


_read_actor: Final = lru_cache(maxsize=256)(msgspec.json.Decoder(Actor).decode)


def stored_event(
    *,
    run: str,
    number: int,
    at: str,
    by: bytes,
    type: str,  # noqa: A002
    body: bytes,
    before: str,
    hash: str,  # noqa: A002
) -> Event:
    """Reads an event from its stored texts; the hash is not checked."""
    try:
        return Event(
            run=run,
            number=number,
            at=event_body.read_moment(at),
            by=_read_actor(by),
            body=_decoder(_BODY_TYPES[type], event_body.read_field).decode(body),
            before=before,
            hash=hash,
            body_text=body,
            by_text=by,
        )
    except (msgspec.MsgspecError, KeyError, ValueError, RecursionError) as error:
        raise JournalDamaged(
            Sentence("an event cannot be read: {error}", error=error),
            hint=Sentence("it may be damaged, or written by a newer Plansmith"),
        ) from None


def read_event(value: Mapping[str, Any]) -> Event:
    """Reads an event from its JSON form."""
    try:
        plain: dict[str, Any] = {name: value[name] for name in ("run", "number", "at", "hash")}
        plain |= {"before": value.get("before", ""), "by": data.canonical_json(value["by"])}
        fields = {**value["body"]}
        return stored_event(**plain, type=fields.pop("type"), body=data.stored_json(fields))
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise JournalDamaged(Sentence("an event cannot be read: {error}", error=error)) from None


def verify_chain(events: Iterable[Event]) -> Event | None:
    """Checks numbers, links and hashes; returns the last event or raises `JournalDamaged`."""
    last: Event | None = None
    for event in events:
        number, before = (last.number + 1, last.hash) if last else (1, "")
        place = {"number": number, "run": event.run}
        if event.number != number or (last and event.run != last.run):
            raise JournalDamaged(Sentence("event {number} of run {run} is missing", **place))
        if event.before != before or event.fresh_hash() != event.hash:
            raise JournalDamaged(Sentence("event {number} of run {run} was altered", **place))
        last = event
    return last
