"""Times in zones, which have names and cities; notes skipped and repeated clock times."""

from __future__ import annotations

import calendar
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from functools import cache
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from plansmith.errors import ToolFailed
from plansmith.plan.data import Json
from plansmith.plan.sentence import Sentence, did_you_mean
from plansmith_planner.language.numbers import MONTHS, WEEKDAYS
from plansmith_planner.language.words import folded

_ISO: Final = "such as 2026-03-29, 24 December, next Friday or 2026-03-29T14:30"
_MAX_LENGTH: Final = 80
_OFFSET: Final = re.compile(r"(?:UTC|GMT)?(?P<sign>[+-])(?P<hours>\d{1,2}):?(?P<minutes>[0-5]\d)?")
_DAY: Final = re.compile(r"\d{4}-?\d{2}-?\d{2}|\d{4}-?W\d{2}(?:-?\d)?")


@dataclass(frozen=True, slots=True)
class Moment:
    """A point in time in a zone; `is_day` if only a date was given."""

    at: datetime
    zone: str
    is_day: bool = False
    notes: tuple[str, ...] = ()


def zone_of(name: str) -> tzinfo:
    """Returns a zone by its IANA name, or a fixed offset from UTC such as +02:00."""
    if name.upper() in ("UTC", "Z", "GMT"):
        return UTC
    fixed = _OFFSET.fullmatch(name)
    if fixed is not None and int(fixed["hours"]) < 24:
        offset = timedelta(hours=int(fixed["hours"]), minutes=int(fixed["minutes"] or 0))
        return timezone(-offset if fixed["sign"] == "-" else offset)
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        names = sorted(available_timezones())
        hint = did_you_mean(name, names, otherwise=Sentence("an IANA name such as Europe/Oslo"))
        message = Sentence("there is no time zone '{name}'", name=name[:60])
        raise ToolFailed(message, hint=hint) from None


def moment(text: str, zone: str) -> Moment:
    """Parses an ISO text; without an offset it is local time in `zone`."""
    text = text.strip()
    if len(text) > _MAX_LENGTH:
        raise ToolFailed(Sentence("the time is too long a text"), hint=_ISO)
    try:
        found = datetime.fromisoformat(text)
        # Near the ends of the calendar an offset leads out of it.
        if found.tzinfo is not None:
            found.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        message = Sentence("'{text}' is not a time: {error}", text=text, error=error)
        raise ToolFailed(message, hint=_ISO) from None
    if found.tzinfo is None:
        return local_moment(found, zone, is_day=_DAY.fullmatch(text) is not None)
    return Moment(found, _offset_name(found))


def local_moment(naive: datetime, zone: str, *, is_day: bool = False) -> Moment:
    """Puts a clock time into a zone; resolves and notes skipped and repeated times."""
    where = zone_of(zone)
    try:
        first, second = (naive.replace(tzinfo=where, fold=fold) for fold in (0, 1))
        before, after = first.utcoffset(), second.utcoffset()
        if before == after or before is None or after is None:
            first.astimezone(UTC)
            return Moment(first, zone, is_day)
        if before < after:
            # Skipped: go on by as much as the clocks do, as a watch that was not set would.
            real = first.astimezone(UTC).astimezone(where)
            skipped = (
                f"{_clock(naive)} does not exist in {zone} on {naive.date()}, when the clocks go "
                f"forward: {_clock(real)} ({_offset_name(real)}) is taken"
            )
            return Moment(real, zone, is_day, (skipped,))
    except OverflowError:
        raise out_of_range() from None
    note = (
        f"{_clock(naive)} comes twice in {zone} on {naive.date()}, when the clocks go back: "
        f"the first is taken ({_offset_name(first)}); say {_offset_name(second)} for the second"
    )
    return Moment(first, zone, is_day, () if is_day else (note,))


def in_zone(at: datetime, zone: str) -> Moment:
    """Returns the same moment in another zone."""
    try:
        return Moment(at.astimezone(zone_of(zone)), zone)
    except OverflowError:
        raise out_of_range() from None


