"""Schedules and their fires: what runs unattended, when, and what came of each time."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from enum import StrEnum
from hashlib import sha256
from itertools import islice, takewhile
from typing import Annotated, Any, Final, NamedTuple, Self

from pydantic import AfterValidator, Field, ValidationError, model_validator

from plansmith.errors import Misconfigured
from plansmith.plan.data import Flag, FrozenDict, Instant, Json, JsonObject, Record, StrictInt, Text
from plansmith.plan.limits import Bound, BudgetLimits
from plansmith.plan.plan import Plan
from plansmith.plan.run_options import NO_OPTIONS, RunOptions
from plansmith.plan.sentence import Sentence, ShownText
from plansmith.plan.timing import Timing, due, last_due, next_fires
from plansmith.plan.validation_errors import why_invalid

# A fire later than this counts as missed: a running scheduler is never this late.
GRACE: Final = timedelta(seconds=60)
_COUNTED: Final = 1000
_MOMENT: Final = timedelta(microseconds=1)


class Overlap(StrEnum):
    """What happens when a schedule is due while its earlier run is still going on."""

    SKIP = "skip"
    QUEUE = "queue"
    ALLOW = "allow"


class Missed(StrEnum):
    """Which missed times are made up for when no scheduler was running."""

    ONE = "one"
    NONE = "none"
    ALL = "all"


def _name(text: str) -> str:
    text = " ".join(text.split())
    if not text or len(text) > 100 or not text.isprintable():
        raise ValueError(Sentence("a name is 1 to 100 printable characters"))
    return text


class Schedule(Record):
    """What runs when, under whose approval, and its state.

    It runs a plan, a template with its parameters, or a request that is planned anew each time.
    Only the plan with the hash in `approved` runs without a review, in `folder`, and only while its
    tools have the hashes in `tools`. `approver` is the user whose token approved it, where the name
    in `approved_by` does not tell it. Within `bounds`, by tool, it uses values of other tools.
    Instants up to `handled_until` are handled; failures are counted from `failures_since` on.
    """

    id: str
    version: StrictInt = Field(default=1, ge=1)
    name: Annotated[str, AfterValidator(_name)]
    timing: Timing
    request: Text = ""
    plan: Plan | None = None
    template: Text = ""
    inputs: JsonObject = Field(default_factory=FrozenDict[Json])
    options: RunOptions = NO_OPTIONS
    approved: str = ""
    approved_by: str = ""
    approver: str = ""
    overlap: Overlap = Overlap.SKIP
    missed: Missed = Missed.ONE
    window_minutes: StrictInt = Field(default=1440, ge=1)
    jitter_seconds: StrictInt = Field(default=0, ge=0, le=86_400)
    max_failures: StrictInt = Field(default=3, ge=1)
    budget: BudgetLimits = BudgetLimits.with_defaults()
    bounds: dict[str, Bound] = Field(default_factory=dict)
    paused: Flag = False
    reason: ShownText = ""
    removed: Flag = False
    by: str = ""
    folder: str = ""
    tools: dict[str, str] = Field(default_factory=dict)
    created: Instant
    handled_until: Instant
    failures_since: Instant

    @model_validator(mode="after")
    def _one_thing(self) -> Self:
        if self.plan is not None and self.template:
            raise ValueError(Sentence("give a plan or a template, not both"))
        if self.plan is None and not self.template and not self.request.strip():
            raise ValueError(Sentence("give a plan, a template or a request"))
        return self

    def next(self, **changes: Any) -> Self:
        """Returns the next version; no time that was handled is due again."""
        handled_until = max(self.handled_until, changes.pop("handled_until", self.handled_until))
        return self.replace(version=self.version + 1, handled_until=handled_until, **changes)

    @property
    def state(self) -> str:
        """The state in one word: `active`, `paused`, or `over` when no time is left."""
        return "paused" if self.paused else "active" if self.upcoming() else "over"

    def upcoming(self) -> datetime | None:
        """The next time that was not handled yet."""
        found = due(self.timing, after=self.handled_until, until=_FAR, anchor=self.created)
        return next(found, None)

    def next_times(self, now: datetime, *, count: int = 5) -> list[datetime]:
        """Returns the next times in UTC; none while it is paused."""
        after = max(self.handled_until, now)
        count = 0 if self.paused else count
        return next_fires(self.timing, after=after, anchor=self.created, count=count)

    def starts(self, at: datetime) -> datetime:
        """Returns when the fire of an instant starts: a little later, to spread the load."""
        # The same number in every process, so that all start at the same time.
        mark = sha256(f"{self.id} {at.isoformat()}".encode()).digest()
        number = int.from_bytes(mark[:8]) % (self.jitter_seconds + 1)
        return at + timedelta(seconds=number)


_FAR: Final = datetime.fromisoformat("9999-12-30T00:00:00+00:00")


class FireState(StrEnum):
    """The state of one fire; the first four are open."""

    CLAIMED = "claimed"
    QUEUED = "queued"
    RUNNING = "running"
    WAITING = "waiting"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"
    MISSED = "missed"

    @property
    def open(self) -> bool:
        return self in [*FireState][:4]


class FireKind(StrEnum):
    """Why there is a fire: it was due, it makes up for a missed one, or a person started it."""

    DUE = "due"
    LATE = "late"
    BACKFILL = "backfill"
    NOW = "now"


class Fire(Record):
    """One entry of a schedule's history: one per instant, with the id of its run."""

    schedule: str
    due: Instant
    version: StrictInt = Field(default=1, ge=1)
    kind: FireKind = FireKind.DUE
    state: FireState = FireState.CLAIMED
    run: str = ""
    note: ShownText = ""
    at: Instant
    ended: Instant | None = None

    def next(self, **changes: Any) -> Self:
        """Returns the next version."""
        return self.replace(version=self.version + 1, **changes)

    @property
    def key(self) -> tuple[str, datetime]:
        return self.schedule, self.due


