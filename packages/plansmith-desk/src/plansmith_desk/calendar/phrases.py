"""Reads dates and times as people say them, in English and Chinese, from a day that is today."""

from __future__ import annotations

import re
from calendar import monthrange
from datetime import date, time, timedelta
from pathlib import Path
from typing import Final, NamedTuple

from plansmith.errors import ToolFailed
from plansmith.lazy import lazy_pattern
from plansmith.plan.sentence import Sentence
from plansmith_desk.calendar.moments import in_months, out_of_range
from plansmith_planner.language.clock import CHINESE_CLOCK, PARTS, chinese_clock, english_clock
from plansmith_planner.language.numbers import MONTHS, SPELT, WEEKDAYS, month_of, number
from plansmith_planner.language.words import folded

_MAX_LENGTH: Final = 60
_TEXT: Final = Path(__file__).with_name("holidays.txt").read_text(encoding="utf-8")
_ROWS: Final = [line.split(" ", 2) for line in _TEXT.splitlines() if not line.startswith("#")]
# The days of the lunar calendar from 2025 on.
_LUNAR: Final = {name: days.split() for rule, name, days in _ROWS if rule == "lunar"}
_NAMED: Final = [
    (rule, name, int(days))
    for rule, days, names in _ROWS
    if rule != "lunar"
    for name in names.split(", ")
]
_NEAR: Final = {name: days for rule, name, days in _NAMED if rule == "near"}
_RELATIVE: Final = {name: years for rule, name, years in _NAMED if rule == "year"}
# What other days are called, each with its rule and how many days after that it is.
HOLIDAYS: Final = {
    name: (rule, days) for rule, name, days in _NAMED if rule not in ("near", "year")
}
_CLOCK: Final = lazy_pattern(
    r"(?:(?:^|(?<![\s,])[\s,]++)(?:at\s++)?)"
    r"(?P<clock>noon|midnight|\d{1,2}(?::\d{2})?\s*[ap]\.?m\.?|\d{1,2}:\d{2})$"
)
_CHINESE_CLOCK: Final = lazy_pattern(rf"(?<!\s)\s*+{CHINESE_CLOCK.replace('#', '1')}$")
_COUNT: Final = rf"(?P<count>\d{{1,5}}|an?|{'|'.join(SPELT)})"
_UNIT: Final = r"(?P<unit>day|week|month|year)s?"
_COUNTED: Final = (
    lazy_pattern(rf"in {_COUNT} {_UNIT}(?P<past>)(?: time)?"),
    lazy_pattern(rf"{_COUNT} {_UNIT} (?:from (?:now|today)|later)(?P<past>)"),
    lazy_pattern(rf"{_COUNT} {_UNIT} (?P<past>ago)"),
    lazy_pattern(
        r"(?P<count>\d{1,5}|[一二两三四五六七八九十]{1,3}|半(?=年))"
        r"(?P<unit>天|日|周|星期|礼拜|个星期|个礼拜|个月|年)(?:[之以]?后|(?P<past>[之以]?前))"
    ),
)
_DAYS: Final = {"day": 1, "天": 1, "日": 1}
_IN_MONTHS: Final = {"month": 1, "个月": 1, "year": 12, "年": 12}
_DAY: Final = r"(?P<day>mon|tue|wed|thu|fri|sat|sun)(?:s|nes|rs?|ur)?(?:day)?"
_WEEKDAY: Final = lazy_pattern(rf"(?:on )?(?:(?P<which>next|this|last|coming|this coming) )?{_DAY}")
_CHINESE_WEEKDAY: Final = lazy_pattern(
    r"(?P<which>下+个?|本|这个?|上+个?)?(?:周|星期|礼拜)(?P<day>[一二三四五六日天])"
)
_YEAR_FIRST: Final = lazy_pattern(r"(?P<year>\d{4})年?的?(?P<name>\D.*)")
_YEAR: Final = lazy_pattern(r"(?P<name>.*?)(?<![ ,-])[ ,-]*+(?:of |in )?(?P<year>\d{4})年?")
_SLASHED: Final = lazy_pattern(r"(?P<first>\d{1,2})[/-](?P<second>\d{1,2})(?:[/-](?P<year>\d{4}))?")
_DATED: Final = (
    lazy_pattern(r"(?P<day>\d{1,2})\.\s?(?P<month>\d{1,2})\.(?:\s?(?P<year>\d{4}))?"),
    lazy_pattern(r"(?P<year>\d{4})[-/.](?P<month>\d{1,2})[-/.](?P<day>\d{1,2})"),
)
_CHINESE: Final = lazy_pattern(
    r"(?:(?P<year>\d{4})年|(?P<relative>今年|明年|后年|去年|前年))?的?"
    r"(?:(?P<month>\d{1,2}|[一二三四五六七八九十]{1,2})月|(?P<near>下个?月|本月|这个月|上个?月))?"
    r"(?P<day>\d{1,2}|[一二三四五六七八九十]{1,3})[日号]"
)
_NTH: Final = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_MONTH: Final = (
    rf"(?P<month>{'|'.join(f'{each}|{each[:3]}' for each in map(str.lower, MONTHS))}|sept)\.?"
)
_ENGLISH: Final = (
    lazy_pattern(rf"(?:the )?{_NTH}(?: of)?[ .-]*{_MONTH}"),
    lazy_pattern(rf"{_MONTH} ?(?:the )?{_NTH}"),
    lazy_pattern(r"the (?P<day>\d{1,2})(?:st|nd|rd|th)(?P<month>)"),
)
_FRONT: Final = lazy_pattern(rf"{_DAY}\.?,? ")
_END: Final = lazy_pattern(
    rf"(?:the )?end of (?:the month|month|this month|{_MONTH})"
    r"|(?:本月|(?P<number>\d{1,2})月|月)[底末]"
)


