"""Finds the words in a request that say when to repeat it, and removes them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from plansmith.errors import Misconfigured
from plansmith.lazy import lazy_pattern
from plansmith.plan.plan import Plan
from plansmith.plan.problem import Problem, problem
from plansmith.plan.schedules import timing_of
from plansmith.plan.sentence import Sentence
from plansmith.plan.steps import AgentStep, AnyStep
from plansmith.plan.timing import Timing, check_timing
from plansmith.text import READ_BY_RULES
from plansmith_planner.language.numbers import HAN_NUMBER, SPELT, number

_CONFIRMED: Final = re.compile(
    r"(?<![\s,;，。；])[\s,;，。；]*+(?:\b(?:yes,? )?(?:i confirm(?: (?:it|this|the schedule))?"
    r"|(?:schedule )?confirmed)\b[.!]?"
    r"|(?:我)?(?:已)?确认(?:无误|执行)?[。！]?$)",
    re.IGNORECASE,
)
_EDGES: Final = " \t\r\n,;:，、；：-–—"
_QUESTION: Final = re.compile(
    r"^\s*(?:what|which|who|whom|whose|why|how|when|where|is|are|do|does|did|can|could)\b"
    r"|[?？吗呢]\s*$",
    re.IGNORECASE,
)


class Recurrence(NamedTuple):
    """When to repeat what; `confirmed` if the request itself already confirms it.

    `assumed` describes what the request leaves open. Without a timing, `flaw` says why.
    """

    words: str
    rest: str
    timing: Timing | None = None
    assumed: str = ""
    flaw: str = ""
    confirmed: bool = False


def recurrence(text: str, *, timezone: str = "UTC") -> Recurrence | None:
    """Returns what a request says about repeating it; None if it says nothing."""
    read = _CONFIRMED.sub(" ", text[:READ_BY_RULES])
    bare = read + text[READ_BY_RULES:]
    phrases = [each for each in (*find_english(read), *find_chinese(read)) if _meant(each, bare)]
    if not phrases:
        return None
    phrase = phrases[0]
    words = " ".join(bare[phrase.start : phrase.end].split())
    confirmed = bare != text
    if len(phrases) > 1:
        flaw = "more than one time is named: make a schedule for each"
        return Recurrence(words, text, flaw=flaw, confirmed=confirmed)
    if phrase.flaw:
        return Recurrence(words, text, flaw=phrase.flaw, confirmed=confirmed)
    timing = Timing.model_validate(phrase.fields | {"timezone": phrase.zone or timezone})
    try:
        check_timing(timing)
    except Misconfigured as error:
        return Recurrence(words, text, flaw=str(error), confirmed=confirmed)
    rest = _joined(bare[: phrase.start], bare[phrase.end :])
    return Recurrence(words, rest, timing, phrase.assumed, "", confirmed)


def without_recurrence(text: str) -> str:
    """Returns a request without the words that say when to repeat it."""
    found = recurrence(text)
    return found.rest if found is not None and found.rest else text


def without_schedule_words(plan: Plan) -> tuple[Plan, list[Problem]]:
    """Returns a plan whose scheduled tasks do not say when they run, and a note on each change."""
    steps: list[AnyStep] = []
    notes: list[Problem] = []
    for step in plan.steps:
        if isinstance(step, AgentStep) and timing_of(plan, step.id) is not None:
            bare = without_recurrence(step.task)
            if bare != step.task:
                message, hint = (
                    Sentence(
                        "when it runs is the plan's schedule: the words for it are "
                        "taken out of the task"
                    ),
                    Sentence("check that this is what was meant"),
                )
                notes.append(problem("PS013", message, hint=hint, step=step.id, path=("task",)))
                step = step.replace(task=bare)  # noqa: PLW2901
        steps.append(step)
    return (plan.replace(steps=tuple(steps)) if notes else plan), notes


def _meant(phrase: Phrase, text: str) -> bool:
    """Whether a phrase asks for a repetition, and is not part of the subject.

    A phrase with a time of day always does. Without one, questions do not, and days alone count
    only at the beginning or at the end.
    """
    vague = bool(phrase.assumed or phrase.flaw)
    if not vague and "every_minutes" not in phrase.fields:
        return True
    begins = not text[: phrase.start].strip(_EDGES)
    if _QUESTION.search(text) and not begins:
        return False
    return begins or not vague or not text[phrase.end :].strip(_EDGES + ".。!！")


def _joined(before: str, after: str) -> str:
    """Joins the text before and after the removed words."""
    before, after = before.rstrip(_EDGES), after.lstrip(_EDGES)
    if not before or not after or after[0] in ".。!！?？)）":
        return (before + after).strip()
    wide = min(before[-1], after[0]) >= "\u2e80"
    return (before + ("" if wide else " ") + after).strip()


ASSUMED_HOUR: Final = 9
ASSUMED: Final = "at 09:00, since no time was said"
TOO_OFTEN: Final = "nothing runs more often than once a minute"
MINUTES: Final = {"minute": 1, "hour": 60, "day": 1440, "week": 10080}

Clock = tuple[int, int]


class Phrase(NamedTuple):
    """A phrase that says when: its place in the text, and the fields of a timing."""

    start: int
    end: int
    fields: dict[str, Any] = {}
    zone: str = ""
    assumed: str = ""
    flaw: str = ""


def in_day_part(clock: Clock, part: str) -> Clock:
    """Applies a part of the day to a time: nine in the evening is 21:00."""
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
    """Returns a phrase of days and times; some combinations are not one schedule."""
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
    """Returns a phrase of an interval."""
    if unit == "second":
        whole, rest = divmod(count, 60)
        flaw = TOO_OFTEN if rest or not whole else ""
        return Phrase(*span, {"every_minutes": whole}, flaw=flaw)
    minutes = count * MINUTES[unit]
    return Phrase(*span, {"every_minutes": minutes}, flaw="" if minutes else TOO_OFTEN)


_NUMBERS: Final = SPELT | {"a": 1, "an": 1, "other": 2}
_FIRST_TO_FIFTH: Final = ("first", "second", "third", "fourth", "fifth")
_ORDINALS: Final = {word: number for number, word in enumerate(_FIRST_TO_FIFTH, start=1)}
_WEEKDAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_DAY: Final = r"(?:mon|tues?|wed(?:nes)?|thu(?:rs?)?|fri|sat(?:ur)?|sun)(?:days?)?\b\.?"
_DAYS: Final = rf"{_DAY}(?:\s*+(?:,|and|&|,\s*+and|or)\s*+{_DAY}){{0,9}}"
_PART: Final = r"(?:morning|afternoon|evening|night)"
_ZONE: Final = r"(?:\s++(?P<zone#>UTC|GMT|[A-Z][A-Za-z]+(?:/[A-Z][A-Za-z_+-]+)+)(?-i:\b))?"
_HALF: Final = r"(?:\s*+(?:a\.?m\.?|p\.?m\.?)(?![a-z]))?(?:\s*+o'?clock)?"
_CLOCK: Final = rf"(?:noon|midnight|\d{{1,2}}(?:[:.h]\d{{2}})?{_HALF})"
_TIME: Final = (
    rf"(?:at\s++)(?P<time#>{_CLOCK}(?:\s*+(?:,|and|&)\s*+(?:at\s++)?{_CLOCK}){{0,23}})"
    rf"(?:\s++in\s++the\s++(?P<part#>{_PART}))?{_ZONE}"
)
_BEFORE, _AFTER = (_TIME.replace("#", number) for number in "12")
_NUMBER: Final = rf"(?:\d{{1,6}}|{'|'.join(sorted(_NUMBERS, key=len, reverse=True))})"
_NTH: Final = rf"(?:\d{{1,2}}(?:st|nd|rd|th)?|{'|'.join(_ORDINALS)}|last)"
_MONTHLY: Final = r"(?:(?:of|in)\s++)?(?:each|every|the|a)\s++month"
_WHICH: Final = (
    rf"(?:every|each)\s++(?P<each>day|weekday|work(?:ing)?\s*+day|business\s++day|weekend|{_PART})s?\b"
    r"|(?P<daily>daily)\b|(?:on\s++)?(?P<week>weekdays|weekends)\b"
    rf"|(?:(?:every|each)\s++week\s++on|weekly\s++on|every|each|on)\s++(?P<days>{_DAYS})"
    r"|(?:from\s++)?(?P<span>mon(?:day)?\s++(?:to|through|till|until)\s++fri(?:day)?)\b"
    rf"|(?:on\s++)?the\s++(?P<nth>{_NTH})(?:\s++(?P<of>day|{_DAY}))?\s++{_MONTHLY}\b"
    rf"|(?:(?:every|each)\s++month|monthly)\s++on\s++the\s++(?P<nth2>{_NTH})(?:\s++(?P<of2>day|{_DAY}))?\b"
)
_PHRASE: Final = lazy_pattern(
    rf"\b(?:once\s++)?(?:{_BEFORE}\s*+,?\s*+)?(?:{_WHICH})(?:\s*+,?\s*+{_AFTER})?",
    re.IGNORECASE,
)
_INTERVAL: Final = lazy_pattern(
    rf"\b(?:(?:once\s++)?(?:every|each)\s++(?:(?P<count>{_NUMBER})\s++)?"
    r"(?P<unit>seconds?|minutes?|mins?|hours?|hrs?|days?|weeks?)"
    r"|once\s++(?:an?|per)\s++(?P<once>minute|hour)|(?P<half>every\s++half\s++(?:an?\s++)?hour)"
    r"|(?:^|(?<=[,;])\s*+)(?P<hourly>hourly)|(?P<end>hourly)(?=[.!]?\s*+$))\b",
    re.IGNORECASE,
)
_UNITS: Final = {"s": "second", "m": "minute", "h": "hour", "d": "day", "w": "week"}


def find_english(text: str) -> Iterator[Phrase]:
    """Yields every phrase that says when, in the order of the text."""
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
    times = int(count) if count.isdigit() else _NUMBERS[count]
    if re.match(r"\s*+,?\s*+at\s+\d", text[found.end() :], re.IGNORECASE):
        flaw = "an interval has no time of day: name the days, or leave the time out"
        return Phrase(*span, flaw=flaw)
    return every(times, unit, span)


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
    """Whether the days repeat: `on Monday` is one Monday, `on Mondays` is every one."""
    says_every = re.match(
        r"(?:once\s+)?(?:at\b.*?)?(?:every|each|weekly)\b", found[0], re.IGNORECASE
    )
    if found["days"] and not says_every:
        return re.search(r"days\b", found["days"], re.IGNORECASE) is not None
    # "The daily report" and "the weekdays" are nouns and name no time.
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
    """Returns the days of the month and of the week in cron's form."""
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


