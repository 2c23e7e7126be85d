"""When something is done again, said in Chinese, simplified or traditional."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from plansmith.planner.recurrence_words import Clock, Phrase, at_times, every, in_day_part

_DIGITS: Final = {each: number for number, each in enumerate("零一二三四五六七八九")} | {
    "〇": 0,
    "两": 2,
    "兩": 2,
}
_PARTS: Final = {
    **dict.fromkeys(("早上", "上午", "早晨", "清晨", "早"), "morning"),
    **dict.fromkeys(("中午", "下午", "午后", "午後"), "afternoon"),
    **dict.fromkeys(("傍晚", "晚上", "晚间", "晚間", "晚"), "evening"),
    **dict.fromkeys(("夜里", "夜裡", "深夜", "半夜"), "night"),
    "凌晨": "morning",
}
_PART: Final = "|".join(sorted(_PARTS, key=len, reverse=True))
_NUMBER: Final = r"(?:\d{1,6}|[零〇一二两兩三四五六七八九十百]{1,5})"
_CLOCK: Final = (
    rf"(?:(?P<part#>{_PART})?\s*(?P<hour#>{_NUMBER})\s*(?:[:：]\s*(?P<colon#>\d{{2}})"
    rf"|[点點时時](?:整|钟|鐘)?(?:(?P<half#>半)|(?P<quarter#>[一三])刻"
    rf"|(?P<minute#>{_NUMBER})\s*分?)?))"
)
_FIRST, _SECOND = (_CLOCK.replace("#", number) for number in "12")
_WEEK: Final = r"(?:周|週|星期|礼拜|禮拜)"
_WEEKDAY: Final = r"[一二三四五六日天1-6]"
_WHICH: Final = (
    r"(?P<workday>(?:每个?|每個)?工作日|每[周週]一(?:至|到)[周週]?五)"
    rf"|(?P<weekend>每(?:个|個)?(?:周末|週末))"
    rf"|每(?:个|個)?{_WEEK}的?(?P<days>{_WEEKDAY}(?:\s*[、，,和及与與]?\s*{_WEEK}?{_WEEKDAY}(?![点點时時:：\d]))*)"
    rf"|每(?:个|個)?月的?(?:(?P<last>最后一天|最後一天|月末|月底)|(?P<date>{_NUMBER})\s*[号號日])"
    r"|(?P<day>每天|每日|天天)"
)
_PHRASE: Final = re.compile(
    rf"(?P<beijing>北京时间|北京時間)?(?:{_WHICH})的?\s*(?:在|于|於)?(?P<zone>北京时间|北京時間)?\s*"
    rf"(?:{_FIRST}(?:\s*[、，,和及]\s*{_SECOND})?)?"
)
_INTERVAL: Final = re.compile(
    rf"(?P<skip>每隔|每)\s*(?P<half>半)?\s*(?P<count>{_NUMBER})?\s*(?:个|個)?\s*"
    r"(?P<unit>秒钟?|秒鐘|分钟|分鐘|分(?!之)|小时|小時|钟头|鐘頭|天|日|周|週|星期)(?![一二三四五六日末])"
    r"(?:一次)?"
)
_UNITS: Final = {
    **dict.fromkeys(("秒", "秒钟", "秒鐘"), "second"),
    **dict.fromkeys(("分", "分钟", "分鐘"), "minute"),
    **dict.fromkeys(("小时", "小時", "钟头", "鐘頭"), "hour"),
    **dict.fromkeys(("天", "日"), "day"),
    **dict.fromkeys(("周", "週", "星期"), "week"),
}


def find_chinese(text: str) -> Iterator[Phrase]:
    """Every phrase that says when, in the order of the text."""
    taken = [phrase for each in _PHRASE.finditer(text) if (phrase := _at(each)) is not None]
    for each in _INTERVAL.finditer(text):
        inside = any(phrase.start <= each.start() < phrase.end for phrase in taken)
        if not inside and (phrase := _interval(each)) is not None:
            taken.append(phrase)
    return iter(sorted(taken))


def _interval(found: re.Match[str]) -> Phrase | None:
    unit = _UNITS[found["unit"]]
    span = found.span()
    if found["half"]:
        return every(30, "minute", span) if unit == "hour" else None
    if not found["count"] and unit == "day":
        return None
    count = _number(found["count"]) if found["count"] else 1
    # 每隔两天 leaves two days out, 每隔两小时 leaves none: only the second is clear.
    if found["skip"] == "每隔" and unit in ("day", "week"):
        flaw = "whether the days between are counted is not clear: say 每两天 or 每三天"
        return Phrase(*span, flaw=flaw)
    return every(count, unit, span)


def _at(found: re.Match[str]) -> Phrase | None:
    first = _clock(found, 1)
    # 每日新闻 and 工作日 are things, too.
    if first is None and (found["workday"] == "工作日" or found["day"] == "每日"):
        return None
    part = found["part1"] or ""
    clocks = [each for each in (first, _clock(found, 2, part)) if each is not None]
    zone = "Asia/Shanghai" if found["beijing"] or found["zone"] else ""
    return at_times(_days(found), clocks, found.span(), zone)


def _clock(found: re.Match[str], number: int, part: str = "") -> Clock | None:
    if not found[f"hour{number}"]:
        return None
    minute = 0
    if found[f"colon{number}"]:
        minute = int(found[f"colon{number}"])
    elif found[f"half{number}"]:
        minute = 30
    elif found[f"quarter{number}"]:
        minute = 15 * _number(found[f"quarter{number}"])
    elif found[f"minute{number}"]:
        minute = _number(found[f"minute{number}"])
    said = found[f"part{number}"] or part
    clock = _number(found[f"hour{number}"]), minute
    if clock[0] == 24:
        return 0, minute
    if said == "中午" and clock[0] in (11, 12):
        return clock
    return in_day_part(clock, _PARTS.get(said, ""))


def _days(found: re.Match[str]) -> tuple[str, str]:
    """The days of the month and of the week, as cron writes them."""
    if found["workday"]:
        return "*", "1-5"
    if found["weekend"]:
        return "*", "6,0"
    if found["days"]:
        marks = re.findall(_WEEKDAY, re.sub(_WEEK, "", found["days"]))
        numbers = sorted({0 if each in "日天" else _number(each) for each in marks})
        return "*", ",".join(map(str, numbers))
    if found["last"]:
        return "L", "*"
    return (str(_number(found["date"])) if found["date"] else "*"), "*"


def _number(text: str) -> int:
    """A number below a thousand in digits or characters: 15, 十五, 二十, 一百二十."""
    if text.isdigit() and text.isascii():
        return int(text)
    total = digit = 0
    for each in text:
        if each in "十百":
            total += (digit or 1) * (10 if each == "十" else 100)
            digit = 0
        else:
            digit = _DIGITS[each]
    return total + digit