class PhraseDate(NamedTuple):
    """What was understood: a day, the time of day if one was said, and a remark."""

    day: date
    clock: time | None = None
    note: str = ""


def read_phrase(text: str, today: date, *, after: date | None = None) -> PhraseDate | None:
    """Returns the date of a phrase; None if it is none.

    A day without year is the next one, today or after it; or the next from the day `after`.
    """
    plain = " ".join(folded(text).split())
    plain = plain.replace("’", "'").strip(" ,;!?。")
    if not plain or len(plain) > _MAX_LENGTH:
        return None
    rest, clock, later = _split_clock(plain)
    found = PhraseDate(today) if clock and not rest else _read_day(rest, today, after or today)
    if found is None:
        return None
    try:
        return found._replace(day=found.day + later, clock=clock)
    except OverflowError:
        raise out_of_range() from None


def _read_day(text: str, today: date, after: date) -> PhraseDate | None:
    phrase = _Phrase(text, today, after)
    readers = (phrase.near, phrase.counted, phrase.weekday, phrase.chinese_weekday, phrase.holiday)
    dated = (phrase.numeric, phrase.slashed, phrase.chinese, phrase.english, phrase.end)
    for read in (*readers, *dated):
        found = read()
        if found is not None:
            return found if isinstance(found, PhraseDate) else PhraseDate(found)
    return None


def _split_clock(text: str) -> tuple[str, time | None, timedelta]:
    """Takes the time of day off the end of a phrase; tells how much later its day is."""
    later = timedelta()
    if found := _CLOCK.search(text):
        hour, minute = english_clock(found["clock"])
    elif found := _CHINESE_CLOCK.search(text):
        hour, minute = chinese_clock(found, 1, found["part1"] or "")
        # The midnight at the end of a day, as 晚上12点 and 24点, is in the next one.
        is_late = PARTS.get(found["part1"]) in ("evening", "night")
        later = timedelta(days=number(found["hour1"]) in ((0, 12, 24) if is_late else (24,)))
    else:
        return text, None, later
    if hour > 23 or minute > 59:
        hint = Sentence("such as 14:30 or 2:30 pm")
        raise ToolFailed(Sentence("'{text}' has no such time of day", text=text), hint=hint)
    return text[: found.start()].strip(" ,"), time(hour, minute), later


