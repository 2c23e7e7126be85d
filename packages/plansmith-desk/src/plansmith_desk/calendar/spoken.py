"""Reads dates and times as people say them, in English and Chinese, from a day that is today."""

from __future__ import annotations

import re
import unicodedata
from calendar import monthrange
from datetime import date, time, timedelta
from typing import Final, NamedTuple

from plansmith.errors import ToolFailed
from plansmith.lazy import lazy_pattern
from plansmith.plan.sentence import Sentence
from plansmith_desk.calendar.holidays import HOLIDAYS
from plansmith_desk.calendar.moments import MONTHS, WEEKDAYS, in_months
from plansmith_planner.language.numbers import SPELT, number

_LONGEST: Final = 60
_MONTHS: Final = tuple(map(str.lower, MONTHS))
_NEAR: Final = {
    **dict.fromkeys(("today", "tonight", "今天", "今日", "今晚"), 0),
    **dict.fromkeys(("tomorrow", "明天", "明日", "明晚"), 1),
    **dict.fromkeys(("the day after tomorrow", "day after tomorrow", "后天"), 2),
    "大后天": 3,
    **dict.fromkeys(("yesterday", "昨天", "昨日"), -1),
    **dict.fromkeys(("the day before yesterday", "day before yesterday", "前天"), -2),
    "大前天": -3,
}


class Spoken(NamedTuple):
    """What was understood: a day, the time of day if one was said, and a remark."""

    day: date
    clock: time | None = None
    note: str = ""


def spoken(text: str, today: date, *, after: date | None = None) -> Spoken | None:
    """Returns the date of a phrase; None if it is none.

    A day without year is the next one, today or after it; or the next from the day `after`.
    """
    plain = " ".join(unicodedata.normalize("NFKC", text).casefold().split())
    plain = plain.replace("’", "'").strip(" ,;!?。")
    if not plain or len(plain) > _LONGEST:
        return None
    rest, clock = _split_clock(plain)
    if not rest:
        return Spoken(today, clock) if clock else None
    for read in (_near, _counted, _weekday, _holiday, _numeric, _chinese, _english, _end):
        found = read(rest, today, after or today)
        if found is not None:
            return found._replace(clock=clock)
    return None


_CLOCK: Final = lazy_pattern(
    r"(?:(?:^|(?<![\s,])[\s,]++)(?:at\s++)?)(?:(?P<noon>noon|midnight)"
    r"|(?P<hour>\d{1,2})(?::(?P<minute>\d{2}))?\s*(?P<half>[ap])\.?m\.?"
    r"|(?P<hour2>\d{1,2}):(?P<minute2>\d{2}))$"
)
_CHINESE_CLOCK: Final = lazy_pattern(
    r"(?<!\s)\s*+(?P<part>凌晨|早上|上午|中午|下午|傍晚|晚上)?(?P<hour>\d{1,2}|[一二两三四五六七八九十]{1,3})"
    r"(?:点|时|:)(?:(?P<minute>\d{1,2})分?|(?P<half>半)|整)?$"
)


def _split_clock(text: str) -> tuple[str, time | None]:
    found = _CLOCK.search(text)
    if found is not None:
        if found["noon"]:
            hour, minute = (12 if found["noon"] == "noon" else 0), 0
        else:
            hour = int(found["hour"] or found["hour2"])
            minute = int(found["minute"] or found["minute2"] or 0)
        if found["half"]:
            hour = (hour % 12) + (12 if found["half"] == "p" else 0) if hour <= 12 else 99
        return text[: found.start()].strip(" ,"), _time(text, hour, minute)
    found = _CHINESE_CLOCK.search(text)
    if found is None:
        return text, None
    hour, minute = number(found["hour"]), int(found["minute"] or (30 if found["half"] else 0))
    if found["part"] in ("下午", "傍晚", "晚上") and hour < 12:
        hour += 12
    return text[: found.start()].strip(" ,"), _time(text, hour, minute)


def _time(text: str, hour: int, minute: int) -> time:
    if hour > 23 or minute > 59:
        raise ToolFailed(
            Sentence("'{text}' has no such time of day", text=text),
            hint=Sentence("such as 14:30 or 2:30 pm"),
        )
    return time(hour, minute)


def _near(text: str, today: date, after: date) -> Spoken | None:
    del after
    return Spoken(today + timedelta(days=_NEAR[text])) if text in _NEAR else None


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


def _counted(text: str, today: date, after: date) -> Spoken | None:
    del after
    found = _first(_COUNTED, text)
    if found is None:
        return None
    unit = found["unit"]
    sign = -1 if found["past"] else 1
    if found["count"] == "半":
        return Spoken(in_months(today, sign * 6))
    count = sign * (1 if found["count"] in ("a", "an") else number(found["count"]))
    if unit in _IN_MONTHS:
        return Spoken(in_months(today, count * _IN_MONTHS[unit]))
    return Spoken(today + timedelta(days=count * _DAYS.get(unit, 7)))


