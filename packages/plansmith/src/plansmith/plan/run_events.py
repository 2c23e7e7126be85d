"""Events of requests, reviews, questions, and of a run as a whole."""

from __future__ import annotations

from typing import Final, Literal, cast, get_args

from plansmith.plan.data import need_plain
from plansmith.plan.event_body import (
    Count,
    EventBody,
    FrozenStruct,
    JsonField,
    Moment,
    ShownField,
)
from plansmith.plan.origin import OWN_REQUEST, Origin
from plansmith.plan.run_options import NO_OPTIONS, RunOptions


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
        """Refuses a schema that JSON cannot hold."""
        need_plain(self.answer_schema)


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