class Pending(NamedTuple):
    """What is due now: instants to fire, and an entry for those that are skipped."""

    fires: tuple[tuple[datetime, FireKind], ...] = ()
    passed: tuple[datetime, str] | None = None
    handled_until: datetime | None = None


def pending(schedule: Schedule, now: datetime) -> Pending:
    """Returns what of a schedule is due now, by its policy on missed fires.

    What was due up to a moment is passed over, and what was due after it is fired.
    """
    last = _last(schedule, now)
    if last is not None and schedule.starts(last) > now:
        last = _last(schedule, last - _MOMENT)
    if last is None:
        return Pending()
    missed, word = schedule.missed, Sentence("missed")
    begin = last - _MOMENT
    if missed is Missed.ALL:
        begin = max(schedule.handled_until, now - timedelta(minutes=schedule.window_minutes))
        word = Sentence("missed, and older than the window")
    elif missed is Missed.ONE:
        word = Sentence("missed; the next run makes up for it")
    elif _kind(schedule, last, now) is FireKind.LATE:
        begin = last
    some = due(schedule.timing, after=begin, until=last, anchor=schedule.created)
    fires = tuple((at, _kind(schedule, at, now)) for at in some)
    return Pending(fires, passed_over(schedule, begin, word), last)


def _kind(schedule: Schedule, at: datetime, now: datetime) -> FireKind:
    return FireKind.LATE if now - schedule.starts(at) > GRACE else FireKind.DUE


def _last(schedule: Schedule, now: datetime) -> datetime | None:
    return last_due(
        schedule.timing, after=schedule.handled_until, until=now, anchor=schedule.created
    )


def passed_over(schedule: Schedule, now: datetime, word: str) -> tuple[datetime, str] | None:
    """Returns the entry for instants that will never be fired, if there are any."""
    last = _last(schedule, now)
    if last is None:
        return None
    some = due(schedule.timing, after=schedule.handled_until, until=last, anchor=schedule.created)
    found = list(islice(some, _COUNTED))
    if len(found) == 1:
        return last, word
    count = str(len(found)) if found[-1] == last else Sentence("more than {count}", count=_COUNTED)
    begin, end = f"{found[0]:%Y-%m-%d %H:%M}", f"{last:%Y-%m-%d %H:%M}"
    return last, Sentence(
        "{count} fires from {begin} to {end} UTC: {word}",
        count=count,
        begin=begin,
        end=end,
        word=word,
    )


def failures_in_a_row(schedule: Schedule, fires: Iterable[Fire]) -> int:
    """Counts the failed fires since the last success or since a person looked at them."""
    judged = (FireState.DONE, FireState.FAILED)
    ended = [
        (fire.ended, fire.state)
        for fire in fires
        if fire.state in judged and fire.ended is not None and fire.ended > schedule.failures_since
    ]
    states = [state for _, state in sorted(ended, reverse=True)]
    return sum(1 for _ in takewhile(lambda state: state is FireState.FAILED, states))


def make_schedule(fields: dict[str, Any]) -> Schedule:
    """Makes a schedule from the given fields; the error says what is wrong."""
    try:
        return Schedule.model_validate(fields)
    except ValidationError as error:
        hint = Sentence("correct it, or leave it out")
        raise Misconfigured(why_invalid(error), hint=hint) from None