def out_of_range() -> ToolFailed:
    """Returns the error for times before the year 1 and after the year 9999."""
    hint = Sentence("use smaller numbers")
    return ToolFailed(Sentence("that is outside the years 1 to 9999"), hint=hint)


def plus(start: Moment, amounts: Mapping[str, int]) -> Moment:
    """Adds years to days on the calendar, and hours to seconds on the clock."""
    try:
        naive, notes = _plus_calendar(start.at.replace(tzinfo=None, fold=0), amounts)
        clock = timedelta(**{unit: amounts.get(unit, 0) for unit in CLOCK})
        if start.is_day and not clock:
            return replace(local_moment(naive, start.zone, is_day=True), notes=tuple(notes))
        moved = naive != start.at.replace(tzinfo=None, fold=0)
        there = local_moment(naive, start.zone) if moved else start
        at = (there.at.astimezone(UTC) + clock).astimezone(there.at.tzinfo)
    except (OverflowError, ValueError):
        raise out_of_range() from None
    return Moment(at, start.zone, notes=(*start.notes, *notes, *(there.notes if moved else ())))


CLOCK: Final = ("hours", "minutes", "seconds")
CALENDAR: Final = ("years", "months", "weeks", "days", "weekdays")


def in_months(day: date, months: int) -> date:
    """Returns the same day some months later, or the last one of that month."""
    year, month = divmod(day.year * 12 + day.month - 1 + months, 12)
    if not 1 <= year <= 9999:
        raise out_of_range()
    last = calendar.monthrange(year, month + 1)[1]
    return day.replace(year=year, month=month + 1, day=min(day.day, last))


def _plus_calendar(start: datetime, amounts: Mapping[str, int]) -> tuple[datetime, list[str]]:
    there = in_months(start, amounts.get("years", 0) * 12 + amounts.get("months", 0))
    notes: list[str] = []
    if there.day < start.day:
        wanted = f"{there.isoformat()[:8]}{start.day:02}"
        notes.append(f"there is no {wanted}: the last day of the month is taken")
    moved = datetime.combine(there, start.time())
    moved += timedelta(weeks=amounts.get("weeks", 0), days=amounts.get("days", 0))
    return _plus_weekdays(moved, amounts.get("weekdays", 0)), notes


def _plus_weekdays(start: datetime, count: int) -> datetime:
    """Adds days from Monday to Friday; a start at the weekend counts from there."""
    step = timedelta(days=1 if count > 0 else -1)
    weeks, rest = divmod(abs(count), 5)
    moved = start
    while count and moved.weekday() > 4:
        # From the weekday before, so that one weekday after a Saturday is the Monday.
        moved -= step
    moved += 7 * weeks * step
    while rest:
        moved += step
        rest -= moved.weekday() < 5
    return moved


def weekdays_between(start: date, end: date) -> int:
    """Counts days from Monday to Friday, without the last day; may be negative."""
    if end < start:
        return -weekdays_between(end, start)
    weeks, rest = divmod((end - start).days, 7)
    return weeks * 5 + sum((start.weekday() + day) % 7 < 5 for day in range(rest))


def elapsed(start: Moment, end: Moment) -> timedelta:
    """Returns the time that passes; from date to date in whole days."""
    if start.is_day and end.is_day and start.zone == end.zone:
        return end.at.date() - start.at.date()
    # In UTC: two times in one zone would be compared by their wall clocks.
    return end.at.astimezone(UTC) - start.at.astimezone(UTC)