_PARTS: Final = {
    **dict.fromkeys(("早上", "上午", "早晨", "清晨", "早"), "morning"),
    **dict.fromkeys(("中午", "下午", "午后", "午後"), "afternoon"),
    **dict.fromkeys(("傍晚", "晚上", "晚间", "晚間", "晚"), "evening"),
    **dict.fromkeys(("夜里", "夜裡", "深夜", "半夜"), "night"),
    "凌晨": "morning",
}
_CHINESE_PART: Final = "|".join(sorted(_PARTS, key=len, reverse=True))
_CHINESE_CLOCK: Final = (
    rf"(?:(?P<part#>{_CHINESE_PART})?\s*+(?P<hour#>{HAN_NUMBER})\s*+(?:[:：]\s*+(?P<colon#>\d{{2}})"
    rf"|[点點时時](?:整|钟|鐘)?(?:(?P<half#>半)|(?P<quarter#>[一三])刻"
    rf"|(?P<minute#>{HAN_NUMBER})\s*+分?)?))"
)
_FIRST, _SECOND = (_CHINESE_CLOCK.replace("#", number) for number in "12")
_WEEK: Final = r"(?:周|週|星期|礼拜|禮拜)"
_WEEKDAY: Final = r"[一二三四五六日天1-6]"
_CHINESE_WHICH: Final = (
    r"(?P<workday>(?:每个?|每個)?工作日|每[周週]一(?:至|到)[周週]?五)"
    rf"|(?P<weekend>每(?:个|個)?(?:周末|週末))"
    rf"|每(?:个|個)?{_WEEK}的?(?P<days>{_WEEKDAY}(?:\s*+[、，,和及与與]?\s*+{_WEEK}?{_WEEKDAY}(?![点點时時:：\d])){{0,9}})"
    rf"|每(?:个|個)?月的?(?:(?P<last>最后一天|最後一天|月末|月底)|(?P<date>{HAN_NUMBER})\s*+[号號日])"
    r"|(?P<day>每天|每日|天天)"
)
_CHINESE_PHRASE: Final = lazy_pattern(
    rf"(?P<beijing>北京时间|北京時間)?(?:{_CHINESE_WHICH})的?\s*+(?:在|于|於)?(?P<zone>北京时间|北京時間)?\s*+"
    rf"(?:{_FIRST}(?:\s*+[、，,和及]\s*+{_SECOND})?)?"
)
_CHINESE_INTERVAL: Final = lazy_pattern(
    rf"(?P<skip>每隔|每)\s*+(?P<half>半)?\s*+(?P<count>{HAN_NUMBER})?\s*+(?:个|個)?\s*+"
    r"(?P<unit>秒钟?|秒鐘|分钟|分鐘|分(?!之)|小时|小時|钟头|鐘頭|天|日|周|週|星期)(?![一二三四五六日末])"
    r"(?:一次)?"
)
_CHINESE_UNITS: Final = {
    **dict.fromkeys(("秒", "秒钟", "秒鐘"), "second"),
    **dict.fromkeys(("分", "分钟", "分鐘"), "minute"),
    **dict.fromkeys(("小时", "小時", "钟头", "鐘頭"), "hour"),
    **dict.fromkeys(("天", "日"), "day"),
    **dict.fromkeys(("周", "週", "星期"), "week"),
}


