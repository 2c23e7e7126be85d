"""Finds the words in a request that say when to repeat it, and removes them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from plansmith.errors import Misconfigured
from plansmith.lazy import lazy_pattern
from plansmith.plan.plan import Plan
from plansmith.plan.problem import Problem, problem
from plansmith.plan.sentence import Sentence
from plansmith.plan.steps import AgentStep, AnyStep
from plansmith.plan.timed_plans import timing_of
from plansmith.plan.timing import Timing, require_valid_timing
from plansmith_planner.language import phrases
from plansmith_planner.language.characters import READ_BY_RULES
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
_CONFIRMED: Final = re.compile(phrases("schedule_confirmed"), re.IGNORECASE)
_EDGES: Final = " \t\r\n,;:，、；：-–—"
_QUESTION: Final = re.compile(phrases("schedule_question"), re.IGNORECASE)


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
    phrases = [each for each in _phrases(read) if _asks_repetition(each, bare)]
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
            require_valid_timing(timing)
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


class Phrase(NamedTuple):
    """A phrase that says when: its place in the text, and the fields of a timing."""

    start: int
    end: int
    fields: dict[str, Any] = {}
    zone: str = ""
    assumed: str = ""
    flaw: str = ""


# Patterns of both languages name their groups alike, so that one function reads the days and one
# the intervals of both; only times of day are read apart.
_ORDINALS: Final = ("first", "second", "third", "fourth", "fifth")
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
_NTH: Final = rf"(?:\d{{1,2}}(?:st|nd|rd|th)?|{'|'.join(_ORDINALS)}|last)"
_MONTHLY: Final = r"(?:(?:of|in)\s++)?(?:each|every|the|a)\s++month"
# Without a time of day, what `noun` finds names things: "the daily report". And `on Monday` is one
# Monday, where `on Mondays` is every one.
_WHICH: Final = (
    rf"(?:every|each)\s++(?:day|weekday|work(?:ing)?\s*+day|business\s++day|weekend|(?P<each>{_PART}))s?\b"
    r"|(?P<noun>daily\b|(?:on\s++)?week(?:days|ends)\b"
    r"|(?:from\s++)?mon(?:day)?\s++(?:to|through|till|until)\s++fri(?:day)?\b)"
    rf"|(?:(?:every|each)\s++week\s++on|weekly\s++on|every|each)\s++{_DAYS}|on\s++(?P<on>{_DAYS})"
    rf"|(?:on\s++)?the\s++{_NTH}(?:\s++(?:day|{_DAY}))?\s++{_MONTHLY}\b"
    rf"|(?:(?:every|each)\s++month|monthly)\s++on\s++the\s++{_NTH}(?:\s++(?:day|{_DAY}))?\b"
)
_PHRASE: Final = lazy_pattern(
    rf"\b(?:once\s++)?(?:{_BEFORE}\s*+,?\s*+)?(?P<which>{_WHICH})(?:\s*+,?\s*+{_AFTER})?",
    re.IGNORECASE,
)
_FIRST, _SECOND = (CHINESE_CLOCK.replace("#", number) for number in "12")
_WEEK: Final = r"(?:周|週|星期|礼拜|禮拜)"
_WEEKDAY: Final = r"[一二三四五六日天1-6]"
_CHINESE_WHICH: Final = (
    r"每个?工作日|每個工作日|每[周週]一(?:至|到)[周週]?五|每(?:个|個)?(?:周末|週末)"
    rf"|每(?:个|個)?{_WEEK}的?{_WEEKDAY}(?:\s*+[、，,和及与與]?\s*+{_WEEK}?{_WEEKDAY}(?![点點时時:：\d])){{0,9}}"
    rf"|每(?:个|個)?月的?(?:最后一天|最後一天|月末|月底|{HAN_NUMBER}\s*+[号號日])"
    r"|(?P<noun>工作日|每日)|每天|天天"
)
_CHINESE_PHRASE: Final = lazy_pattern(
    rf"(?P<zone1>北京时间|北京時間)?(?P<which>{_CHINESE_WHICH})的?\s*+(?:在|于|於)?(?P<zone2>北京时间|北京時間)?\s*+"
    rf"(?:{_FIRST}(?:\s*+[、，,和及]\s*+{_SECOND})?)?"
)
_FEW: Final = {"a": 1, "an": 1, "other": 2}
_COUNT: Final = rf"(?:\d{{1,6}}|{'|'.join(sorted(SPELT | _FEW, key=len, reverse=True))})"
_INTERVAL: Final = lazy_pattern(
    rf"\b(?:(?:once\s++)?(?:every|each)\s++(?:(?P<count>{_COUNT})\s++)?"
    r"(?P<unit>seconds?|minutes?|mins?|hours?|hrs?|days?|weeks?)"
    r"|once\s++(?:an?|per)\s++(?P<once>minute|hour)|(?P<half>every\s++half\s++(?:an?\s++)?hour)"
    r"|(?:^|(?<=[,;])\s*+)hourly|hourly(?=[.!]?\s*+$))\b",
    re.IGNORECASE,
)
_CHINESE_INTERVAL: Final = lazy_pattern(
    rf"每(?P<apart>隔)?\s*+(?P<half>半)?\s*+(?P<count>{HAN_NUMBER})?\s*+(?:个|個)?\s*+"
    r"(?P<unit>秒钟?|秒鐘|分钟|分鐘|分(?!之)|小时|小時|钟头|鐘頭|天|日|周|週|星期)(?![一二三四五六日末])"
    r"(?:一次)?"
)
# By the first letter of a unit.
_SECONDS: Final = {
    **dict.fromkeys("s秒", 1),
    **dict.fromkeys("m分", 60),
    **dict.fromkeys("h小钟鐘", 3_600),
    **dict.fromkeys("d天日", 86_400),
    **dict.fromkeys("w周週星", 604_800),
}


def _phrases(text: str) -> list[Phrase]:
    """Returns the phrases that say when, in their order; days and times before intervals."""
    found: list[Phrase] = []
    for at, clocks, interval in (
        (_PHRASE, _english_clocks, _INTERVAL),
        (_CHINESE_PHRASE, _chinese_clocks, _CHINESE_INTERVAL),
    ):
        found += filter(None, (_at_times(each, [*clocks(each)]) for each in at.finditer(text)))
        apart = [
            each
            for each in interval.finditer(text)
            if not any(phrase.start <= each.start() < phrase.end for phrase in found)
        ]
        found += filter(None, map(_every, apart))
    return sorted(found, key=lambda each: each.start)


def _at_times(found: Match, clocks: Sequence[Clock]) -> Phrase | None:
    """Returns a phrase of days and times; some combinations are not one schedule."""
    named = found.groupdict()
    if (named["noun"] and not clocks) or ((on := named.get("on")) and "days" not in on.lower()):
        return None
    if any(hour > 23 or minute > 59 for hour, minute in clocks):
        return Phrase(*found.span(), flaw="there is no such time of day")
    if len({minute for _, minute in clocks}) > 1:
        flaw = "the times differ in their minutes: make a schedule for each"
        return Phrase(*found.span(), flaw=flaw)
    given, days = clocks or [(9, 0)], _days(found["which"].lower())
    hours, minute = sorted({hour for hour, _ in given}), given[0][1]
    fields = {"cron": f"{minute} {','.join(map(str, hours))} {days[0]} * {days[1]}"}
    if days == ("*", "*") and len(hours) == 1:
        fields = {"daily_at": f"{hours[0]:02d}:{minute:02d}"}
    zone = named["zone1"] or named["zone2"] or ""
    zone = "Asia/Shanghai" if zone.startswith("北京") else zone
    return Phrase(*found.span(), fields, zone, "" if clocks else _ASSUMED)


_OF_MONTH: Final = lazy_pattern(
    rf"\bthe\s+(?P<nth>{_NTH})(?:\s+(?P<day>{_DAY}))?|月的?(?P<date>{HAN_NUMBER})\s*[号號日]"
    r"|最后一天|最後一天|月末|月底"
)


def _days(which: str) -> tuple[str, str]:
    """Returns the days that words name, as cron writes them: of the month, and of the week."""
    if of_month := _OF_MONTH.search(which):
        nth = of_month["nth"] or of_month["date"] or "last"
        digits = re.match(r"\d+", nth)
        if of_month["date"]:
            place = str(number(nth))
        else:
            place = digits[0] if digits else "L" if nth == "last" else str(_ORDINALS.index(nth) + 1)
        if not of_month["day"]:
            return place, "*"
        weekday = _WEEKDAYS.index(of_month["day"][:3])
        return "*", f"{weekday}{place if place == 'L' else f'#{place}'}"
    if re.search("weekend|周末|週末", which):
        return "*", "6,0"
    if re.search(r"weekday|work|business|mon(?:day)?\s+[tu]|工作日|一[至到]", which):
        return "*", "1-5"
    named = {_WEEKDAYS.index(each[:3]) for each in re.findall(_DAY, which)}
    marks = re.findall(_WEEKDAY, re.sub(_WEEK, "", which)) if re.search(_WEEK, which) else []
    named |= {0 if each in "日天" else number(each) for each in marks}
    return "*", ",".join(map(str, sorted(named))) or "*"


def _english_clocks(found: Match) -> Iterator[Clock]:
    nth = "1" if found["time1"] else "2"
    part = (found[f"part{nth}"] or found["each"] or "").lower()
    for each in re.finditer(CLOCK, found[f"time{nth}"] or "", re.IGNORECASE):
        yield in_day_part(english_clock(each[0].lower()), part)


def _chinese_clocks(found: Match) -> Iterator[Clock]:
    for nth in (1, 2):
        if found[f"hour{nth}"]:
            yield chinese_clock(found, nth, found[f"part{nth}"] or found["part1"] or "")


def _every(found: Match) -> Phrase | None:
    """Returns a phrase of an interval; None if it is none, such as 每天."""
    named = found.groupdict()
    unit, count = named["unit"] or named.get("once") or "hour", named["count"] or ""
    seconds, day = _SECONDS[unit[0].lower()], _SECONDS["d"]
    if (named["half"] and seconds != _SECONDS["h"]) or (seconds == day and not count):
        return None
    flaw = ""
    if re.match(r"\s*+,?\s*+at\s+\d", found.string[found.end() :], re.IGNORECASE):
        flaw = "an interval has no time of day: name the days, or leave the time out"
    elif named.get("apart") and seconds >= day:
        # 每隔两天 leaves two days out, 每隔两小时 leaves none: only the second is clear.
        flaw = "whether the days between are counted is not clear: say 每两天 or 每三天"
    times = _FEW.get(count.lower()) or (number(count) if count else 1)
    minutes, rest = divmod(seconds * times // (2 if named["half"] else 1), 60)
    if rest or not minutes:
        flaw = flaw or "nothing runs more often than once a minute"
    return Phrase(*found.span(), {"every_minutes": minutes}, flaw=flaw)