def parts_between(start: Moment, end: Moment) -> dict[str, int]:
    """Returns years, months, days, hours, minutes and seconds between two moments."""
    # On one wall clock, so that a day is a day also when the clocks change in it.
    first = start.at.replace(tzinfo=None, fold=0)
    last = end.at.astimezone(start.at.tzinfo).replace(tzinfo=None, fold=0)
    if last < first:
        first, last = (each.at.astimezone(UTC).replace(tzinfo=None) for each in (start, end))
    months = (last.year - first.year) * 12 + last.month - first.month
    moved, _ = _plus_calendar(first, {"months": months})
    if moved > last:
        months -= 1
        moved, _ = _plus_calendar(first, {"months": months})
    rest = last - moved
    minutes, seconds = divmod(rest.seconds, 60)
    found = {"years": months // 12, "months": months % 12, "days": rest.days}
    return found | {"hours": minutes // 60, "minutes": minutes % 60, "seconds": seconds}


def in_words(day: date) -> dict[str, Json]:
    """Returns a date as people say it, with its weekday, in English and in Chinese."""
    weekday, month = WEEKDAYS[day.weekday()], MONTHS[day.month - 1]
    return {
        "en": f"{weekday}, {day.day} {month} {day.year}",
        "zh": f"{day.year}年{day.month}月{day.day}日星期{'一二三四五六日'[day.weekday()]}",
    }


def _clock(at: datetime) -> str:
    return at.strftime("%H:%M:%S").removesuffix(":00")


def _offset_name(at: datetime) -> str:
    return at.isoformat()[-6:] if at.utcoffset() else "UTC"


_DATA: Final = Path(__file__).with_name("places.json")
_ENDINGS: Final = (" local time", " time zone", " timezone", " time", "时间", "时区", "市")


@cache
def _places() -> tuple[dict[str, str], dict[str, str]]:
    """Reads the names once: zones by place, and the cities to choose from by country."""
    data: dict[str, dict[str, str]] = json.loads(_DATA.read_text(encoding="utf-8"))
    zones = {name: zone for zone, names in data["zones"].items() for name in names.split(", ")}
    several = {name: ask for names, ask in data["several"].items() for name in names.split(", ")}
    return zones, several


def zone_name(text: str) -> str:
    """Returns the IANA name of the zone that a place has; any other text as it is."""
    name = " ".join(folded(text).replace("_", " ").split())
    name = name.removeprefix("in ").removeprefix("the ")
    for ending in ("", *_ENDINGS):
        if ending and not name.endswith(ending):
            continue
        found = _zone(name.removesuffix(ending).strip())
        if found:
            return found
    return _in_country(name) or text


def _in_country(name: str) -> str:
    """Returns the zone of a city named with its country: Paris, France or 日本东京."""
    zones, several = _places()
    city, comma, country = (part.strip() for part in name.partition(","))
    if comma:
        # The country decides where it has one zone: San José is in Costa Rica, too.
        return zones.get(country) or _of_region(city, country)
    countries = zones.keys() | several.keys()
    halves = ((name[:at], name[at:]) for at in range(2, len(name) - 1))
    return next((zones.get(b, "") for a, b in halves if a in countries), "")


def _of_region(city: str, region: str) -> str:
    """Returns the zone of a city if it can be in that region: Paris, Texas is not Paris."""
    zone, (_, several) = _zone(city), _places()
    near = re.split(", | or ", several[region].casefold()) if region in several else ["new york"]
    # A region that is not known is taken for a state of the Americas, where people name it.
    return (
        zone if zone.partition("/")[0] in {_zone(each).partition("/")[0] for each in near} else ""
    )


def _zone(name: str) -> str:
    zones, several = _places()
    if name in several:
        hint = Sentence("name a city, such as {names}", names=several[name])
        raise ToolFailed(Sentence("{name} has several time zones", name=name), hint=hint)
    return zones.get(name) or _by_last_part().get(name, "")


@cache
def _by_last_part() -> dict[str, str]:
    """Zones by the city in their names, where only one has it."""
    found: dict[str, list[str]] = {}
    for zone in available_timezones():
        if "/" in zone and not zone.startswith(("Etc/", "US/", "posix/", "right/", "SystemV/")):
            last = zone.rpartition("/")[2].replace("_", " ").casefold()
            found.setdefault(last, []).append(zone)
    return {name: zones[0] for name, zones in found.items() if len(zones) == 1}