def find_chinese(text: str) -> Iterator[Phrase]:
    """Yields every phrase that says when, in the order of the text."""
    taken = [
        phrase
        for each in _CHINESE_PHRASE.finditer(text)
        if (phrase := _chinese_at(each)) is not None
    ]
    for each in _CHINESE_INTERVAL.finditer(text):
        inside = any(phrase.start <= each.start() < phrase.end for phrase in taken)
        if not inside and (phrase := _chinese_interval(each)) is not None:
            taken.append(phrase)
    return iter(sorted(taken))


def _chinese_interval(found: re.Match[str]) -> Phrase | None:
    unit = _CHINESE_UNITS[found["unit"]]
    span = found.span()
    if found["half"]:
        return every(30, "minute", span) if unit == "hour" else None
    if not found["count"] and unit == "day":
        return None
    count = number(found["count"]) if found["count"] else 1
    # 每隔两天 leaves two days out, 每隔两小时 leaves none: only the second is clear.
    if found["skip"] == "每隔" and unit in ("day", "week"):
        flaw = "whether the days between are counted is not clear: say 每两天 or 每三天"
        return Phrase(*span, flaw=flaw)
    return every(count, unit, span)


def _chinese_at(found: re.Match[str]) -> Phrase | None:
    first = _chinese_clock(found, 1)
    # 每日新闻 and 工作日 are nouns and name no time.
    if first is None and (found["workday"] == "工作日" or found["day"] == "每日"):
        return None
    part = found["part1"] or ""
    clocks = [each for each in (first, _chinese_clock(found, 2, part)) if each is not None]
    zone = "Asia/Shanghai" if found["beijing"] or found["zone"] else ""
    return at_times(_chinese_days(found), clocks, found.span(), zone)