_DAY: Final = r"(?P<day>mon|tue|wed|thu|fri|sat|sun)(?:s|nes|rs?|ur)?(?:day)?"
_WEEKDAY: Final = lazy_pattern(rf"(?:on )?(?:(?P<which>next|this|last|coming|this coming) )?{_DAY}")
_WEEKDAY_CN: Final = lazy_pattern(
    r"(?P<which>下+个?|本|这个?|上+个?)?(?:周|星期|礼拜)(?P<day>[一二三四五六日天])"
)


def _weekday(text: str, today: date, after: date) -> Spoken | None:
    del after
    found = _WEEKDAY.fullmatch(text)
    if found is None:
        return _chinese_weekday(text, today)
    wanted = [name[:3].lower() for name in WEEKDAYS].index(found["day"])
    ahead = (wanted - today.weekday()) % 7
    if found["which"] == "last":
        return Spoken(today - timedelta(days=(today.weekday() - wanted) % 7 or 7))
    if found["which"] != "next":
        return Spoken(today + timedelta(days=ahead))
    day = today + timedelta(days=ahead or 7)
    later = day + timedelta(days=7)
    note = f"next {WEEKDAYS[wanted]} is taken for the first one after today, {day}"
    # On a Monday some mean the Friday of the next week.
    return Spoken(day, note=f"{note}; the one after it is {later}")


def _chinese_weekday(text: str, today: date) -> Spoken | None:
    found = _WEEKDAY_CN.fullmatch(text)
    if found is None:
        return None
    wanted = min("一二三四五六日天".index(found["day"]), 6)
    which = found["which"] or ""
    if not which:
        return Spoken(today + timedelta(days=(wanted - today.weekday()) % 7))
    weeks = which.count("下") - which.count("上")
    return Spoken(today + timedelta(days=wanted - today.weekday() + 7 * weeks))


_YEAR: Final = lazy_pattern(r"(?P<name>.*?)(?<![ ,-])[ ,-]*+(?:of |in )?(?P<year>\d{4})年?")
_RELATIVE: Final = {"今年": 0, "明年": 1, "后年": 2, "去年": -1, "前年": -2}
_RELATIVE_EN: Final = {"this year": 0, "next year": 1, "last year": -1}


def _holiday(text: str, today: date, after: date) -> Spoken | None:
    name, said = _said_year(text, today)
    name = re.sub(r"^(?:the|this|next|coming|on) ", "", name)
    rule = HOLIDAYS.get(name)
    if rule is None:
        return None
    if said is not None:
        day = rule(said) if said else None
    else:
        days = (rule(each) for each in (after.year, after.year + 1))
        day = next((each for each in days if each is not None and each >= after), None)
    if day is None:
        raise ToolFailed(
            Sentence("the day of '{text}' is not known here", text=text),
            hint=Sentence("give the date itself"),
        )
    return Spoken(day)


def _said_year(text: str, today: date) -> tuple[str, int | None]:
    """Returns a phrase without its year, and the year."""
    for word, years in (*_RELATIVE.items(), *_RELATIVE_EN.items()):
        if text.startswith(word) or text.endswith(f" {word}"):
            return text.removeprefix(word).removesuffix(word).strip(" 的,"), today.year + years
    front = re.fullmatch(r"(?P<year>\d{4})年?的?(?P<name>\D.*)", text)
    found = front or _YEAR.fullmatch(text)
    if found is None or not found["name"]:
        return text, None
    return found["name"].strip(" ,"), int(found["year"])


_SLASHED: Final = lazy_pattern(r"(?P<first>\d{1,2})[/-](?P<second>\d{1,2})(?:[/-](?P<year>\d{4}))?")
_DOTTED: Final = lazy_pattern(r"(?P<day>\d{1,2})\.\s?(?P<month>\d{1,2})\.(?:\s?(?P<year>\d{4}))?")
_YEAR_FIRST: Final = lazy_pattern(r"(?P<year>\d{4})[-/.](?P<month>\d{1,2})[-/.](?P<day>\d{1,2})")


def _numeric(text: str, today: date, after: date) -> Spoken | None:
    del today
    found = _first((_DOTTED, _YEAR_FIRST), text)
    if found is not None:
        said = int(found["year"]) if found["year"] else None
        return Spoken(_dated(text, int(found["month"]), int(found["day"]), said, after))
    found = _SLASHED.fullmatch(text)
    if found is None:
        return None
    said = int(found["year"]) if found["year"] else None
    first, second = int(found["first"]), int(found["second"])
    if first <= 12 and second <= 12 and first != second:
        days = [_dated(text, *pair, said, after) for pair in ((second, first), (first, second))]
        read = " or ".join(f"{day.day} {MONTHS[day.month - 1]}" for day in days)
        raise ToolFailed(
            Sentence("'{text}' could be {read}", text=text, read=read),
            hint=Sentence("write {first} or {second}", first=days[0], second=days[1]),
        )
    month, day = (second, first) if first > 12 else (first, second)
    return Spoken(_dated(text, month, day, said, after))


