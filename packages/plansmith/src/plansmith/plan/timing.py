"""Computes when something runs again, across clock changes and time zones."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import count, islice, takewhile
from typing import Any, Final, Self, cast
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from cronsim import CronSim, CronSimError
from pydantic import Field, ValidationError, model_validator

from plansmith.errors import Misconfigured
from plansmith.plan.data import Record, StrictInt
from plansmith.plan.sentence import Sentence, did_you_mean
from plansmith.plan.validation_errors import why_invalid

MAX_MINUTES: Final = 10 * 366 * 24 * 60
_FARTHEST_BACK: Final = timedelta(hours=3)
_WAYS: Final = ("every_minutes", "daily_at", "cron", "once_at")
_HINTS: Final = {
    "every_minutes": "error.minutes_hint",
    "daily_at": "error.daily_hint",
    "cron": "error.cron_hint",
    "once_at": "error.time_hint",
}
_UNITS: Final = (
    (10080, "timing.week", "timing.weeks"),
    (1440, "timing.day", "timing.days"),
    (60, "timing.hour", "timing.hours"),
    (1, "timing.minute", "timing.minutes"),
)


class Timing(Record):
    """When something runs again: exactly one of four ways, in a time zone.

    Only the form is checked here, because every machine must be able to read a stored plan.
    `require_valid_timing` checks the rest, such as whether the time zone exists on this machine.
    """

    every_minutes: StrictInt | None = Field(default=None, ge=1)
    daily_at: str | None = Field(default=None, pattern=r"^([01][0-9]|2[0-3]):[0-5][0-9]$")
    cron: str | None = Field(default=None, min_length=9)
    once_at: str | None = Field(default=None, min_length=10)
    timezone: str = "UTC"

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if sum(getattr(self, way) is not None for way in _WAYS) != 1:
            raise ValueError(f"give exactly one of {', '.join(_WAYS)}")
        return self

    @property
    def sentence(self) -> Sentence:
        if self.every_minutes is not None:
            size, one, many = next(unit for unit in _UNITS if self.every_minutes % unit[0] == 0)
            number = str(self.every_minutes // size)
            length = Sentence(one) if number == "1" else Sentence(many, count=number)
            return Sentence("every {length}", length=length)
        if self.daily_at is not None:
            return Sentence("daily at {time} {zone}", time=self.daily_at, zone=self.timezone)
        if self.cron is not None:
            return Sentence("cron {cron} {zone}", cron=self.cron, zone=self.timezone)
        return Sentence("once at {time} {zone}", time=self.once_at, zone=self.timezone)

    def __str__(self) -> str:
        return str(self.sentence)


def make_timing(**fields: Any) -> Timing:
    """Makes a timing from the given fields; the error says how to correct them."""
    try:
        timing = Timing.model_validate(fields)
    except ValidationError as error:
        place = error.errors()[0]["loc"]
        code = _HINTS.get(str(place[0]) if place else "")
        hint = Sentence(code) if code else Sentence("give exactly one of {ways}", ways=[*_WAYS])
        why = why_invalid(error) if place else Sentence("the timing is not clear")
        raise Misconfigured(why, hint=hint) from None
    require_valid_timing(timing)
    return timing


def require_valid_timing(timing: Timing) -> None:
    """Raises `Misconfigured` for a timing that this machine cannot compute or that never fires."""
    zone_of(timing.timezone)
    if (timing.every_minutes or 0) > MAX_MINUTES:
        hint = Sentence("at most {count}, which is ten years", count=str(MAX_MINUTES))
        why = Sentence("every {count} minutes is too rare", count=str(timing.every_minutes))
        raise Misconfigured(why, hint=hint)
    if timing.once_at is not None:
        _once(timing)
    if timing.cron is not None:
        anchor = datetime(2026, 1, 1, tzinfo=UTC)
        if next(fires(timing, after=anchor, anchor=anchor), None) is None:
            why = Sentence("the cron expression '{cron}' never fires", cron=timing.cron)
            raise Misconfigured(why, hint=Sentence(_HINTS["cron"]))


def zone_of(name: str) -> ZoneInfo:
    """Returns the time zone of an IANA name."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        usual = Sentence("an IANA name such as Europe/Oslo")
        hint = did_you_mean(name.replace(" ", "_"), known := available_timezones(), otherwise=usual)
        if not known:
            hint = "this machine has no time zones: pip install tzdata"
        why = Sentence("there is no time zone '{name}'", name=name[:60])
        raise Misconfigured(why, hint=hint) from None


