"""What both languages share when they say when: a phrase, clock times, days as cron writes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

ASSUMED_HOUR: Final = 9
ASSUMED: Final = "at 09:00, since no time was said"
TOO_OFTEN: Final = "nothing runs more often than once a minute"
MINUTES: Final = {"minute": 1, "hour": 60, "day": 1440, "week": 10080}

Clock = tuple[int, int]


class Phrase(NamedTuple):
    """Where in a text it is said when, and what that is as the fields of a timing."""

    start: int
    end: int
    fields: dict[str, Any] = {}
    zone: str = ""
    assumed: str = ""
    flaw: str = ""


def in_day_part(clock: Clock, part: str) -> Clock:
    """A time with its part of the day: nine in the evening is 21:00."""
    hour, minute = clock
    if part == "morning" and hour == 12:
        return 0, minute
    late = part in ("afternoon", "evening") or (part == "night" and hour >= 6)
    if late and hour == 12 and part != "afternoon":
        return 0, minute
    return (hour + 12, minute) if late and hour < 12 else (hour, minute)


def at_times(
    days: tuple[str, str], clocks: Sequence[Clock], span: tuple[int, int], zone: str
) -> Phrase:
    """A phrase of days (of the month, of the week) and times; some cannot be one schedule."""
    month_day, week_day = days
    minutes = {minute for _, minute in clocks}
    if any(hour > 23 or minute > 59 for hour, minute in clocks):
        return Phrase(*span, flaw="there is no such time of day")
    if len(minutes) > 1:
        return Phrase(*span, flaw="the times differ in their minutes: make a schedule for each")
    given = clocks or [(ASSUMED_HOUR, 0)]
    hours = sorted({hour for hour, _ in given})
    assumed = "" if clocks else ASSUMED
    if days == ("*", "*") and len(hours) == 1:
        fields: dict[str, Any] = {"daily_at": f"{hours[0]:02d}:{given[0][1]:02d}"}
    else:
        listed = ",".join(map(str, hours))
        fields = {"cron": f"{given[0][1]} {listed} {month_day} * {week_day}"}
    return Phrase(*span, fields, zone, assumed)


def every(count: int, unit: str, span: tuple[int, int]) -> Phrase:
    """A phrase of an interval."""
    if unit == "second":
        whole, rest = divmod(count, 60)
        flaw = TOO_OFTEN if rest or not whole else ""
        return Phrase(*span, {"every_minutes": whole}, flaw=flaw)
    minutes = count * MINUTES[unit]
    return Phrase(*span, {"every_minutes": minutes}, flaw="" if minutes else TOO_OFTEN)
