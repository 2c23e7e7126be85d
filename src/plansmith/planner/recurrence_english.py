"""When something is done again, said in English."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from plansmith.planner.recurrence_words import Clock, Phrase, at_times, every, in_day_part

_ONE_TO_TWELVE: Final = (
    *("one", "two", "three", "four", "five", "six"),
    *("seven", "eight", "nine", "ten", "eleven", "twelve"),
)
_MORE: Final = {"fifteen": 15, "twenty": 20, "thirty": 30, "a": 1, "an": 1, "other": 2}
_NUMBERS: Final = {word: number for number, word in enumerate(_ONE_TO_TWELVE, start=1)} | _MORE
_FIRST_TO_FIFTH: Final = ("first", "second", "third", "fourth", "fifth")
_ORDINALS: Final = {word: number for number, word in enumerate(_FIRST_TO_FIFTH, start=1)}
_WEEKDAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_DAY: Final = r"(?:mon|tues?|wed(?:nes)?|thu(?:rs?)?|fri|sat(?:ur)?|sun)(?:days?)?\b\.?"
_DAYS: Final = rf"{_DAY}(?:\s*(?:,|and|&|,\s*and|or)\s*{_DAY})*"
_PART: Final = r"(?:morning|afternoon|evening|night)"
_ZONE: Final = r"(?:\s+(?P<zone#>UTC|GMT|[A-Z][A-Za-z]+(?:/[A-Z][A-Za-z_+-]+)+)(?-i:\b))?"
_HALF: Final = r"(?:\s*(?:a\.?m\.?|p\.?m\.?)(?![a-z]))?(?:\s*o'?clock)?"
_CLOCK: Final = rf"(?:noon|midnight|\d{{1,2}}(?:[:.h]\d{{2}})?{_HALF})"
_TIME: Final = (
    rf"(?:at\s+)(?P<time#>{_CLOCK}(?:\s*(?:,|and|&)\s*(?:at\s+)?{_CLOCK})*)"
    rf"(?:\s+in\s+the\s+(?P<part#>{_PART}))?{_ZONE}"
)
_BEFORE, _AFTER = (_TIME.replace("#", number) for number in "12")
_NUMBER: Final = rf"(?:\d{{1,6}}|{'|'.join(sorted(_NUMBERS, key=len, reverse=True))})"
_NTH: Final = rf"(?:\d{{1,2}}(?:st|nd|rd|th)?|{'|'.join(_ORDINALS)}|last)"
_MONTHLY: Final = r"(?:(?:of|in)\s+)?(?:each|every|the|a)\s+month"
_WHICH: Final = (
    rf"(?:every|each)\s+(?P<each>day|weekday|work(?:ing)?\s*day|business\s+day|weekend|{_PART})s?\b"
    r"|(?P<daily>daily)\b|(?:on\s+)?(?P<week>weekdays|weekends)\b"
    rf"|(?:(?:every|each)\s+week\s+on|weekly\s+on|every|each|on)\s+(?P<days>{_DAYS})"
    r"|(?:from\s+)?(?P<span>mon(?:day)?\s+(?:to|through|till|until)\s+fri(?:day)?)\b"
    rf"|(?:on\s+)?the\s+(?P<nth>{_NTH})(?:\s+(?P<of>day|{_DAY}))?\s+{_MONTHLY}\b"
    rf"|(?:(?:every|each)\s+month|monthly)\s+on\s+the\s+(?P<nth2>{_NTH})(?:\s+(?P<of2>day|{_DAY}))?\b"
)
_PHRASE: Final = re.compile(
    rf"\b(?:once\s+)?(?:{_BEFORE}\s*,?\s*)?(?:{_WHICH})(?:\s*,?\s*{_AFTER})?",
    re.IGNORECASE,
)
_INTERVAL: Final = re.compile(
    rf"\b(?:(?:once\s+)?(?:every|each)\s+(?:(?P<count>{_NUMBER})\s+)?"
    r"(?P<unit>seconds?|minutes?|mins?|hours?|hrs?|days?|weeks?)"
    r"|once\s+(?:an?|per)\s+(?P<once>minute|hour)|(?P<half>every\s+half\s+(?:an?\s+)?hour)"
    r"|(?:^|(?<=[,;])\s*)(?P<hourly>hourly)|(?P<end>hourly)(?=[.!]?\s*$))\b",
    re.IGNORECASE,
)
_UNITS: Final = {"s": "second", "m": "minute", "h": "hour", "d": "day", "w": "week"}


def find_english(text: str) -> Iterator[Phrase]:
    """Every phrase that says when, in the order of the text."""
    taken = [phrase for each in _PHRASE.finditer(text) if (phrase := _at(each)) is not None]
    for each in _INTERVAL.finditer(text):
        inside = any(phrase.start <= each.start() < phrase.end for phrase in taken)
        if not inside:
            taken.append(_interval(each, text))
    return iter(sorted(taken))


def _interval(found: re.Match[str], text: str) -> Phrase:
    span = found.span()
    if found["half"]:
        return every(30, "minute", span)
    if found["once"]:
        return every(1, found["once"].lower(), span)
    if found["hourly"] or found["end"]:
        return every(1, "hour", span)
    unit = _UNITS[found["unit"][0].lower()]
    count = (found["count"] or "1").lower()
    number = int(count) if count.isdigit() else _NUMBERS[count]
    if re.match(r"\s*,?\s*at\s+\d", text[found.end() :], re.IGNORECASE):
        flaw = "an interval has no time of day: name the days, or leave the time out"
        return Phrase(*span, flaw=flaw)
    return every(number, unit, span)


def _at(found: re.Match[str]) -> Phrase | None:
    number = "1" if found["time1"] else "2"
    said = found[f"time{number}"]
    part = (found["each"] or "").lower()
    part = (found[f"part{number}"] or (part if re.fullmatch(_PART, part) else "")).lower()
    clocks = [in_day_part(_clock(each), part) for each in _clocks(said or "")]
    if not _recurs(found, timed=bool(clocks)):
        return None
    return at_times(_days(found), clocks, found.span(), found[f"zone{number}"] or "")


def _recurs(found: re.Match[str], *, timed: bool) -> bool:
    """Whether the days come again: on Monday is one Monday, on Mondays is every one."""
    says_every = re.match(
        r"(?:once\s+)?(?:at\b.*?)?(?:every|each|weekly)\b", found[0], re.IGNORECASE
    )
    if found["days"] and not says_every:
        return re.search(r"days\b", found["days"], re.IGNORECASE) is not None
    # The daily report and the weekdays are things, too.
    named = found["daily"] or found["week"] or found["span"]
    return timed or not named


def _clocks(text: str) -> list[str]:
    return [each[0] for each in re.finditer(_CLOCK, text, re.IGNORECASE)]


def _clock(text: str) -> Clock:
    words = text.lower().replace("o'clock", "").replace("oclock", "").strip()
    if words in ("noon", "midnight"):
        return (12, 0) if words == "noon" else (0, 0)
    digits = re.match(r"(\d{1,2})(?:[:.h](\d{2}))?", words)
    assert digits is not None  # noqa: S101 - the pattern found it
    hour, minute = int(digits[1]), int(digits[2] or 0)
    half = words[digits.end() :].strip().replace(".", "")
    if half and not 1 <= hour <= 12:
        return 99, minute
    return (hour % 12 + (12 if half == "pm" else 0) if half else hour), minute


def _days(found: re.Match[str]) -> tuple[str, str]:
    """The days of the month and of the week, as cron writes them."""
    nth, of = found["nth"] or found["nth2"], found["of"] or found["of2"]
    if nth:
        return _day_of_month(nth.lower(), (of or "day").lower())
    if found["days"]:
        numbers = sorted(
            {_weekday(each[0]) for each in re.finditer(_DAY, found["days"], re.IGNORECASE)}
        )
        return "*", ",".join(map(str, numbers))
    kind = (found["each"] or found["week"] or found["span"] or "day").lower()
    if kind.startswith("weekend"):
        return "*", "6,0"
    is_work = kind.startswith(("week", "work", "business", "mon"))
    return "*", "1-5" if is_work else "*"


def _day_of_month(nth: str, of: str) -> tuple[str, str]:
    digits = re.match(r"\d+", nth)
    number = int(digits[0]) if digits else _ORDINALS.get(nth, 0)
    if of == "day":
        return ("L" if nth == "last" else str(number)), "*"
    weekday = _weekday(of)
    return "*", f"{weekday}L" if nth == "last" else f"{weekday}#{number}"


def _weekday(name: str) -> int:
    return _WEEKDAYS.index(name[:3].lower())
