"""Reads small talk, and questions that one built-in tool answers: sums, times, dates and units.

Only the form of a question is read here. Whether a text is a date, a place or a unit is for the
tool to say, so that whatever it does not know goes to a model.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Collection, Mapping
from typing import Final, Literal, NamedTuple

from plansmith.lazy import lazy_pattern
from plansmith.plan.data import Json
from plansmith.plan.refs import escape_text
from plansmith_planner.language import lines, phrase_list, phrases
from plansmith_planner.language.numbers import CHINESE_UNITS, DIGITS, in_signs, unit_name

Language = Literal["en", "zh"]
STEP: Final = "find"  # the id of the step whose result the sentence refers to


class InstantCall(NamedTuple):
    """A call that answers a whole request; `reply` refers to its result."""

    kind: Literal["arithmetic", "units", "time", "date"]
    tool: str
    inputs: dict[str, Json]
    reply: str


def read_question(text: str, language: Language) -> InstantCall | None:
    """Returns the call that a text asks for and nothing else; None for any other text."""
    return _arithmetic(text, language) or _time(text, language) or _units(text, language)


def _result(field: str) -> str:
    return "{{" + f"{STEP}.{field}" + "}}"


_LEAD: Final = lazy_pattern(phrases("sum_lead"), re.IGNORECASE)
_TAIL: Final = lazy_pattern(
    r"(?<!\s)(?:\s++equals?|\s*+(?:的(?:结果|值))?\s*+(?:是|等于|得)\s*+(?:多少|几)?)$",
    re.IGNORECASE,
)
_EXPRESSION: Final = lazy_pattern(rf"(?:(?>{DIGITS})|sqrt|cbrt|ln|mod|[-+*/^%!()√\s])++")
_OPERATOR: Final = lazy_pattern(r"[-+*/^!√]|[a-z]")
# An amount or an opinion; and dates, telephone numbers and phrases that only look like a sum.
_NO_SUM: Final = lazy_pattern(phrases("no_sum"))
_BARE: Final = lazy_pattern(r"\d{1,4}\s?[-/–]\s?\d{1,4}")
_MONEY: Final = lazy_pattern(r"[$€£¥￥]")
_WORDED: Final = lazy_pattern(r"[A-Za-z]{2,}(?![A-Za-z0-9]*\()|[\u4e00-\u9fff]")


def _arithmetic(text: str, language: Language) -> InstantCall | None:
    money = set(_MONEY.findall(text))
    led = _LEAD.match(text)
    body = text[led.end() :] if led else text
    tail = _TAIL.search(body)
    core = (body[: tail.start()] if tail else body).strip()
    unasked = led is None and tail is None and _BARE.fullmatch(core) is not None
    # What one currency is in another changes every day.
    if len(money) > 1 or unasked or _NO_SUM.fullmatch(core):
        return None
    written = in_signs(_MONEY.sub("", core))
    if not _EXPRESSION.fullmatch(written) or not _OPERATOR.search(written):
        return None
    value = "".join(money) + _result("text")
    # Reports are Markdown, in which an asterisk would get a backslash.
    formula = escape_text(core.replace("**", "^").replace("*", "×"))
    reply = f"{formula} = {value}"
    if _WORDED.search(core):
        reply = f"{formula}是 {value}。" if language == "zh" else f"{_capital(formula)} is {value}."
    return InstantCall("arithmetic", "calculator.compute", {"expression": written}, reply)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


_MAX_DIGITS: Final = 8  # digits of an amount that does not end
_UNIT: Final = (
    rf"(?:{'|'.join(sorted(CHINESE_UNITS, key=len, reverse=True))}"
    r"|[A-Za-z°µμ][A-Za-z°µμ0-9²³/^*. ]{0,30}?)"
)
_CONVERSIONS: Final = tuple(
    lazy_pattern(each, re.IGNORECASE)
    for each in phrase_list("conversion", digits=DIGITS, unit=_UNIT)
)


def _units(text: str, language: Language) -> InstantCall | None:
    match = next((found for each in _CONVERSIONS if (found := each.fullmatch(text))), None)
    if match is None:
        return None
    units = [match["source"].strip(), match["to"].strip()]
    names = [unit_name(each) for each in units]
    if names[0] == names[1]:
        return None
    warm = names[1] in ("°C", "°F")
    amount = (match["value"] or "1").strip()
    first, last = (escape_text(each) for each in (names if warm else units))
    value = re.sub(r"[\s,]", "", amount.replace("−", "-"))
    digits = 5 if warm else _MAX_DIGITS
    inputs: dict[str, Json] = {"value": value, "from": names[0], "to": names[1], "digits": digits}
    dot = "。" if language == "zh" else "."
    reply = f"{escape_text(amount)} {first} = {_result('text')} {last}{dot}"
    return InstantCall("units", "calculator.convert", inputs, reply)


Groups = Mapping[str, str]


def _now(groups: Groups, language: Language) -> InstantCall:
    place = groups.get("place", "").strip()
    place_text, zone = escape_text(place), _result("zone")
    where = f"in {place_text}" if place else f"({zone})"
    reply = f"It is {_result('clock')} on {_result('spoken.en')} {where}."
    if language == "zh":
        reply = f"{place_text}现在是 {_result('spoken.zh')} {_result('clock')}"
        reply += "。" if place else f"（{zone}）。"
    return InstantCall("time", "time.now", {"zone": place} if place else {}, reply)


def _today(_: Groups, language: Language) -> InstantCall:
    english, chinese = f"Today is {_result('spoken.en')}.", f"今天是{_result('spoken.zh')}。"
    return _date("time.now", {}, chinese if language == "zh" else english)


def _week(_: Groups, language: Language) -> InstantCall:
    week = _result("week")
    reply = f"今天在 {week} 周（ISO 8601）。" if language == "zh" else f"It is ISO week {week}."
    return _date("time.now", {}, reply)


def _weekday(groups: Groups, language: Language) -> InstantCall:
    day = groups["date"]
    day_text = escape_text(day)
    # A date that is whole needs only its weekday; of others the whole date is told.
    answer = f"a {_result('weekday')}" if re.search(r"\d{4}", day) else _result("spoken.en")
    reply = f"{_capital(day_text)} is {answer}."
    if language == "zh":
        reply = f"{'那天' if re.search('月|-', day) else day_text}是{_result('spoken.zh')}。"
    return _date("time.describe", {"time": day}, reply)


def _until(groups: Groups, language: Language) -> InstantCall:
    day = groups["date"]
    chinese = f"距离{escape_text(day)}{_result('away.zh')}（{_result('date')}）。"
    reply = chinese if language == "zh" else f"{_result('text')}."
    return _date("time.until", {"date": day}, reply)


def _year_end(_: Groups, language: Language) -> InstantCall:
    days = _result("days")
    reply = f"今年还剩 {days} 天。" if language == "zh" else f"Days left in this year: {days}."
    return _date("time.until", {"date": "31 December"}, reply)


def _between(groups: Groups, language: Language) -> InstantCall:
    first, last = groups["first"], groups.get("last", "today")
    start, end, days = escape_text(first), escape_text(last), _result("days")
    chinese = f"从{start}到{end}相差 {days} 天。"
    reply = chinese if language == "zh" else f"Days from {start} to {end}: {days}."
    return _date("time.difference", {"from": first, "to": last}, reply)


def _date(tool: str, inputs: dict[str, Json], reply: str) -> InstantCall:
    return InstantCall("date", tool, inputs, reply)


# The names of spans of time, where they are not the argument's own.
_SPANS: Final = {
    **dict.fromkeys(("business day", "working day", "工作日"), "weekdays"),
    **dict.fromkeys(("周", "星期"), "weeks"),
    "天": "days",
    "月": "months",
    "年": "years",
    "小时": "hours",
    "分钟": "minutes",
}


def _moved(groups: Groups, language: Language) -> InstantCall:
    """Adds to a day, or to the time of day; `back` says that it goes back."""
    count, noun = groups["count"], groups["unit"]
    name = noun.lower().removesuffix("s")
    unit = _SPANS.get(name, f"{name}s")
    clock, back = unit in ("hours", "minutes"), "back" in groups
    start = groups.get("date", "now" if clock else "today")
    if language == "zh":
        measure = "个" if noun in ("月", "星期", "工作日", "小时") else ""
        at = f" {_result('clock')}" if clock else ""
        reply = f"{count} {measure}{noun}{'前' if back else '后'}是{_result('spoken.zh')}{at}。"
    else:
        span_text = escape_text(f"{count} {noun} {'before' if back else 'from'} {start}")
        at = f"{_result('clock')} on " if clock else ""
        reply = f"{span_text} is {at}{_result('spoken.en')}."
    inputs: dict[str, Json] = {"time": start, unit: -int(count) if back else int(count)}
    return InstantCall("time" if clock else "date", "time.add", inputs, reply)


# The question in each of its forms, and what makes the call of what it names.
_FORMS: Final = tuple(
    (lazy_pattern(form, re.IGNORECASE), make)
    for make in (_now, _today, _week, _moved, _weekday, _year_end, _until, _between)
    for form in phrase_list(f"form{make.__name__}")
)


# Every form has one of these: most requests have none, and no form is compiled for them.
_CUE: Final = re.compile(r"\d|time|date|day|week|when|how long|[\u4e00-\u9fff]", re.IGNORECASE)


def _time(text: str, language: Language) -> InstantCall | None:
    if not _CUE.search(text):
        return None
    make: Callable[[Groups, Language], InstantCall]
    for pattern, make in _FORMS:
        if match := pattern.fullmatch(text):
            return make({name: each for name, each in match.groupdict().items() if each}, language)
    return None


_GREETING: Final = lazy_pattern(phrases("greeting"), re.IGNORECASE)
_THANKS: Final = lazy_pattern(phrases("thanks"), re.IGNORECASE)
_FAREWELL: Final = lazy_pattern(phrases("farewell"), re.IGNORECASE)
_ABOUT: Final = lazy_pattern(phrases("about"), re.IGNORECASE)
# The beginning of a tool's name, and what it is good for in English and Chinese.
_ABILITIES: Final = [line.split(" | ") for line in lines("abilities.txt")]


def small_talk(text: str, tools: Collection[str], *, chinese: bool) -> str:
    """Returns the answer to small talk; empty if a request is anything else.

    Where none of the built-in tools is, somebody else's planner answers in its own way.
    """
    able = _abilities(tools, chinese=chinese)
    words = " ".join(text.replace("’", "'").split())
    if not able:
        return ""
    if _THANKS.fullmatch(words):
        return "不客气。" if chinese else "You are welcome."
    if _FAREWELL.fullmatch(words):
        return "再见。" if chinese else "Goodbye."
    if _GREETING.fullmatch(words):
        return f"你好！{able}" if chinese else f"Hello! {able}"
    return able if _ABOUT.fullmatch(words) else ""


def _abilities(tools: Collection[str], *, chinese: bool) -> str:
    """Says in one sentence what can be done with the tools; empty if none of ours is there."""
    known = [
        zh if chinese else en
        for start, en, zh in _ABILITIES
        if any(name.startswith(start) for name in tools)
    ]
    if not known:
        return ""
    if chinese:
        return f"我可以{'，'.join(known)}。"
    joined = f"{', '.join(known[:-1])} and {known[-1]}" if len(known) > 1 else known[0]
    return f"I can {joined}."


_WIDE: Final = {0xFF01 + place: 0x21 + place for place in range(94)} | {0x3000: 0x20}
_OPENING: Final = re.compile(phrases("opening"), re.IGNORECASE)
_CLOSING: Final = re.compile(phrases("closing"), re.IGNORECASE)
# "(tell me) what time it is", as the question itself.
_INDIRECT: Final = (
    (
        re.compile(r"^(what (?:time|day|date|week)(?: of the week)?) it is\b", re.IGNORECASE),
        r"\1 is it",
    ),
    (re.compile(r"^what the (time|date) is\b", re.IGNORECASE), r"what is the \1"),
    (re.compile(r"^what (\S.*\S) (is|are|was)$", re.IGNORECASE), r"what \2 \1"),
    (re.compile(r"^(how many days) (?:there are|it is)\b", re.IGNORECASE), r"\1"),
)


def without_courtesies(text: str) -> str:
    """Returns a request without courtesies around it, on one line, with narrow digits and signs."""
    narrow = (str(unicodedata.decimal(each, each)) for each in text.translate(_WIDE))
    bare = " ".join("".join(narrow).replace("’", "'").split())
    for _ in range(8):
        opening = _OPENING.match(bare)
        shorter = bare[opening.end() :] if opening else _CLOSING.sub("", bare)
        # Nothing but courtesy is small talk, and read elsewhere.
        if not shorter or shorter == bare:
            break
        bare = shorter
    for pattern, direct in _INDIRECT:
        bare = pattern.sub(direct, bare)
    return bare
