"""Reads numbers written in digits, in English words or in Chinese characters."""

from __future__ import annotations

import re
from typing import Final

_SMALL: Final = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"),
    *("eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen"),
    *("eighteen", "nineteen"),
)
_TENS: Final = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_ENGLISH: Final = {word: number for number, word in enumerate(_SMALL)} | {
    word: 20 + 10 * place for place, word in enumerate(_TENS)
}
_SCALES: Final = {"thousand": 10**3, "million": 10**6, "billion": 10**9}
_WORD: Final = "|".join(sorted([*_ENGLISH, *_SCALES, "hundred"], key=len, reverse=True))
_DIGITS: Final = {each: place for place, each in enumerate("零一二三四五六七八九")} | {
    "〇": 0,
    "两": 2,
}
_HAN_SCALES: Final = {"十": 10, "百": 100, "千": 1000}
_HAN_GROUPS: Final = {"万": 10**4, "亿": 10**8}

# Digits with or without separators, and with a Chinese or English scale behind them.
PLAIN: Final = r"(?:\d{1,3}(?:,\d{3}){1,9}(?:\.\d{1,30})?|\d{1,30}(?:\.\d{1,30})?|\.\d{1,30})"
HAN: Final = r"[零〇一二两三四五六七八九十百千万亿]{1,20}(?:点[零〇一二三四五六七八九]{1,10})?"
WORDS: Final = (
    rf"(?:an? (?=hundred|thousand|million))?(?:{_WORD})(?:(?:[ -]| and )(?:{_WORD})){{0,8}}"
)
NUMBER: Final = (
    rf"(?:{PLAIN}(?:\s?[百千万亿]|\s(?:thousand|million|billion)\b)?(?!\d)|{HAN}|\b(?:{WORDS})\b)"
)
_SCALED: Final = re.compile(rf"({PLAIN})\s?([百千万亿]|thousand|million|billion)", re.IGNORECASE)


def digits(text: str) -> str:
    """Returns a number in digits, as the calculator reads it; empty if it is none."""
    plain = text.strip().lower()
    if re.fullmatch(PLAIN, plain):
        return plain.replace(",", "")
    scaled = _SCALED.fullmatch(plain)
    if scaled is not None:
        scale = (_SCALES | _HAN_SCALES | _HAN_GROUPS)[scaled[2]]
        return f"({scaled[1].replace(',', '')} * {scale})"
    if re.fullmatch(HAN, plain):
        return _han(plain)
    return _english(plain)


def _english(text: str) -> str:
    """Reads words such as `three hundred and five`; those of no order are no number."""
    total = group = 0
    last = 1000  # what comes behind must be smaller than what stands before it
    for word in re.sub(r"\ban? |\band\b|-", " ", text).split():
        if word in _ENGLISH:
            number = _ENGLISH[word]
            if number >= last or (last == 100 and not number):
                return ""
            group, last = group + number, 10 if number >= 20 else 1
        elif word == "hundred":
            if group > 9:
                return ""
            group, last = (group or 1) * 100, 100
        elif word in _SCALES:
            scale = _SCALES[word]
            if total and total % (scale * 1000):
                return ""
            total, group, last = total + (group or 1) * scale, 0, 1000
        else:
            return ""
    return str(total + group)


def _han(text: str) -> str:
    whole, _, part = text.partition("点")
    number = _han_whole(whole)
    if number is None:
        return ""
    return f"{number}.{''.join(str(_DIGITS[each]) for each in part)}" if part else str(number)


def _han_whole(text: str) -> int | None:
    """Reads 三百五十 and 二〇二六; None for characters that make no number."""
    if all(each in _DIGITS for each in text):
        return int("".join(str(_DIGITS[each]) for each in text)) if text else None
    total, part = 0, ""
    largest = 10**13
    if text[-2:-1] in _HAN_GROUPS and text[-1] in _DIGITS and _DIGITS[text[-1]]:
        # 两万五 is 25,000: a last digit counts the next smaller scale, as in 三百五.
        text += "千" if text[-2] == "万" else "千万"
    for each in text:
        if each not in _HAN_GROUPS:
            part += each
            continue
        group, scale = _han_group(part or "一"), _HAN_GROUPS[each]
        if group is None or scale >= largest:
            return None
        total, part, largest = total + group * scale, "", scale
    last = _han_group(part) if part else 0
    return None if last is None else total + last


def _han_group(text: str) -> int | None:
    """Reads a number below ten thousand."""
    total, last = 0, 10_000
    digit: int | None = None
    for each in text:
        if each in _DIGITS:
            if digit:
                return None
            digit = _DIGITS[each]
            continue
        scale = _HAN_SCALES[each]
        if scale >= last:
            return None
        total, digit, last = total + (1 if digit is None else digit) * scale, None, scale
    # 三百五 is 350: a last digit behind 百 or 千 counts the next smaller scale.
    short = bool(digit) and last in (100, 1000) and text[-2] in _HAN_SCALES
    return total + (digit or 0) * (last // 10 if short else 1)
