"""Finds the words in a request that say when to repeat it, and removes them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
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
from plansmith_planner.language.clock import (
    CHINESE_CLOCK,
    CLOCK,
    Clock,
    chinese_clock,
    english_clock,
    in_day_part,
)
from plansmith_planner.language.numbers import HAN_NUMBER, SPELT, number

Match = re.Match[str]
Pattern = re.Pattern[str]
Reader = Callable[[Match], "Phrase | None"]
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
    """When to repeat what.

    `assumed` describes what the request leaves open. Without a timing, `flaw` says why.
    """

    words: str
    rest: str
    timing: Timing | None = None
    assumed: str = ""
    flaw: str = ""


def recurrence(text: str, *, timezone: str = "UTC") -> Recurrence | None:
    """Returns what a request says about repeating it; None if it says nothing."""
    read = _CONFIRMED.sub(" ", text[:READ_BY_RULES])
    bare = read + text[READ_BY_RULES:]
    english = _phrases(read, (_PHRASE, _english_at), (_INTERVAL, _english_interval))
    chinese = _phrases(read, (_CHINESE_PHRASE, _chinese_at), (_CHINESE_INTERVAL, _chinese_interval))
    phrases = [each for each in (*english, *chinese) if _asks_repetition(each, bare)]
    if not phrases:
        return None
    phrase = phrases[0]
    words = " ".join(bare[phrase.start : phrase.end].split())
    flaw = phrase.flaw
    if len(phrases) > 1:
        flaw = "more than one time is named: make a schedule for each"
    if not flaw:
        timing = Timing.model_validate(phrase.fields | {"timezone": phrase.zone or timezone})
        try:
            check_timing(timing)
        except Misconfigured as error:
            flaw = str(error)
        else:
            before, after = bare[: phrase.start].rstrip(_EDGES), bare[phrase.end :].lstrip(_EDGES)
            apart = before and after and after[0] not in ".。!！?？)）"
            wide = apart and min(before[-1], after[0]) >= "\u2e80"
            rest = (before + (" " if apart and not wide else "") + after).strip()
            return Recurrence(words, rest, timing, phrase.assumed)
    return Recurrence(words, text, flaw=flaw)


def without_schedule_words(plan: Plan) -> tuple[Plan, list[Problem]]:
    """Returns a plan whose scheduled tasks do not say when they run, and a note on each change."""
    steps: list[AnyStep] = []
    notes: list[Problem] = []
    message = Sentence(
        "when it runs is the plan's schedule: the words for it are taken out of the task"
    )
    hint = Sentence("check that this is what was meant")
    for step in plan.steps:
        steps.append(step)
        if isinstance(step, AgentStep) and timing_of(plan, step.id) is not None:
            found = recurrence(step.task)
            if found is not None and found.rest not in ("", step.task):
                notes.append(problem("PS013", message, hint=hint, step=step.id, path=("task",)))
                steps[-1] = step.replace(task=found.rest)
    return (plan.replace(steps=tuple(steps)) if notes else plan), notes


def _asks_repetition(phrase: Phrase, text: str) -> bool:
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


_ASSUMED: Final = "at 09:00, since no time was said"
# By the first letter of a unit.
_SECONDS: Final = {
    **dict.fromkeys("s秒", 1),
    **dict.fromkeys("m分", 60),
    **dict.fromkeys("h小钟鐘", 3_600),
    **dict.fromkeys("d天日", 86_400),
    **dict.fromkeys("w周週星", 604_800),
}


class Phrase(NamedTuple):
    """A phrase that says when: its place in the text, and the fields of a timing."""

    start: int
    end: int
    fields: dict[str, Any] = {}
    zone: str = ""
    assumed: str = ""
    flaw: str = ""


def _at_times(days: tuple[str, str], clocks: Sequence[Clock], found: Match, zone: str) -> Phrase:
    """Returns a phrase of days and times; some combinations are not one schedule."""
    if any(hour > 23 or minute > 59 for hour, minute in clocks):
        return Phrase(*found.span(), flaw="there is no such time of day")
    if len({minute for _, minute in clocks}) > 1:
        flaw = "the times differ in their minutes: make a schedule for each"
        return Phrase(*found.span(), flaw=flaw)
    given = clocks or [(9, 0)]
    hours, minute = sorted({hour for hour, _ in given}), given[0][1]
    fields = {"cron": f"{minute} {','.join(map(str, hours))} {days[0]} * {days[1]}"}
    if days == ("*", "*") and len(hours) == 1:
        fields = {"daily_at": f"{hours[0]:02d}:{minute:02d}"}
    return Phrase(*found.span(), fields, zone, "" if clocks else _ASSUMED)


def _every(seconds: int, found: Match) -> Phrase:
    minutes, rest = divmod(seconds, 60)
    flaw = "nothing runs more often than once a minute" if rest or not minutes else ""
    return Phrase(*found.span(), {"every_minutes": minutes}, flaw=flaw)


def _phrases(
    text: str, at: tuple[Pattern, Reader], interval: tuple[Pattern, Reader]
) -> list[Phrase]:
    taken = [phrase for each in at[0].finditer(text) if (phrase := at[1](each)) is not None]
    for each in interval[0].finditer(text):
        inside = any(phrase.start <= each.start() < phrase.end for phrase in taken)
        if not inside and (phrase := interval[1](each)) is not None:
            taken.append(phrase)
    return sorted(taken)


_NUMBERS: Final = SPELT | {"a": 1, "an": 1, "other": 2}
_FIRST_TO_FIFTH: Final = ("first", "second", "third", "fourth", "fifth")
_ORDINALS: Final = {word: number for number, word in enumerate(_FIRST_TO_FIFTH, start=1)}
_WEEKDAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_DAY: Final = r"(?:mon|tues?|wed(?:nes)?|thu(?:rs?)?|fri|sat(?:ur)?|sun)(?:days?)?\b\.?"
_DAYS: Final = rf"{_DAY}(?:\s*+(?:,|and|&|,\s*+and|or)\s*+{_DAY}){{0,9}}"
_PART: Final = r"(?:morning|afternoon|evening|night)"
_ZONE: Final = r"(?:\s++(?P<zone#>UTC|GMT|[A-Z][A-Za-z]+(?:/[A-Z][A-Za-z_+-]+)+)(?-i:\b))?"
_TIME: Final = (
    rf"(?:at\s++)(?P<time#>{CLOCK}(?:\s*+(?:,|and|&)\s*+(?:at\s++)?{CLOCK}){{0,23}})"
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
    rf"\b(?:once\s++)?(?:{_BEFORE}\s*+,?\s*+)?(?:{_WHICH})(?:\s*+,?\s*+{_AFTER})?", re.IGNORECASE
)
_INTERVAL: Final = lazy_pattern(
    rf"\b(?:(?:once\s++)?(?:every|each)\s++(?:(?P<count>{_NUMBER})\s++)?"
    r"(?P<unit>seconds?|minutes?|mins?|hours?|hrs?|days?|weeks?)"
    r"|once\s++(?:an?|per)\s++(?P<once>minute|hour)|(?P<half>every\s++half\s++(?:an?\s++)?hour)"
    r"|(?:^|(?<=[,;])\s*+)(?P<hourly>hourly)|(?P<end>hourly)(?=[.!]?\s*+$))\b",
    re.IGNORECASE,
)


def _english_interval(found: Match) -> Phrase:
    if found["half"]:
        return _every(1_800, found)
    if not found["unit"]:
        return _every(_SECONDS[(found["once"] or "hour")[0].lower()], found)
    if re.match(r"\s*+,?\s*+at\s+\d", found.string[found.end() :], re.IGNORECASE):
        flaw = "an interval has no time of day: name the days, or leave the time out"
        return Phrase(*found.span(), flaw=flaw)
    count = (found["count"] or "1").lower()
    times = int(count) if count.isdigit() else _NUMBERS[count]
    return _every(times * _SECONDS[found["unit"][0].lower()], found)


def _english_at(found: Match) -> Phrase | None:
    number = "1" if found["time1"] else "2"
    part = (found[f"part{number}"] or found["each"] or "").lower()
    times = re.finditer(CLOCK, found[f"time{number}"] or "", re.IGNORECASE)
    clocks = [in_day_part(english_clock(each[0].lower()), part) for each in times]
    says_every = r"(?:once\s+)?(?:at\b.*?)?(?:every|each|weekly)\b"
    if found["days"] and not re.match(says_every, found[0], re.IGNORECASE):
        # `on Monday` is one Monday, `on Mondays` is every one.
        if not re.search(r"days\b", found["days"], re.IGNORECASE):
            return None
    elif not clocks and (found["daily"] or found["week"] or found["span"]):
        return None  # "the daily report" and "the weekdays" are nouns and name no time
    return _at_times(_days(found), clocks, found, found[f"zone{number}"] or "")


def _days(found: Match) -> tuple[str, str]:
    nth = (found["nth"] or found["nth2"] or "").lower()
    of = (found["of"] or found["of2"] or "day").lower()
    if nth:
        digits = re.match(r"\d+", nth)
        place = digits[0] if digits else str(_ORDINALS.get(nth, 0))
        if of == "day":
            return "L" if nth == "last" else place, "*"
        return "*", f"{_WEEKDAYS.index(of[:3])}{'L' if nth == 'last' else f'#{place}'}"
    if found["days"]:
        named = re.findall(_DAY, found["days"], re.IGNORECASE)
        return "*", ",".join(
            map(str, sorted({_WEEKDAYS.index(each[:3].lower()) for each in named}))
        )
    kind = (found["each"] or found["week"] or found["span"] or "day").lower()
    if kind.startswith("weekend"):
        return "*", "6,0"
    return "*", "1-5" if kind.startswith(("week", "work", "business", "mon")) else "*"


_FIRST, _SECOND = (CHINESE_CLOCK.replace("#", number) for number in "12")
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


def _chinese_interval(found: Match) -> Phrase | None:
    seconds = _SECONDS[found["unit"][0]]
    if found["half"]:
        return _every(1_800, found) if seconds == _SECONDS["h"] else None
    if not found["count"] and seconds == _SECONDS["d"]:
        return None
    # 每隔两天 leaves two days out, 每隔两小时 leaves none: only the second is clear.
    if found["skip"] == "每隔" and seconds >= _SECONDS["d"]:
        flaw = "whether the days between are counted is not clear: say 每两天 or 每三天"
        return Phrase(*found.span(), flaw=flaw)
    return _every(seconds * (number(found["count"]) if found["count"] else 1), found)


def _chinese_at(found: Match) -> Phrase | None:
    part = found["part1"] or ""
    clocks = [
        chinese_clock(found, nth, found[f"part{nth}"] or part)
        for nth in (1, 2)
        if found[f"hour{nth}"]
    ]
    # 每日新闻 and 工作日 are nouns and name no time.
    if not clocks and (found["workday"] == "工作日" or found["day"] == "每日"):
        return None
    zone = "Asia/Shanghai" if found["beijing"] or found["zone"] else ""
    return _at_times(_chinese_days(found), clocks, found, zone)


def _chinese_days(found: Match) -> tuple[str, str]:
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