_CHINESE: Final = lazy_pattern(
    r"(?:(?P<year>\d{4})年|(?P<relative>今年|明年|后年|去年|前年))?的?"
    r"(?:(?P<month>\d{1,2}|[一二三四五六七八九十]{1,2})月|(?P<near>下个?月|本月|这个月|上个?月))?"
    r"(?P<day>\d{1,2}|[一二三四五六七八九十]{1,3})[日号]"
)


def _chinese(text: str, today: date, after: date) -> Spoken | None:
    found = _CHINESE.fullmatch(text)
    if found is None:
        return None
    day = number(found["day"])
    if found["near"]:
        month = in_months(today, {"下": 1, "上": -1}.get(found["near"][0], 0))
        return Spoken(_dated(text, month.month, day, month.year, today))
    if not found["month"]:
        return Spoken(_next_day(text, day, today))
    said = int(found["year"]) if found["year"] else None
    if found["relative"]:
        said = today.year + _RELATIVE[found["relative"]]
    return Spoken(_dated(text, number(found["month"]), day, said, after))


_NTH: Final = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_MONTH: Final = rf"(?P<month>{'|'.join(f'{each}|{each[:3]}' for each in _MONTHS)}|sept)\.?"
_ENGLISH: Final = (
    lazy_pattern(rf"(?:the )?{_NTH}(?: of)?[ .-]*{_MONTH}"),
    lazy_pattern(rf"{_MONTH} ?(?:the )?{_NTH}"),
)


_FRONT: Final = lazy_pattern(rf"{_DAY}\.?,? ")


def _english(text: str, today: date, after: date) -> Spoken | None:
    rest, said = _said_year(text, today)
    rest = rest.removeprefix("on ")
    front = _FRONT.match(rest)
    rest = rest[front.end() :] if front else rest
    alone = re.fullmatch(r"the (\d{1,2})(?:st|nd|rd|th)", rest)
    if alone is not None and said is None:
        return Spoken(_next_day(text, int(alone[1]), today))
    found = _first(_ENGLISH, rest)
    if found is None:
        return None
    day = _dated(text, _month(found["month"]), int(found["day"]), said, after)
    named = WEEKDAYS[day.weekday()]
    odd = front is not None and not named.lower().startswith(front["day"])
    return Spoken(day, note=f"{day} is a {named}" if odd else "")


_END: Final = lazy_pattern(
    rf"(?:the )?end of (?:the month|month|this month|{_MONTH})"
    r"|(?:本月|(?P<number>\d{1,2})月|月)[底末]"
)


def _end(text: str, today: date, after: date) -> Spoken | None:
    """Reads the last day of a month."""
    rest, said = _said_year(text, today)
    found = _END.fullmatch(rest)
    if found is None:
        return None
    month = int(found["number"] or 0) or (_month(found["month"]) if found["month"] else 0)
    if not month:
        return Spoken(today.replace(day=monthrange(today.year, today.month)[1]))
    first = _dated(text, month, 1, said, after.replace(day=1))
    return Spoken(first.replace(day=monthrange(first.year, first.month)[1]))


def _month(word: str) -> int:
    return [each[:3] for each in _MONTHS].index(word[:3]) + 1


def _dated(text: str, month: int, day: int, year: int | None, after: date) -> date:
    """Returns the date; without a year the next one, as 29 February has it."""
    if not 1 <= month <= 12:
        raise ToolFailed(
            Sentence("'{text}' has no such month", text=text),
            hint=Sentence("months go from 1 to 12"),
        )
    years = [year] if year is not None else range(after.year, after.year + 9)
    for each in years:
        try:
            found = date(each, month, day)
        except ValueError:
            continue
        if year is not None or found >= after:
            return found
    hint = Sentence("give a day that its month has")
    raise ToolFailed(Sentence("there is no day '{text}'", text=text), hint=hint)


def _next_day(text: str, day: int, today: date) -> date:
    """Returns the next day of that number in a month."""
    for ahead in range(62):
        found = today + timedelta(days=ahead)
        if found.day == day:
            return found
    raise ToolFailed(
        Sentence("there is no day '{text}'", text=text), hint=Sentence("months have 28 to 31 days")
    )


def _first(patterns: tuple[re.Pattern[str], ...], text: str) -> re.Match[str] | None:
    return next((found for each in patterns if (found := each.fullmatch(text))), None)