class _Phrase(NamedTuple):
    """A phrase without its time of day; each method reads one form, None if it has another."""

    text: str
    today: date
    after: date

    def near(self) -> date | None:
        return self._in_days(_NEAR[self.text]) if self.text in _NEAR else None

    def counted(self) -> date | None:
        found = _first(_COUNTED, self.text)
        if found is None:
            return None
        sign = -1 if found["past"] else 1
        if found["count"] == "半":
            return in_months(self.today, sign * 6)
        count = sign * (1 if found["count"] in ("a", "an") else number(found["count"]))
        if found["unit"] in _IN_MONTHS:
            return in_months(self.today, count * _IN_MONTHS[found["unit"]])
        return self._in_days(count * _DAYS.get(found["unit"], 7))

    def weekday(self) -> PhraseDate | None:
        found = _WEEKDAY.fullmatch(self.text)
        if found is None:
            return None
        wanted = [name[:3].lower() for name in WEEKDAYS].index(found["day"])
        ahead = (wanted - self.today.weekday()) % 7
        if found["which"] == "last":
            return PhraseDate(self._in_days(ahead - 7))
        if found["which"] != "next":
            return PhraseDate(self._in_days(ahead))
        day = self._in_days(ahead or 7)
        note = f"next {WEEKDAYS[wanted]} is taken for the first one after today, {day}"
        # On a Monday some mean the Friday of the next week.
        return PhraseDate(day, note=f"{note}; the one after it is {day + timedelta(days=7)}")

    def chinese_weekday(self) -> date | None:
        found = _CHINESE_WEEKDAY.fullmatch(self.text)
        if found is None:
            return None
        ahead = min("一二三四五六日天".index(found["day"]), 6) - self.today.weekday()
        which: str = found["which"] or ""
        weeks = which.count("下") - which.count("上")
        return self._in_days(ahead + 7 * weeks if which else ahead % 7)

    def holiday(self) -> date | None:
        name, year = self._without_year()
        rule = HOLIDAYS.get(re.sub(r"^(?:the|this|next|coming|on) ", "", name))
        if rule is None:
            return None
        years = (self.after.year, self.after.year + 1) if year is None else (year,) if year else ()
        days = (_holiday(*rule, each) for each in years)
        day = next((each for each in days if each and (year or each >= self.after)), None)
        if day is None:
            hint = Sentence("give the date itself")
            raise ToolFailed(
                Sentence("the day of '{text}' is not known here", text=self.text), hint=hint
            )
        return day

    def numeric(self) -> date | None:
        found = _first(_DATED, self.text)
        return self.dated(found["month"], found["day"], found["year"]) if found else None

    def slashed(self) -> date | None:
        found = _SLASHED.fullmatch(self.text)
        if found is None:
            return None
        first, second, year = int(found["first"]), int(found["second"]), found["year"]
        if first > 12 or second > 12 or first == second:
            return self.dated(*((second, first) if first > 12 else (first, second)), year)
        days = [self.dated(second, first, year), self.dated(first, second, year)]
        read = " or ".join(f"{day.day} {MONTHS[day.month - 1]}" for day in days)
        message = Sentence("'{text}' could be {read}", text=self.text, read=read)
        hint = Sentence("write {first} or {second}", first=days[0], second=days[1])
        raise ToolFailed(message, hint=hint)

    def chinese(self) -> date | None:
        found = _CHINESE.fullmatch(self.text)
        if found is None:
            return None
        day = number(found["day"])
        if found["near"]:
            month = in_months(self.today, {"下": 1, "上": -1}.get(found["near"][0], 0))
            return self.dated(month.month, day, month.year)
        if not found["month"]:
            return self._next(day)
        year = self.today.year + _RELATIVE[found["relative"]] if found["relative"] else None
        return self.dated(number(found["month"]), day, year or found["year"])

    def english(self) -> PhraseDate | None:
        rest, year = self._without_year()
        rest = rest.removeprefix("on ")
        front = _FRONT.match(rest)
        found = _first(_ENGLISH, rest[front.end() :] if front else rest)
        if found is None:
            return None
        if not found["month"]:
            return None if year else PhraseDate(self._next(int(found["day"])))
        day = self.dated(month_of(found["month"]), found["day"], year)
        named = WEEKDAYS[day.weekday()]
        odd = front is not None and not named.lower().startswith(front["day"])
        return PhraseDate(day, note=f"{day} is a {named}" if odd else "")

    def end(self) -> date | None:
        rest, year = self._without_year()
        found = _END.fullmatch(rest)
        if found is None:
            return None
        month = int(found["number"] or 0) or (month_of(found["month"]) if found["month"] else 0)
        first = self.today
        if month:
            first = self._replace(after=self.after.replace(day=1)).dated(month, 1, year)
        return first.replace(day=monthrange(first.year, first.month)[1])

    def _in_days(self, days: int) -> date:
        return self.today + timedelta(days=days)

    def _without_year(self) -> tuple[str, int | None]:
        for word, years in _RELATIVE.items():
            if self.text.startswith(word) or self.text.endswith(f" {word}"):
                rest = self.text.removeprefix(word).removesuffix(word)
                return rest.strip(" 的,"), self.today.year + years
        found = _YEAR_FIRST.fullmatch(self.text) or _YEAR.fullmatch(self.text)
        if found is None or not found["name"]:
            return self.text, None
        return found["name"].strip(" ,"), int(found["year"])

    def dated(self, month: int | str, day: int | str, year: int | str | None) -> date:
        """Returns the date; without a year the next one, as 29 February has it."""
        if not 1 <= int(month) <= 12:
            hint = Sentence("months go from 1 to 12")
            raise ToolFailed(Sentence("'{text}' has no such month", text=self.text), hint=hint)
        years = range(self.after.year, self.after.year + 9) if year is None else [int(year)]
        for each in years:
            try:
                found = date(each, int(month), int(day))
            except ValueError:
                continue
            if year is not None or found >= self.after:
                return found
        raise self._no_day()

    def _next(self, day: int) -> date:
        days = map(self._in_days, range(62))
        found = next((each for each in days if each.day == day), None)
        if found is None:
            raise self._no_day()
        return found

    def _no_day(self) -> ToolFailed:
        hint = Sentence("give a day that its month has")
        return ToolFailed(Sentence("there is no day '{text}'", text=self.text), hint=hint)


def _first(patterns: tuple[re.Pattern[str], ...], text: str) -> re.Match[str] | None:
    return next((found for each in patterns if (found := each.fullmatch(text))), None)


def _holiday(rule: str, later: int, year: int) -> date | None:
    """Returns the day of a rule, or some days later: a date, a weekday of a month, a feast."""
    if rule == "easter":
        a, b, c = year % 19, year // 100, year % 100
        d = (19 * a + b - b // 4 - (b - (b + 8) // 25 + 1) // 3 + 15) % 30
        e = (32 + 2 * (b % 4) + 2 * (c // 4) - d - c % 4) % 7
        month, before = divmod(d + e - 7 * ((a + 11 * d + 22 * e) // 451) + 114, 31)
        day = before + 1
    elif rule in _LUNAR:
        listed, place = _LUNAR[rule], year - 2025
        if not 0 <= place < len(listed):
            return None
        month, day = int(listed[place][:2]), int(listed[place][2:])
    elif "." in rule:
        month, weekday, nth = map(int, rule.split("."))  # Monday is 0
        day = 1 + (weekday - date(year, month, 1).weekday()) % 7 + 7 * (nth - 1)
    else:
        month, day = map(int, rule.split("-"))
    return date(year, month, day) + timedelta(days=later)
