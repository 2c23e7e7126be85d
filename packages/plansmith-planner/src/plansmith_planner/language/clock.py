"""Times of day as people say them, in English and Chinese."""

from __future__ import annotations

import re
from typing import Final

from plansmith_planner.language.numbers import HAN_NUMBER, number

Clock = tuple[int, int]
_HALF: Final = r"(?:\s*+(?:a\.?m\.?|p\.?m\.?)(?![a-z]))?(?:\s*+o'?clock)?"
CLOCK: Final = rf"(?:noon|midnight|\d{{1,2}}(?:[:.h]\d{{2}})?{_HALF})"


def in_day_part(clock: Clock, part: str) -> Clock:
    """Applies a part of the day to a time: nine in the evening is 21:00."""
    hour, minute = clock
    late = part in ("afternoon", "evening") or (part == "night" and hour >= 6)
    if hour == 12 and (part == "morning" or (late and part != "afternoon")):
        return 0, minute
    return (hour + 12, minute) if late and 0 < hour < 12 else clock


def english_clock(text: str) -> Clock:
    """Reads what `CLOCK` found, in small letters; there is no hour 99."""
    words = re.sub(r"o'?clock", "", text).strip()
    digits = re.match(r"(\d{1,2})(?:[:.h](\d{2}))?", words)
    if digits is None:
        return (12, 0) if words == "noon" else (0, 0)
    hour, minute = int(digits[1]), int(digits[2] or 0)
    half = words[digits.end() :].strip().replace(".", "")
    if half and hour > 12:
        return 99, minute
    return (hour % 12 + (12 if half == "pm" else 0) if half else hour), minute


PARTS: Final = {
    **dict.fromkeys(("早上", "上午", "早晨", "清晨", "早"), "morning"),
    **dict.fromkeys(("中午", "下午", "午后", "午後"), "afternoon"),
    **dict.fromkeys(("傍晚", "晚上", "晚间", "晚間", "晚"), "evening"),
    **dict.fromkeys(("夜里", "夜裡", "深夜", "半夜"), "night"),
    "凌晨": "morning",
}
_CHINESE_PART: Final = "|".join(sorted(PARTS, key=len, reverse=True))
# `#` stands for the number of the time, of several in one pattern.
CHINESE_CLOCK: Final = (
    rf"(?:(?P<part#>{_CHINESE_PART})?\s*+(?P<hour#>{HAN_NUMBER})\s*+(?:[:：]\s*+(?P<colon#>\d{{2}})"
    rf"|[点點时時](?:整|钟|鐘)?(?:(?P<half#>半)|(?P<quarter#>[一三])刻"
    rf"|(?P<minute#>{HAN_NUMBER})\s*+分?)?))"
)


def chinese_clock(found: re.Match[str], nth: int, part: str) -> Clock:
    """Reads what `CHINESE_CLOCK` found, in a part of the day such as 下午."""
    minute = 30 if found[f"half{nth}"] else 0
    if found[f"quarter{nth}"]:
        minute = 15 * number(found[f"quarter{nth}"])
    elif minute_text := found[f"colon{nth}"] or found[f"minute{nth}"]:
        minute = number(minute_text)
    hour_number = number(found[f"hour{nth}"])
    hour = 0 if hour_number == 24 else hour_number
    if part == "中午" and hour in (11, 12):
        return hour, minute
    return in_day_part((hour, minute), PARTS.get(part, ""))
