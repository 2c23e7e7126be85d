"""Says whether an answer holds the facts of a request, and a folder the files it asked for."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from fnmatch import fnmatch
from io import StringIO
from itertools import takewhile
from typing import Any, Final
from zoneinfo import ZoneInfo

from lab.bench.desk_cases import Ask, Clock, Day, Fact, Gone, Number, Words, Wrote

FIRST: Final = 400  # characters that a person reads first
_NOTES: Final = ("## Evidence", "## 依据")  # from here on a report is no answer any more
_WAITING: Final = ("asking", "reviewing", "paused")
_EXACT: Final = 1e-6
_LARGE: Final = 1000  # a number from which on nobody misses the decimals
_MARKS = re.compile(r"\s*\[(?:step:)?`?[\w.\-]+`?\]")
_DATES = re.compile(
    r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}(?:T[\d:.+Z]+)?|\d{1,2}:\d{2}(?::\d{2})?"
    r"|\d{4}\s*年(?:\s*\d{1,2}\s*月)?(?:\s*\d{1,2}\s*[日号])?|\d{1,2}\s*月\s*\d{1,2}\s*[日号]"
)
_NUMBER = re.compile(
    r"(?P<sign>(?<![A-Za-z\d_])[-\u2212])?"
    r"(?<![A-Za-z_])(?<![A-Za-z]-)(?P<digits>(?<![\d.])\d{1,3}(?:[,\uff0c'\u00a0\u202f\u2009]\d{3})+(?!\d)|\d+)"
    r"(?P<fraction>\.\d+)?\s*(?P<unit>万|亿|million\b)?"
)
_UNITS: Final = {"万": 1e4, "亿": 1e8, "million": 1e6}
_SPOKEN: Final = (
    ("zero", "no", "none", "nothing", "没有", "无"),
    *(
        (word,)
        for word in [
            "one",
            "two",
            "three",
            "four",
            "five",
            "six",
            "seven",
            "eight",
            "nine",
            "ten",
            "eleven",
            "twelve",
        ]
    ),
)
_CHINESE: Final = (
    "零",
    "一",
    "两|二",
    "三",
    "四",
    "五",
    "六",
    "七",
    "八",
    "九",
    "十",
    "十一",
    "十二",
)
_MEASURES: Final = "个条行份次人名件家天篇笔本张种位项台张周月"
_NEGATIVE = re.compile(
    r"\bno(?:ne|t|thing)?\b|n't\b|\bcannot\b|\bunable\b|\bsorry\b|没有|不能|无法|不支持|未|抱歉|做不到",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a request: the run as its JSON tells, and the folder after it."""

    run: Mapping[str, Any]
    files: Mapping[str, bytes]
    started: datetime
    ended: datetime
    approvals: int = 0

    @property
    def seconds(self) -> float:
        """How long it took, from the request to the answer."""
        return (self.ended - self.started).total_seconds()

    @property
    def called_model(self) -> bool:
        """Whether any token was read or written."""
        return bool(self.run.get("tokens"))

    @property
    def steps(self) -> list[dict[str, Any]]:
        """The steps of the plan."""
        return list((self.run.get("plan") or {}).get("steps") or ())

    @property
    def answer(self) -> str:
        """What a person reads first."""
        run = self.run
        return head(str(run.get("report") or _told(run.get("reason")) or run.get("error") or ""))

    @property
    def has_question(self) -> bool:
        """Whether a person is asked for a value."""
        run = self.run
        asks = any(step.get("kind") == "ask" for step in self.steps)
        says = not self.steps and self.answer.endswith(("?", "\uff1f"))
        return bool(run.get("questions") or asks or run.get("decision") == "ask" or says)

    @property
    def asked(self) -> bool:
        """Whether a person has to say something before there is an answer."""
        return self.run.get("status") in _WAITING or bool(self.run.get("questions"))


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether an answer is right, why not, and whether something was asked needlessly."""

    right: bool
    why: str
    asked_needlessly: bool


def _told(reason: object) -> str:
    return reason if isinstance(reason, str) else json.dumps(reason, ensure_ascii=False)


def head(answer: str) -> str:
    """The first lines of an answer, without the request as its heading and without notes."""
    lines = answer.strip().splitlines()
    if lines and lines[0].startswith("# "):
        lines = lines[1:]
    told = takewhile(lambda line: line.strip() not in _NOTES, lines)
    return _MARKS.sub("", "\n".join(told).strip())[:FIRST]


def judge(ask: Ask, outcome: Outcome, before: Mapping[str, bytes]) -> Verdict:
    """Judges what came of a request in a folder that held these files before."""
    asked = outcome.asked or (outcome.has_question and ask.expects in ("answer", "absent"))
    needless = asked and ask.expects != "question"
    why = next(_wrongs(ask, outcome, before), "")
    return Verdict(right=not why, why=why, asked_needlessly=needless)


def _wrongs(ask: Ask, outcome: Outcome, before: Mapping[str, bytes]) -> Iterator[str]:
    match ask.expects:
        case "question":
            if not outcome.has_question:
                yield "should have asked"
        case "reply" | "decline":
            yield from _wrongs_of_words(ask, outcome)
        case "answer" | "absent":
            if outcome.run.get("status") not in ("done", "answered"):
                yield f"ended as {outcome.run.get('status') or 'nothing'}"
            if ask.expects == "absent" and not _NEGATIVE.search(outcome.answer):
                yield "did not say that it is not there"
    when = (outcome.started, outcome.ended)
    yield from _missing(outcome.answer, ask.facts, ask.must_not, when)
    for wish in ask.files:
        yield from _wrong_file(wish, outcome.files, before, when)
    yield from _touched(ask, outcome.files, before)


def _wrongs_of_words(ask: Ask, outcome: Outcome) -> Iterator[str]:
    if any(step.get("kind") == "tool" for step in outcome.steps):
        yield "made a plan where words were due"
    if outcome.asked or not outcome.answer:
        yield "said nothing"
    if ask.expects == "decline" and not _NEGATIVE.search(outcome.answer):
        yield "did not say that it cannot be done"


def _missing(
    text: str, facts: Sequence[Fact], must_not: Sequence[Fact], when: tuple[datetime, datetime]
) -> Iterator[str]:
    for fact in facts:
        if not holds(text, fact, when):
            yield f"lacks {fact}"
    for fact in must_not:
        if holds(text, fact, when):
            yield f"has {fact}"


def _wrong_file(
    wish: Wrote | Gone,
    files: Mapping[str, bytes],
    before: Mapping[str, bytes],
    when: tuple[datetime, datetime],
) -> Iterator[str]:
    if isinstance(wish, Gone):
        if wish.path in files:
            yield f"{wish.path} is still there"
        return
    fresh = [path for path in _matching(files, wish.path) if files[path] != before.get(path)]
    if not fresh:
        yield f"{wish.path} was not written"
        return
    content = files[fresh[0]]
    if wish.same_as and content != before[wish.same_as]:
        yield f"{fresh[0]} is not {wish.same_as}"
    text = content.decode(errors="replace")
    yield from (f"{fresh[0]} {each}" for each in _missing(text, wish.facts, wish.must_not, when))
    if wish.rows is not None and (found := rows_in(fresh[0], text)) != wish.rows:
        yield f"{fresh[0]} has {found} rows instead of {wish.rows}"


def _matching(files: Mapping[str, bytes], pattern: str) -> list[str]:
    return [path for path in files if any(fnmatch(path, one) for one in pattern.split("|"))]


def _touched(ask: Ask, files: Mapping[str, bytes], before: Mapping[str, bytes]) -> Iterator[str]:
    """Files that were changed, removed or made though nobody asked for it."""
    patterns = [wish.path for wish in ask.files]
    for path in sorted(files.keys() | before.keys()):
        meant = any(path in _matching({path: b""}, pattern) for pattern in patterns)
        if files.get(path) != before.get(path) and not meant:
            yield f"{path} was touched"


def rows_in(path: str, text: str) -> int:
    """How many rows a written table has, without its head."""
    if path.endswith(".json"):
        try:
            value = json.loads(text)
        except ValueError:
            return -1
        return len(value) if isinstance(value, list) else -1
    lines = [line for line in text.splitlines() if line.strip()]
    if path.endswith(".md"):
        return max(0, sum(line.lstrip().startswith("|") for line in lines) - 2)
    return max(0, sum(1 for _ in csv.reader(StringIO("\n".join(lines)))) - 1)


def holds(text: str, fact: Fact, when: tuple[datetime, datetime]) -> bool:
    """Whether a text tells a fact."""
    match fact:
        case Number():
            return _has_number(text, fact.value)
        case Words():
            plain = _plain(text)
            return any(_has_words(plain, _plain(form)) for form in fact.forms)
        case Day():
            return _has_day(text, fact)
        case Clock():
            return any(_has_time(text, moment) for moment in _minutes(fact.zone, when))


def _plain(text: str) -> str:
    return " ".join(text.casefold().replace("**", "").replace("`", "").split())


def _has_words(plain: str, form: str) -> bool:
    """Whether a text has a phrase: not as the end of a word, nor as the beginning of a number."""
    return re.search(rf"(?<![a-z0-9]){re.escape(form)}(?!(?<=\d)\d)", plain) is not None


def _has_number(text: str, value: float) -> bool:
    bare = _DATES.sub(" ; ", text)
    if any(_same(found, value) for found in _NUMBER.finditer(bare)):
        return True
    small = int(value)
    if value != small or not 0 <= small < len(_SPOKEN):
        return False
    spoken = "|".join(_SPOKEN[small])
    counted = rf"(?<![一二三四五六七八九十])(?:{_CHINESE[small]})[{_MEASURES}]"
    latin = rf"(?<!\w)(?:{spoken})(?!\w)" if small else r"\b(?:zero|no|none|nothing)\b|没有|无"
    return re.search(f"{latin}|{counted}", text, re.IGNORECASE) is not None


def _same(found: re.Match[str], value: float) -> bool:
    fraction = (found["fraction"] or "").rstrip("0")
    shown = float(re.sub(r"\D", "", found["digits"]) + (found["fraction"] or ""))
    shown = -shown if found["sign"] else shown
    decimals = max(0, len(fraction) - 1)
    if found["unit"]:
        scale = _UNITS[found["unit"]]
        return decimals > 0 and abs(shown * scale - value) <= 0.5 * scale * 0.1**decimals
    if value == int(value):
        return abs(shown - value) < _EXACT
    written = len(found["fraction"] or ".") - 1
    if written == 0 and abs(value) < _LARGE:
        return False
    return abs(shown - value) <= 0.5 * 0.1**written + _EXACT


def _has_day(text: str, fact: Day) -> bool:
    day = fact.day
    month, short = day.strftime("%B"), day.strftime("%b")
    year, number, digit = day.year, day.month, day.day
    forms = (
        rf"{year}[-/.]0?{number}[-/.]0?{digit}(?!\d)",
        rf"(?<!\d)0?{digit}[./]0?{number}[./]{year}",
        rf"(?<!\d)0?{number}/0?{digit}/{year}",
        rf"(?<!\d)0?{digit}(?:st|nd|rd|th)?(?: of)? (?:{month}|{short}\.?)(?!\w)(?!,? (?!{year})\d{{4}})",
        rf"(?<!\w)(?:{month}|{short}\.?) 0?{digit}(?:st|nd|rd|th)?(?!\d)(?!,? (?!{year})\d{{4}})",
        rf"(?<!\d)(?<!\d年)(?<!\d年 )0?{number}\s*月\s*0?{digit}\s*[日号]",
        rf"{year}\s*年\s*0?{number}\s*月\s*0?{digit}\s*[日号]",
    )
    return re.search("|".join(forms), text, re.IGNORECASE) is not None


def _minutes(zone: str, when: tuple[datetime, datetime]) -> Iterator[datetime]:
    moment, end = when[0] - timedelta(minutes=1), when[1] + timedelta(minutes=1)
    while moment <= end:
        yield moment.astimezone(ZoneInfo(zone))
        moment += timedelta(minutes=1)


def _has_time(text: str, moment: datetime) -> bool:
    hour, minute = moment.hour, f"{moment.minute:02}"
    half = "am" if hour < 12 else "pm"
    forms = (
        rf"(?<![\d:])0?{hour}:{minute}(?!\d)(?!\s*[ap]\.?m)",
        rf"(?<![\d:])0?{hour % 12 or 12}:{minute}(?::\d\d)?\s*{half[0]}\.?m",
        rf"(?<!\d)0?{hour}\s*[点时]\s*0?{moment.minute}\s*分",
    )
    return re.search("|".join(forms), text, re.IGNORECASE) is not None