def fires(timing: Timing, *, after: datetime, anchor: datetime) -> Iterator[datetime]:
    """Yields the instants after `after` in UTC, in order; intervals count from `anchor`."""
    after, anchor = after.astimezone(UTC), anchor.astimezone(UTC)
    try:
        if timing.every_minutes is not None:
            step = timedelta(minutes=timing.every_minutes)
            first = max((after - anchor) // step + 1, 1)
            yield from (anchor + step * number for number in count(first))
        elif timing.once_at is not None:
            at = _once(timing)
            yield from (each for each in (at,) if each > after)
        else:
            hour, _, minute = (timing.daily_at or "").partition(":")
            cron = f"{int(minute)} {int(hour)} * * *" if timing.daily_at else timing.cron
            yield from _by_clock(cast("str", cron), zone_of(timing.timezone), after)
    except OverflowError:
        return  # the calendar ends


def due(
    timing: Timing, *, after: datetime, until: datetime, anchor: datetime
) -> Iterator[datetime]:
    """Returns the instants after `after` and up to `until`."""
    return takewhile(lambda at: at <= until, fires(timing, after=after, anchor=anchor))


def last_due(
    timing: Timing, *, after: datetime, until: datetime, anchor: datetime
) -> datetime | None:
    """Returns the last instant up to `until`, without computing all earlier ones."""
    for hours in (1, 26, 32 * 24, 367 * 24, None):
        start = after if hours is None else max(after, until - timedelta(hours=hours))
        found = list(due(timing, after=start, until=until, anchor=anchor))
        if found or start == after:
            return found[-1] if found else None
    return None


def next_fires(
    timing: Timing, *, after: datetime, anchor: datetime | None = None, count: int = 1
) -> list[datetime]:
    """Returns the next instants; fewer when there are no more."""
    return list(islice(fires(timing, after=after, anchor=anchor or after), count))


def _once(timing: Timing) -> datetime:
    try:
        at = datetime.fromisoformat(cast("str", timing.once_at))
        if at.tzinfo is not None:
            return at.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        why = Sentence("'{text}' is not a time: {error}", text=timing.once_at, error=str(error))
        raise Misconfigured(why, hint=Sentence(_HINTS["once_at"])) from None
    return _first_instant(at, zone_of(timing.timezone))


def _cron(expression: str, local: datetime) -> CronSim:
    count, hint = len(expression.split()), Sentence(_HINTS["cron"])
    if count != 5:
        why = Sentence("'{cron}' has {count} fields, not five", cron=expression, count=count)
        raise Misconfigured(why, hint=hint)
    try:
        return CronSim(expression, local)
    except CronSimError as error:
        about = {"cron": expression, "error": str(error).lower()}
        why = Sentence("the cron expression '{cron}': {error}", **about)
        raise Misconfigured(why, hint=hint) from None


def _by_clock(expression: str, zone: ZoneInfo, after: datetime) -> Iterator[datetime]:
    """Yields the instants of the wall-clock times that an expression names.

    A named hour runs once a day: the first time when clocks go back, and at the end of the gap when
    clocks skip it. With any hour (`*`), it runs whenever the clock shows the minute.
    """
    local = after.astimezone(zone).replace(tzinfo=None)
    if expression.split()[1].startswith("*"):
        begin = local - _FARTHEST_BACK  # clocks may go back, and show these times again
        found = heapq.merge(*(_shown(_cron(expression, begin), zone, fold) for fold in (0, 1)))
    else:
        found = (_first_instant(wall, zone) for wall in _cron(expression, local))
    last = after
    for at in found:
        if at > last:
            last = at
            yield at


def _shown(walls: Iterable[datetime], zone: ZoneInfo, fold: int) -> Iterator[datetime]:
    """Yields when a clock shows these times the first or the second time; some it never shows."""
    for wall in walls:
        at = wall.replace(tzinfo=zone, fold=fold).astimezone(UTC)
        if at.astimezone(zone).replace(tzinfo=None) == wall:
            yield at


def _first_instant(wall: datetime, zone: ZoneInfo) -> datetime:
    """Returns when a clock first shows this time; for a skipped time, the end of the gap."""
    while (found := next(_shown([wall], zone, 0), None)) is None:
        wall = wall.replace(second=0, microsecond=0) + timedelta(minutes=1)
    return found