def _chinese_clock(found: re.Match[str], nth: int, part: str = "") -> Clock | None:
    if not found[f"hour{nth}"]:
        return None
    minute = 0
    if found[f"colon{nth}"]:
        minute = int(found[f"colon{nth}"])
    elif found[f"half{nth}"]:
        minute = 30
    elif found[f"quarter{nth}"]:
        minute = 15 * number(found[f"quarter{nth}"])
    elif found[f"minute{nth}"]:
        minute = number(found[f"minute{nth}"])
    said = found[f"part{nth}"] or part
    clock = number(found[f"hour{nth}"]), minute
    if clock[0] == 24:
        return 0, minute
    if said == "中午" and clock[0] in (11, 12):
        return clock
    return in_day_part(clock, _PARTS.get(said, ""))


def _chinese_days(found: re.Match[str]) -> tuple[str, str]:
    """Returns the days of the month and of the week in cron's form."""
    if found["workday"]:
        return "*", "1-5"
    if found["weekend"]:
        return "*", "6,0"
    if found["days"]:
        marks = re.findall(_WEEKDAY, re.sub(_WEEK, "", found["days"]))
        numbers = sorted({0 if each in "日天" else number(each) for each in marks})
        return "*", ",".join(map(str, numbers))
    if found["last"]:
        return "L", "*"
    return (str(number(found["date"])) if found["date"] else "*"), "*"
