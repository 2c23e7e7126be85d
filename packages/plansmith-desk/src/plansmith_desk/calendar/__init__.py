"""Built-in tools for dates and times with zones, as ISO texts or as people say them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from functools import partial
from typing import Final

from plansmith.clock import SystemClock
from plansmith.errors import Misconfigured, ToolFailed
from plansmith.lazy import lazy_pattern
from plansmith.plan.data import Json
from plansmith.plan.sentence import Sentence
from plansmith.ports import Clock
from plansmith_desk import toolset as ts
from plansmith_desk.calendar import moments
from plansmith_desk.calendar.phrases import read_phrase
from plansmith_desk.tool_specs import YES, record, spec
from plansmith_planner.language.numbers import WEEKDAYS

_WHOLE: Final = {"type": "integer"}
_TIME: Final = ts.string(
    "Such as 2026-03-29, 2026-03-29T14:30, 24 December, tomorrow at 15:00, 下周五."
)
_ZONE: Final = ts.string(
    "A city such as Tokyo or 东京, an IANA name such as Europe/Oslo, UTC, or +02:00.",
    minLength=1,
    maxLength=80,
)
_LOCAL: Final = {**_ZONE, "description": "City or zone of times that have none of their own."}
_MOST: Final = {"years": 10_000, "months": 120_000, "weeks": 600_000, "days": 4_000_000}
_PHRASE: Final = record({"en": ts.TEXT, "zh": ts.TEXT})
_MOMENT: Final = record(
    {
        "iso": ts.string("The time with its offset; only the date if only that was given."),
        "date": ts.TEXT,
        "time": ts.string("Hours, minutes and seconds on the clocks of the zone."),
        "clock": ts.string("Hours and minutes."),
        "spoken": _PHRASE,
        "zone": ts.TEXT,
        "offset": ts.string("Distance from UTC, such as +02:00."),
        "utc": ts.TEXT,
        "epoch": {"type": "number", "description": "Seconds since 1970-01-01 in UTC."},
        "weekday": ts.TEXT,
        "week": ts.string("ISO week, such as 2026-W13."),
        "day_of_year": _WHOLE,
        "quarter": _WHOLE,
        "leap_year": YES,
        "summer_time": YES,
    },
    notes=ts.NOTES,
)
_PARTS: Final = ("years", "months", "days", "hours", "minutes", "seconds")
_DIFFERENCE: Final = record(
    {
        "seconds": {"type": "number", "description": "All of it in seconds."},
        "days": {"type": "number", "description": "All of it in days of 24 hours."},
        "parts": record(dict.fromkeys(_PARTS, _WHOLE)),
        "weekdays": {**_WHOLE, "description": "Mondays to Fridays, without the last day."},
        "text": ts.TEXT,
        "negative": YES,
    },
    notes=ts.NOTES,
)
_UNTIL: Final = record(
    {
        "date": ts.TEXT,
        "weekday": ts.TEXT,
        "days": {**_WHOLE, "description": "From today; negative for the past."},
        "text": ts.TEXT,
        "away": _PHRASE,
    },
    notes=ts.NOTES,
)
_ISO: Final = lazy_pattern(r"\d{4}-\d{2}|\d{4}-?W|\d{8}(?!\d)")
_HERE: Final = ("here", "local", "local time", "这里", "本地", "当地")
_NOW: Final = ("now", "right now", "现在", "此刻")

_spec: Final = partial(spec, timeout_s=10)
NOW: Final = _spec(
    "time.now",
    "The current date, time and weekday, here or in a city or time zone "
    "(现在几点、今天星期几、某地时间).",
    record({}, zone=_ZONE),
    _MOMENT,
)
UNTIL: Final = _spec(
    "time.until",
    "How many days from today until a date or holiday, and its weekday "
    "(距离某天还有多少天、倒计时).",
    record({"date": ts.string("Such as 24 December, Christmas, next Friday, 2027-03-01, 春节.")}),
    _UNTIL,
)
DESCRIBE: Final = _spec(
    "time.describe",
    "What day a date is: weekday, ISO week, quarter, day of the year, leap year "
    "(某天是星期几、第几周).",
    record({"time": _TIME}, zone=_LOCAL),
    _MOMENT,
)
CONVERT: Final = _spec(
    "time.convert",
    "Convert a time from one city or time zone to another (时区换算).",
    ts.fields({"time": _TIME, "zone": _LOCAL, "to": _ZONE}, "time", "to"),
    _MOMENT,
)
ADD: Final = _spec(
    "time.add",
    "Add years, months, weeks, days, weekdays, hours or minutes to a date; negative goes back "
    "(某天之后或之前的日期).",
    record(
        {"time": _TIME},
        zone=_LOCAL,
        **{
            unit: ts.whole(f"How many {unit}.", -_MOST.get(unit, 10**12), _MOST.get(unit, 10**12))
            for unit in (*moments.CALENDAR, *moments.CLOCK)
        }
        | {"weekdays": ts.whole("How many days from Monday to Friday.", -1_000_000, 1_000_000)},
    ),
    _MOMENT,
)
DIFFERENCE: Final = _spec(
    "time.difference",
    "How long it is from one date or time to another, in days, weekdays and parts "
    "(两个日期相差多少天).",
    record({"from": _TIME, "to": _TIME}, zone=_LOCAL),
    _DIFFERENCE,
)


_SPECS: Final = (NOW, UNTIL, DESCRIBE, CONVERT, ADD, DIFFERENCE)


class CalendarTools(ts.PureTools):
    """The tools for dates; `zone` is used for times without a zone."""

    def __init__(self, *, zone: str = "UTC", clock: Clock | None = None) -> None:
        try:
            moments.zone_of(zone)
        except ToolFailed as error:
            raise Misconfigured(error.message, hint=error.hint) from None
        self._zone = zone
        self._clock = clock or SystemClock()
        works = (self._now, self._until, self._describe, self._convert, self._add, self._difference)
        super().__init__([ts.BuiltIn(*each) for each in zip(_SPECS, works, strict=True)])

    def _now(self, given: ts.Arguments, _: ts.Job) -> Json:
        return _result(moments.in_zone(self._clock.now(), self._place(given)))

    def _place(self, given: ts.Arguments, name: str = "zone") -> str:
        place: str = given.get(name, "here")
        return self._zone if place.strip().casefold() in _HERE else moments.zone_name(place)

    def _today(self, zone: str) -> date:
        return moments.in_zone(self._clock.now(), zone).at.date()

    def _read(self, given: ts.Arguments) -> moments.Moment:
        return self._moment(given["time"], self._place(given))

    def _moment(self, text: str, zone: str, *, after: date | None = None) -> moments.Moment:
        """Reads a time as ISO text, or as people say it; a day without year is that `after`."""
        text = text.strip()
        if text.casefold() in _NOW:
            return moments.in_zone(self._clock.now(), zone)
        found = None if _ISO.match(text) else read_phrase(text, self._today(zone), after=after)
        if found is None:
            return moments.moment(text, zone)
        at = datetime.combine(found.day, found.clock or time())
        read = moments.local_moment(at, zone, is_day=found.clock is None)
        return replace(read, notes=(*read.notes, found.note)) if found.note else read

    def _until(self, given: ts.Arguments, _: ts.Job) -> Json:
        found = self._moment(given["date"], self._zone)
        day = found.at.date()
        days = (day - self._today(self._zone)).days
        distance = f"{abs(days):,} day{'' if abs(days) == 1 else 's'}"
        away: dict[str, Json] = {"en": f"{distance} ago", "zh": f"已经过去 {-days} 天"}
        if days >= 0:
            away = {"en": f"{distance} from today", "zh": f"还有 {days} 天"}
        if not days:
            away = {"en": "today", "zh": "就是今天"}
        result: dict[str, Json] = {
            "date": str(day),
            "weekday": WEEKDAYS[day.weekday()],
            "days": days,
            "text": f"{moments.in_words(day)['en']}: {away['en']}",
            "away": away,
        }
        return ts.noted(result, found.notes)

    def _describe(self, given: ts.Arguments, _: ts.Job) -> Json:
        return _result(self._read(given))

    def _convert(self, given: ts.Arguments, _: ts.Job) -> Json:
        source = self._read(given)
        found = moments.in_zone(source.at, self._place(given, "to"))
        midnight = f"only a date was given: midnight in {source.zone} is taken"
        notes = (*source.notes, midnight) if source.is_day else source.notes
        return _result(moments.Moment(found.at, found.zone, notes=notes))

    def _add(self, given: ts.Arguments, _: ts.Job) -> Json:
        amounts = {
            unit: int(given[unit]) for unit in (*moments.CALENDAR, *moments.CLOCK) if unit in given
        }
        if not amounts:
            hint = Sentence("give days, hours or another unit")
            raise ToolFailed(Sentence("nothing is added"), hint=hint)
        return _result(moments.plus(self._read(given), amounts))

    def _difference(self, given: ts.Arguments, _: ts.Job) -> Json:
        zone = self._place(given)
        # Without years: 1 March is that of this year, and 24 December the next after it.
        first = self._today(zone).replace(month=1, day=1)
        start = self._moment(given["from"], zone, after=first)
        end = self._moment(given["to"], zone, after=start.at.date())
        length = moments.elapsed(start, end)
        negative = length < timedelta(0)
        parts = moments.parts_between(*((end, start) if negative else (start, end)))
        last = end.at.astimezone(start.at.tzinfo).date()
        words = [f"{count} {unit[: len(unit) - (count == 1)]}" for unit, count in parts.items()]
        found: dict[str, Json] = {
            "seconds": _number(length.total_seconds()),
            "days": _number(length / timedelta(days=1)),
            "parts": dict(parts),
            "weekdays": moments.weekdays_between(start.at.date(), last),
            "text": ", ".join(each for each in words if each[:2] != "0 ") or "0 seconds",
            "negative": negative,
        }
        return ts.noted(found, [*start.notes, *end.notes])


def _result(found: moments.Moment) -> Json:
    at = found.at
    utc = at.astimezone(UTC)
    year, week, _ = at.isocalendar()
    whole_seconds = "auto" if at.microsecond else "seconds"
    result: dict[str, Json] = {
        "iso": str(at.date()) if found.is_day else at.isoformat(timespec=whole_seconds),
        "date": str(at.date()),
        "time": at.strftime("%H:%M:%S"),
        "clock": at.strftime("%H:%M"),
        "spoken": moments.in_words(at),
        "zone": found.zone,
        "offset": at.isoformat()[-6:] if at.utcoffset() else "+00:00",
        "utc": utc.isoformat(timespec=whole_seconds).replace("+00:00", "Z"),
        "epoch": _number((utc - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds()),
        "weekday": WEEKDAYS[at.weekday()],
        "week": f"{year}-W{week:02}",
        "day_of_year": at.timetuple().tm_yday,
        "quarter": (at.month + 2) // 3,
        "leap_year": date(at.year, 12, 31).timetuple().tm_yday == 366,
        "summer_time": bool(at.dst()),
    }
    return ts.noted(result, found.notes)


def _number(value: float) -> int | float:
    return int(value) if value.is_integer() else value
