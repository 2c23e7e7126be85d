"""Reads requests that ask for one amount in another unit; the calculator knows the units."""

from __future__ import annotations

import re
from typing import Final

from plansmith.lazy import lazy_pattern
from plansmith.plan.refs import escape_text
from plansmith.text import HAN
from plansmith_planner.instant.call import InstantCall, found
from plansmith_planner.instant.numerals import NUMBER, digits

_SHOWN: Final = 8  # digits of an amount that does not end
# What the calculator calls the units of Chinese speakers; those not here have no other name there.
_CHINESE: Final = {
    word: unit
    for unit, words in {
        "km": "公里 千米",
        "m": "米",
        "dm": "分米",
        "cm": "厘米 公分",
        "mm": "毫米",
        "um": "微米",
        "nm": "纳米",
        "mile": "英里",
        "nmi": "海里",
        "ft": "英尺",
        "in": "英寸",
        "yd": "码",
        "ly": "光年",
        "kg": "公斤 千克",
        "g": "克",
        "mg": "毫克",
        "tonne": "吨 公吨",
        "lb": "磅",
        "oz": "盎司",
        "st": "英石",
        "ct": "克拉",
        "L": "升 公升",
        "mL": "毫升",
        "gallon": "加仑",
        "pint": "品脱",
        "quart": "夸脱",
        "cup": "杯",
        "tbsp": "汤匙",
        "tsp": "茶匙",
        "m^3": "立方米",
        "cm^3": "立方厘米",
        "m^2": "平方米",
        "km^2": "平方公里 平方千米",
        "cm^2": "平方厘米",
        "ft^2": "平方英尺",
        "mile^2": "平方英里",
        "ha": "公顷",
        "acre": "英亩",
        "°C": "摄氏度 摄氏",
        "°F": "华氏度 华氏",
        "K": "开尔文",
        "s": "秒 秒钟",
        "min": "分钟",
        "h": "小时 个小时 钟头",
        "d": "天 日",
        "wk": "周 星期 个星期",
        "ms": "毫秒",
        "B": "字节",
        "bit": "比特",
        "kB": "千字节",
        "MB": "兆字节 兆",
        "GB": "吉字节",
        "TB": "太字节",
        "kW": "千瓦",
        "W": "瓦",
        "hp": "马力",
        "J": "焦耳",
        "kJ": "千焦",
        "cal": "卡路里 卡",
        "kcal": "大卡 千卡",
        "kWh": "千瓦时 度电",
        "Pa": "帕 帕斯卡",
        "kPa": "千帕",
        "atm": "大气压",
        "bar": "巴",
        "km/h": "公里每小时 千米每小时 公里/小时",
        "mph": "英里每小时",
        "m/s": "米每秒 米/秒",
        "kn": "节",
    }.items()
    for word in words.split()
}
_HAN_UNIT: Final = "|".join(sorted(_CHINESE, key=len, reverse=True))
_LATIN: Final = r"[A-Za-z°µμ][A-Za-z°µμ0-9²³/^*. ]{0,30}?"
_UNIT: Final = rf"(?:degrees? )?(?:{_HAN_UNIT}|{_LATIN})"
_TO, _FROM = f"(?P<to>{_UNIT})", f"(?P<source>{_UNIT})"
_AMOUNT: Final = rf"(?P<value>[-−]?\s?{NUMBER})\s?"
_ONE: Final = rf"(?:{_AMOUNT}|(?:an?|one) |一\s?)"
_IN: Final = (
    r"(?:are|is|make|makes|in|to|per|are (?:there )?in|is (?:there )?in|are equal to|does|do"
    r"|has|have|equals?)"
)
_WHAT: Final = (
    r"(?:(?:what(?:'s| is| are)|whats|how much (?:is|are)|convert|change|turn|express) )?"
)
_HAN_TURN: Final = r"(?:换算|转换|换|转|折合|折算|变|化)?(?:成|为|到|作)"
_HAN_IS: Final = r"(?:是|等于|合|有|相当于|=|约等于|折合)"
_LATIN_FORMS: Final = tuple(
    lazy_pattern(each, re.IGNORECASE)
    for each in (
        rf"how many {_TO} {_IN} {_ONE}{_FROM}(?: have| make| equal)?",
        rf"{_WHAT}{_AMOUNT}{_FROM} (?:converted |expressed )?(?:in|to|into|as) {_TO}",
        rf"{_AMOUNT}{_FROM} (?:is|are|equals?|makes?|=) how (?:many|much) {_TO}",
    )
)
_HAN_FORMS: Final = tuple(
    lazy_pattern(each, re.IGNORECASE)
    for each in (
        rf"(?:把|将)?\s?{_AMOUNT}{_FROM}\s?{_HAN_TURN}\s?(?:多少|几)?\s?{_TO}(?:\s?{_HAN_IS}多少)?",
        rf"{_AMOUNT}{_FROM}\s?{_HAN_IS}\s?(?:多少|几)个?\s?{_TO}",
        rf"(?:多少|几)\s?{_TO}\s?(?:是|等于)\s?{_AMOUNT}{_FROM}",
    )
)
_SPELT: Final = (
    (lazy_pattern(r"^degrees? (?=c|f)", re.IGNORECASE), ""),
    (lazy_pattern(r"^°\s+(?=[cf])", re.IGNORECASE), "°"),
    (lazy_pattern(r"^°?c(?:elsius|entigrade)?$|^c$", re.IGNORECASE), "°C"),
    (lazy_pattern(r"^°?f(?:ahrenheit)?$", re.IGNORECASE), "°F"),
    (lazy_pattern(r"^(?:kilos?|kgs)$", re.IGNORECASE), "kg"),
    (lazy_pattern(r"^(?:kms|kilometers?|kilometres?)$", re.IGNORECASE), "km"),
    (lazy_pattern(r"^(?:kilometers?|kilometres?) (?:per|an) hour$|^kmph$", re.IGNORECASE), "km/h"),
    (lazy_pattern(r"^miles? (?:per|an) hour$", re.IGNORECASE), "mph"),
    (lazy_pattern(r"^inchs?$", re.IGNORECASE), "inch"),
    (lazy_pattern(r"^hrs?$", re.IGNORECASE), "h"),
    (lazy_pattern(r"^mins$", re.IGNORECASE), "min"),
    (lazy_pattern(r"^secs$", re.IGNORECASE), "s"),
    *((lazy_pattern(f"^{each}$"), each.upper()) for each in ("kb", "mb", "gb", "tb")),
)
_DEGREES: Final = ("°C", "°F")


