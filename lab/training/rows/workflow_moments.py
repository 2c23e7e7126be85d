"""Says days, times, moments and durations, with the values that calls take."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import Final

from lab.training.rows.periods import MONTHS
from lab.training.rows.voice import NUMBER_WORDS, Voice

_DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_DAYS_ZH: Final = "一二三四五六日"
Pair = tuple[str, str]


def said_day(voice: Voice, now: datetime) -> tuple[str, date]:
    """Returns a day to come as it is said, and the day."""
    rng, today, zh = voice.rng, now.date(), voice.is_zh
    roll = rng.random()
    if roll < 0.42:
        days, en, said = rng.choice(
            (
                *((1, "tomorrow", "明天"), (1, "tomorrow", "明天"), (0, "today", "今天")),
                (2, "the day after tomorrow", "后天"),
            )
        )
        return (said if zh else en), today + timedelta(days=days)
    if roll < 0.64:
        return _weekday(voice, today)
    if roll < 0.7:
        count = rng.randrange(2, 11)
        said = f"{count}天后" if zh else f"in {count} days"
        return said, today + timedelta(days=count)
    day = today + timedelta(days=rng.randrange(3, 330))
    if roll < 0.76:
        return (day.isoformat() if zh else f"on {day.isoformat()}"), day
    year = day.year != today.year or rng.random() < 0.5
    if zh:
        return (f"{day.year}年" if year else "") + f"{day.month}月{day.day}日", day
    month = MONTHS[day.month - 1]
    first = rng.choice((f"{day.day} {month}", f"{month} {day.day}"))
    return f"on {first}" + (f" {day.year}" if year and first[0].isdigit() else ""), _next(
        day, today, year=year and first[0].isdigit()
    )


def _next(day: date, today: date, *, year: bool) -> date:
    """Returns the first such day to come where no year is said."""
    if year:
        return day
    if (day.month, day.day) == (2, 29):
        return day
    here = day.replace(year=today.year)
    return here if here >= today else day.replace(year=today.year + 1)


def _weekday(voice: Voice, today: date) -> tuple[str, date]:
    weekday = voice.rng.randrange(7)
    if voice.is_zh:
        monday = today - timedelta(days=today.weekday()) + timedelta(days=7)
        week = voice.rng.choice(("下周", "下星期"))
        return f"{week}{_DAYS_ZH[weekday]}", monday + timedelta(days=weekday)
    ahead = (weekday - today.weekday() - 1) % 7 + 1
    return f"on {_DAYS[weekday]}", today + timedelta(days=ahead)


def said_time(voice: Voice) -> Pair:
    """Returns a time of the day as it is said, and as HH:MM."""
    rng = voice.rng
    hour, minute = rng.randrange(6, 23), rng.choice((0, 0, 0, 0, 30, 30, 15, 45))
    value = f"{hour:02}:{minute:02}"
    roll = rng.random()
    if roll < 0.3:
        return value, value
    clock = hour if hour <= 12 else hour - 12
    if voice.is_zh:
        part = "早上" if hour < 9 else "上午" if hour < 12 else "中午" if hour == 12 else "下午"
        part = "晚上" if hour >= 18 else part
        word = _han(clock) if rng.random() < 0.3 else str(clock)
        half = "半" if minute == 30 else f"{minute}分" if minute else ""
        return f"{part}{word}点{half}", value
    said = f"{clock}:{minute:02}" if minute else f"{clock}"
    if roll < 0.5 and 7 <= hour <= 11:
        return said, value
    if hour == 12 and not minute and roll < 0.7:
        return "noon", value
    space = rng.choice((" ", ""))
    return f"{said}{space}{'am' if hour < 12 else 'pm'}", value


def _han(number: int) -> str:
    if number <= 10:
        return NUMBER_WORDS["zh"][number]
    return "十" + (NUMBER_WORDS["zh"][number - 10] if number > 10 else "").replace("两", "二")


def said_moment(voice: Voice, now: datetime, form: str) -> Pair:
    """Returns a day and time as they are said, and as one value."""
    rng, zh = voice.rng, voice.is_zh
    roll = rng.random()
    if roll < 0.1:
        count = rng.randrange(2, 7)
        moment = (now + timedelta(hours=count)).replace(second=0)
        word = voice.number(count)
        return (f"{word}小时后" if zh else f"in {word} hours"), _value(moment, form)
    said, value = said_time(voice)
    hour, minute = map(int, value.split(":"))
    if roll < 0.24:
        moment = now.replace(hour=hour, minute=minute, second=0)
        moment = moment if moment > now else moment + timedelta(days=1)
        return (said if zh else f"at {said}"), _value(moment, form)
    day_said, day = said_day(voice, now)
    moment = datetime(day.year, day.month, day.day, hour, minute)  # noqa: DTZ001
    if zh:
        return f"{day_said}{said}", _value(moment, form)
    return f"{day_said} at {said}", _value(moment, form)


def _value(moment: datetime, form: str) -> str:
    if form == "T":
        return moment.strftime("%Y-%m-%dT%H:%M:00Z")
    return moment.strftime("%Y-%m-%d %H:%M")


def said_minutes(voice: Voice, *, seconds: bool = False) -> tuple[str, int]:
    """Returns a duration as it is said, in minutes or in seconds."""
    if seconds and voice.rng.random() < 0.25:
        count = voice.rng.choice((5, 10, 15, 20, 30, 40, 45, 60, 90, 120))
        return (f"{count}秒" if voice.is_zh else f"{count} seconds"), count
    said, minutes = _minutes(voice)
    return said, 60 * minutes if seconds else minutes


def _minutes(voice: Voice) -> tuple[str, int]:
    rng, zh = voice.rng, voice.is_zh
    roll = rng.random()
    if roll < 0.15:
        return ("半小时" if zh else "half an hour"), 30
    if roll < 0.3:
        return ("一小时" if zh else rng.choice(("an hour", "one hour"))), 60
    if roll < 0.45:
        count = rng.randrange(2, 5)
        word = voice.number(count)
        return (f"{word}小时" if zh else f"{word} hours"), 60 * count
    if roll < 0.6:
        count = rng.randrange(2, 10)
        word = voice.number(count)
        return (f"{word}分钟" if zh else f"{word} minutes"), count
    number = rng.choice((5, 8, 10, 12, 15, 20, 25, 40, 45, 75, 90))
    return (f"{number}分钟" if zh else f"{number} minutes"), number
