"""Reads requests that ask for the time, a date, a weekday or a number of days."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final, Literal, NamedTuple

from plansmith.lazy import lazy_pattern
from plansmith.plan.data import Json
from plansmith.plan.refs import escape_text
from plansmith.text import HAN
from plansmith_planner.instant.call import InstantCall, found
from plansmith_planner.instant.numerals import NUMBER, digits

_MONTH: Final = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?"
    r"|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\.?"
)
_DAY: Final = r"(?:the )?\d{1,2}(?:st|nd|rd|th)?"
_WEEKDAY: Final = r"(?:mon|tues|wednes|thurs|fri|satur|sun)day"
_FEAST: Final = (
    r"christmas(?: eve| day)?|xmas|new year(?:'s)?(?: eve| day)?|halloween|easter(?: sunday)?"
    r"|thanksgiving|valentine'?s day"
)
_HAN_DATE: Final = (
    r"(?:(?:\d{4}|[二一][〇零一二三四五六七八九]{3}|今|明|后|去)\s?年\s?)?"
    r"[\d一二三四五六七八九十]{1,3}\s?月\s?[\d一二三四五六七八九十]{1,3}\s?[日号]"
)
_HAN_DAY: Final = (
    r"今天|明天|后天|大后天|昨天|前天|(?:这|本|下|下个|这个)?(?:周|星期|礼拜)[一二三四五六日天]"
    r"|圣诞节?|平安夜|元旦|新年|除夕|春节|国庆节?|劳动节|中秋节?|端午节?|情人节|万圣节|感恩节|清明节?"
    r"|跨年"
)
_ISO: Final = r"\d{4}-\d{1,2}-\d{1,2}"
_DATE: Final = (
    rf"(?:{_ISO}|{_DAY}(?: of)? {_MONTH}(?:,? \d{{4}})?|{_MONTH} {_DAY}(?:,? \d{{4}})?"
    rf"|today|tomorrow|yesterday|the day after tomorrow|the day before yesterday"
    rf"|(?:(?:next|this|coming|last) )?{_WEEKDAY}|(?:{_FEAST})(?:,? \d{{4}})?"
    rf"|{_HAN_DATE}|(?:\d{{4}}年)?(?:{_HAN_DAY}))"
)
_PLACE: Final = r"(?P<place>[A-Za-zÀ-ÿ][A-Za-zÀ-ÿ .'-]{1,40}?(?:, [A-Za-zÀ-ÿ .]{2,30})?)"
_HAN_PLACE: Final = r"(?P<place>(?!现在|今天|明天|请问|当前)[\u4e00-\u9fff]{2,8}?)"
_COUNT: Final = rf"(?P<count>{NUMBER}|an?)"
_SPAN: Final = r"(?P<unit>(?:business |working |week)?days?|weeks?|fortnights?|months?|years?)"
_HAN_SPAN: Final = r"(?:个)?(?P<unit>天|日|周|星期|礼拜|月|年|工作日)"
_CLOCK_SPAN: Final = r"(?P<unit>hours?|minutes?|hrs?|mins?)"
_NOW: Final = r"(?: (?:now|right now|currently|at the moment|at present|today|there))?"
Given = Mapping[str, str | None]
Language = Literal["en", "zh"]
_UNITS: Final = {
    word: unit
    for unit, words in {
        "days": ("day", "天", "日"),
        "weekdays": ("weekday", "business day", "working day", "工作日"),
        "weeks": ("week", "周", "星期", "礼拜"),
        "months": ("month", "月"),
        "years": ("year", "年"),
        "hours": ("hour", "hr", "小时"),
        "minutes": ("minute", "min", "分钟"),
    }.items()
    for word in words
}


class _Form(NamedTuple):
    """Sentences that ask for the same, and what makes the call of what they say."""

    latin: tuple[re.Pattern[str], ...]
    han: tuple[re.Pattern[str], ...]  # each needs a Chinese character
    make: Callable[[Given, Language], InstantCall | None]


def _form(
    make: Callable[[Given, Language], InstantCall | None],
    *latin: str,
    han: tuple[str, ...] = (),
) -> _Form:
    return _Form(_patterns(latin), _patterns(han), make)


def _patterns(texts: Iterable[str]) -> tuple[re.Pattern[str], ...]:
    return tuple(lazy_pattern(each, re.IGNORECASE) for each in texts)


def _date(given: Given, name: str = "date") -> str:
    return (given.get(name) or "").strip().removeprefix("the ")


def _now(given: Given, language: Language) -> InstantCall:
    place = (given.get("place") or "").strip()
    inputs: dict[str, Json] = {"zone": place} if place else {}
    shown = escape_text(place)
    if language == "zh":
        where = f"{shown}现在是" if place else "现在是"
        zone = "" if place else f"（{found('zone')}）"
        says = f"{where} {found('spoken.zh')} {found('clock')}{zone}。"
    else:
        where = f"in {shown}" if place else f"({found('zone')})"
        says = f"It is {found('clock')} on {found('spoken.en')} {where}."
    return InstantCall("time", "time.now", inputs, says)


def _today(_: Given, language: Language) -> InstantCall:
    says = (
        f"今天是{found('spoken.zh')}。" if language == "zh" else f"Today is {found('spoken.en')}."
    )
    return InstantCall("date", "time.now", {}, says)


def _week(_: Given, language: Language) -> InstantCall:
    week = found("week")
    says = f"今天在 {week} 周（ISO 8601）。" if language == "zh" else f"It is ISO week {week}."
    return InstantCall("date", "time.now", {}, says)


def _weekday(given: Given, language: Language) -> InstantCall:
    day = _date(given)
    said = escape_text(day)
    # A date that is whole needs only its weekday; of others the whole date is told.
    told = f"a {found('weekday')}" if re.search(r"\d{4}", day) else found("spoken.en")
    says = f"{said[0].upper()}{said[1:]} is {told}."
    if language == "zh":
        says = f"{'那天' if re.search('月|-', day) else said}是{found('spoken.zh')}。"
    return InstantCall("date", "time.describe", {"time": day}, says)


def _until(given: Given, language: Language) -> InstantCall:
    day = _date(given)
    said = escape_text(day)
    says = f"{found('text')}."
    if language == "zh":
        says = f"距离{said}{found('away.zh')}（{found('date')}）。"
    return InstantCall("date", "time.until", {"date": day}, says)


def _year_end(_: Given, language: Language) -> InstantCall:
    says = f"Days left in this year: {found('days')}."
    if language == "zh":
        says = f"今年还剩 {found('days')} 天。"
    return InstantCall("date", "time.until", {"date": "31 December"}, says)


def _between(given: Given, language: Language) -> InstantCall:
    first, last = _date(given, "first"), _date(given, "last")
    said = escape_text(first), escape_text(last)
    says = f"Days from {said[0]} to {said[1]}: {found('days')}."
    if language == "zh":
        says = f"从{said[0]}到{said[1]}相差 {found('days')} 天。"
    return InstantCall("date", "time.difference", {"from": first, "to": last}, says)


def _since(given: Given, language: Language) -> InstantCall | None:
    day = _date(given)
    if not re.search(r"\d{4}|yesterday", day):  # without its year it would be the next one
        return None
    today = "今天" if language == "zh" else "today"
    return _between({"first": day, "last": today}, language)


def _moved(given: Given, language: Language) -> InstantCall | None:
    """Adds to a day, or to the time of day; `back` says that it goes back."""
    count = digits("1" if (given["count"] or "").lower() in ("a", "an") else given["count"] or "")
    name = re.sub(r"(?<=[a-z])s$", "", (given["unit"] or "").lower())
    factor = 2 if name == "fortnight" else 1
    unit = "weeks" if name == "fortnight" else _UNITS[name]
    if not count.isdecimal() or len(count) > 6:
        return None
    amount = int(count) * factor * (-1 if given.get("back") else 1)
    clock = unit in ("hours", "minutes")
    start = _date(given)
    if not start:
        start = "now" if clock else ("今天" if language == "zh" else "today")
    return InstantCall(
        "time" if clock else "date",
        "time.add",
        {"time": start, unit: amount},
        _moved_text(given, start, chinese=language == "zh", clock=clock),
    )


def _moved_text(given: Given, start: str, *, chinese: bool, clock: bool) -> str:
    count, unit, back = given["count"], given["unit"], bool(given.get("back"))
    at = f" {found('clock')}" if clock else ""
    if chinese:
        measure = "个" if unit in ("月", "星期", "礼拜", "工作日", "小时") else ""
        before = "" if start in ("今天", "now") else f"{escape_text(start)}的"
        return (
            f"{before}{count} {measure}{unit}{'前' if back else '后'}是{found('spoken.zh')}{at}。"
        )
    side = "before" if back else "from"
    said = escape_text(f"{count} {unit} {side} {start}")
    time = f"{found('clock')} on " if clock else ""
    return f"{said[0].upper()}{said[1:]} is {time}{found('spoken.en')}."


_WHAT_DAY: Final = r"(?:what|which) (?:week)?day(?: of the week)?"
_D: Final = rf"(?P<date>{_DATE})"
_TWO: Final = rf"(?P<first>{_DATE}) (?:and|to|until|till|through) (?P<last>{_DATE})"
_THE_TIME: Final = (
    r"(?:what time is it|what(?:'s| is) the (?:current |local |exact )?time"
    r"|(?:the )?(?:current |local )?time)"
)
_UNTIL: Final = r"(?:until|till|til|to|before)"
_CLOCK_HAN: Final = r"(?:是)?(?:几点(?:钟)?(?:了)?|什么时间(?:了)?)"
_HAN_WEEKDAY: Final = r"(?:星期|周|礼拜)几(?:了)?"
_HAN_DAYS: Final = r"\s?(?:多少|几)\s?天"
_HAN_WHICH: Final = (
    rf"(?:几月几[号日]|几[号日]|{_HAN_WEEKDAY}|哪一?天|什么(?:日期|日子|时候)|多少号)"
)
_AWAY: Final = rf"{_COUNT} {_SPAN}"
_WHICH_DATE: Final = (
    r"(?:(?:what|which)(?: date| day| weekday| day of the week)? (?:is|was|will be|is it|was it"
    r"|will it be)|what(?:'s| is| was| will be) the (?:date|day)|when (?:is|was))"
)
_FORMS: Final = (
    _form(
        _now,
        rf"(?:what time is it|what(?:'s| is) the (?:current |local |exact )?time"
        rf"|the (?:current )?time|(?:current|local) time|time now|do you have the time){_NOW}",
        rf"{_THE_TIME}{_NOW}(?: over)? (?:in|at) {_PLACE}{_NOW}",
        han=(
            rf"(?:现在|目前|当前|此刻)?{_CLOCK_HAN}",
            r"(?:现在|当前|目前)(?:的)?时间(?:是(?:多少|几点|什么))?",
            rf"(?:现在|目前|当前)?{_HAN_PLACE}(?:现在|目前|当前|那边)?(?:的)?(?:当地)?{_CLOCK_HAN}",
            rf"{_HAN_PLACE}(?:的)?(?:现在|当前|当地)?(?:的)?时间(?:是)?(?:多少|几点(?:了)?|什么)?",
        ),
    ),
    _form(
        _today,
        rf"{_WHAT_DAY} (?:is it|is today|are we on){_NOW}",
        r"(?:what(?:'s| is) )?(?:today's date|the current date|the date today|the day today)",
        rf"what(?:'s| is) the date|what date is (?:it|today){_NOW}|what(?:'s| is) today|date today",
        rf"what (?:year|month) is (?:it|this){_NOW}",
        han=(
            rf"(?:今天|今日)(?:是)?(?:几月几[号日](?:了)?|几[号日](?:了)?|{_HAN_WEEKDAY}|哪一?天)",
            rf"今天(?:是)?几[号日][,，、]?{_HAN_WEEKDAY}",
            r"(?:今天|今日|现在|当前)(?:的)?日期(?:是(?:多少|什么|几号))?",
            r"(?:今年|现在)是(?:哪一?年|几几年)|(?:今天|现在)(?:是)?(?:几月份?|哪个月)",
        ),
    ),
    _form(
        _week,
        r"(?:what|which) (?:iso |calendar )?week(?: number)? (?:is it|is this|are we in)(?: now)?",
        r"what(?:'s| is) the (?:current )?(?:calendar |iso )?week(?: number)?",
        han=(r"(?:今天|现在|本周|这周)(?:是)?(?:今年(?:的)?)?第几周",),
    ),
    _form(
        _weekday,
        rf"{_WHAT_DAY} (?:is|was|will)(?: it)?(?: be)?(?: on)? {_D}(?: be)?(?: on)?",
        rf"(?:on )?{_WHAT_DAY} (?:does|did|will|is|was) {_D} (?:fall|land|be|come)(?: on)?",
        rf"(?:what date (?:is|was|will be)|when is) {_D}",
        rf"what(?:'s| is) (?:the date (?:of|on|for) )?{_D}(?:'s date)?",
        han=(rf"{_D}\s?(?:那天)?(?:是|在)?\s?{_HAN_WHICH}",),
    ),
    _form(
        _until,
        rf"(?:how many|number of) days(?: (?:are(?: there)?|is it|do we have|left|remain|more|to go"
        rf"|are left)){{0,2}} {_UNTIL} {_D}",
        rf"(?:days|how long|countdown|how far)(?: (?:is it|is|left))? {_UNTIL} {_D}",
        rf"how (?:far|long|many days) away is {_D}",
        han=(
            rf"(?:距离?|离|到)\s?{_D}\s?(?:还|一共|共)?(?:有|剩|要|差|剩下|需要)?{_HAN_DAYS}",
            rf"(?:还|还要)(?:有|剩|要|差)?{_HAN_DAYS}\s?(?:才)?(?:到|是|过)?\s?{_D}",
            rf"(?:距离?|离|到)\s?{_D}\s?(?:还)?(?:有|要|剩)?多久",
        ),
    ),
    _form(
        _year_end,
        r"how many days (?:are )?(?:there )?(?:left|remain|remaining) (?:in|of) (?:the|this) year",
        han=(rf"(?:今年|这一年)(?:还)?(?:剩|有|剩下){_HAN_DAYS}",),
    ),
    _form(
        _between,
        rf"(?:how many |number of )?days (?:are (?:there )?|is it )?(?:between|from) {_TWO}",
        rf"how long is it (?:between|from) {_TWO}",
        han=(
            (
                rf"从?\s?(?P<first>{_DATE})\s?(?:到|至|和|与|跟)\s?(?P<last>{_DATE})\s?(?:之间)?"
                rf"(?:一共|总共|共)?(?:有|相差|差|隔|相隔|间隔)?{_HAN_DAYS}"
            ),
        ),
    ),
    _form(
        _since,
        rf"(?:how many |number of )?days (?:(?:have passed|has it been|passed) )?since {_D}",
        rf"how long (?:has it been|is it) since {_D}",
    ),
    _form(
        _moved,
        rf"(?:{_WHICH_DATE} )?{_AWAY} (?:(?:from|after) {_D}|from now|later)",
        rf"(?:{_WHICH_DATE} )?{_AWAY} (?P<back>ago|before {_D})",
        rf"{_WHICH_DATE}(?: it)? in {_AWAY}(?:' time|'s time)?",
        rf"what will (?:the )?(?:date|day) be in {_AWAY}",
        rf"what time (?:is it|will it be|is) in {_COUNT} {_CLOCK_SPAN}",
        han=(
            (
                rf"(?:从)?(?:{_D})?\s?(?:起|的|开始|算起)?\s?{_COUNT}\s?{_HAN_SPAN}"
                rf"(?:(?P<back>以前|之前|前)|以后|之后|后)(?:的日期)?\s?(?:是)?\s?{_HAN_WHICH}"
            ),
            rf"{_COUNT}\s?个?(?P<unit>小时|分钟)(?:(?P<back>以前|之前|前)|以后|之后|后)(?:是)?几点(?:钟)?",
        ),
    ),
)


# Every Latin form has one of these, in its own words or in the date that it asks about.
_CUE: Final = re.compile(
    r"\d|time|da(?:y|te)|week|month|year|fortnight|hour|hr|min|when|long|far|countdown"
    r"|tomorrow|christmas|xmas|halloween|easter|thanksgiving",
    re.IGNORECASE,
)


def read_times(text: str, *, chinese: bool) -> InstantCall | None:
    """Returns the call for a text that asks for a time or a date; None for anything else."""
    has_han = HAN.search(text) is not None
    if not has_han and not _CUE.search(text):
        return None  # most requests: without compiling the patterns of all forms
    for form in _FORMS:
        for pattern in (*form.latin, *(form.han if has_han else ())):
            match = pattern.fullmatch(text)
            if match is not None:
                return form.make(match.groupdict(), "zh" if chinese else "en")
    return None