def read_units(text: str, *, chinese: bool) -> InstantCall | None:
    """Returns the call for a text that asks for an amount in another unit; None for others."""
    for form in (*_LATIN_FORMS, *(_HAN_FORMS if HAN.search(text) else ())):
        match = form.fullmatch(text)
        if match is None:
            continue
        given = match.groupdict()
        shown = (given["value"] or "1").strip()
        value, source, target = _value(shown), _name(given["source"]), _name(given["to"])
        if not value or source == target:
            continue
        warm = target in _DEGREES
        said = [source, target] if warm else [given["source"].strip(), given["to"].strip()]
        first, last = (escape_text(each) for each in (f"{shown} {said[0]}", said[1]))
        inputs = {"value": value, "from": source, "to": target, "digits": 5 if warm else _SHOWN}
        says = f"{first} = {found('text')} {last}{'。' if chinese else '.'}"
        return InstantCall("units", "calculator.convert", dict(inputs), says)
    return None


def _value(text: str) -> str:
    sign = "-" if text.strip()[:1] in ("-", "−") else ""
    number = digits(text.strip().lstrip("-−").strip())
    # The tool takes a number, not a sum: 1.5万 is left to the model.
    return f"{sign}{number}" if number and "*" not in number else ""


def _name(text: str) -> str:
    """Returns a unit as the calculator writes it."""
    name = _CHINESE.get(text.strip(), text.strip())
    for pattern, spelt in _SPELT:
        name = pattern.sub(spelt, name)
    return name
