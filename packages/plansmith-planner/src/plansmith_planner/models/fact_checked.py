"""Checks that a model's text has only facts of its source, and wraps small models so."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from decimal import Context, Decimal
from typing import Final

from plansmith.errors import ModelFailed
from plansmith.plan.refs import value_text
from plansmith.plan.sentence import Sentence
from plansmith.ports import Delta, ModelDone, Prompt, ReplyBrief, TextDelta
from plansmith_planner.language.numbers import MONTHS, SCALES, month_of, readings
from plansmith_planner.language.words import folded
from plansmith_planner.models.wrappers import Wrapper, closing

_NUMBER: Final = re.compile(r"\d+(?:[.,:/-]\d+)*")
_WITH_UNIT: Final = re.compile(rf"({_NUMBER.pattern}) ?([万亿]?)")
_GROUPED: Final = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?")
# A Chinese comma ends a figure, unless the figure itself is written in wide digits.
_WIDE_COMMA: Final = re.compile(r"(?<![０-９])，|，(?![０-９])")
_MARKER: Final = re.compile(r"^[ \t]*(?:\d+[.)]|[-*])\s+", re.MULTILINE)
_CITED: Final = re.compile(r"\[step:[^\[\]]*\]")
_QUOTED: Final = re.compile(r"[\"“「『《`]([^\"”」』》`\n]{2,80})[\"”」』》`]")
_FILE: Final = re.compile(r"\b[\w-]{1,100}(?:[/.][\w-]{1,100}){0,20}\.[A-Za-z]\w{0,4}\b", re.ASCII)
_MONTHS: Final = tuple(map(str.lower, MONTHS))
_MONTH: Final = f"(?P<month>{'|'.join(f'{name[:3]}(?:{name[3:]})?' for name in _MONTHS)})\\.?"
# The ways to write a day, or a month of a year; a day's year may be missing.
_DATES: Final = tuple(
    re.compile(pattern)
    for pattern in (
        rf"\b(?P<day>\d{{1,2}})(?:st|nd|rd|th)? (?:of )?{_MONTH}(?:,? (?P<year>\d{{4}}))?\b",
        rf"\b{_MONTH} (?P<day>\d{{1,2}})(?:st|nd|rd|th)?(?:,? (?P<year>\d{{4}}))?\b",
        r"(?:(?P<year>\d{4}) ?年 ?)?(?P<month>\d{1,2}) ?月 ?(?P<day>\d{1,2}) ?[日号]",
        r"\b(?P<year>\d{4})[/.](?P<month>\d{1,2})[/.](?P<day>\d{1,2})\b",
        r"\b(?P<year>\d{4})-(?P<month>\d{1,2})-(?P<day>\d{1,2})(?=t\d|\b)",
        rf"\b{_MONTH} (?P<year>\d{{4}})\b",
        r"(?P<year>\d{4}) ?年 ?(?P<month>\d{1,2}) ?月(?! ?\d)",
    )
)

_Said = Decimal | str
_SHORT: Final = Context(prec=10)  # digits of a fraction; what comes after them is noise


def _parts(number: str) -> list[str]:
    """Returns a number; of `10,20,30`, which is no grouped number, also each one."""
    is_list = "," in number and not _GROUPED.fullmatch(number)
    return [number, *number.split(",")] if is_list else [number]


def _said(number: str, unit: str = "") -> set[_Said]:
    """Returns what a number may say, with its unit of ten thousand or more worked in.

    What has two readings has both; what is no number, such as a time, stays as it is written.
    """
    found = [each * SCALES.get(unit, 1) for each in readings(number)]
    exact = {each if each == each.to_integral_value() else _SHORT.plus(each) for each in found}
    return {*exact} or {number}


def _is_told(number: str, unit: str, known: set[_Said], source: str) -> bool:
    """Whether a source tells a number: `1.2万` is also 12,000, or 1.2 below a heading with 万."""
    if unit:
        alone = unit in source and _said(number) & known
        return bool(_said(number, unit) & known or alone)
    whole, *parts = (bool(_said(part) & known) for part in _parts(number))
    return whole or (bool(parts) and all(parts))


def unfounded(text: str, source: str) -> list[str]:
    """Returns the numbers, dates, quoted names and files of a text that are not in `source`."""
    claims = _CITED.sub("", _MARKER.sub("", text))
    plain = _normalized(source)
    known: set[_Said] = set()
    for number, unit in _WITH_UNIT.findall(plain):
        known |= _said(number, unit).union(*map(_said, _parts(number)))
    for day in _NUMBER.findall(_with_dates(plain)):
        # A day with a year, and without it; the year and the month alone.
        whole = re.fullmatch(r"\d{4}-\d\d(?:-\d\d)?", day)
        known |= {day, day[5:], day[:7], *_said(day[:4])} if whole else _said(day)
    figures = _WITH_UNIT.findall(_with_dates(_normalized(claims)))
    numbers = [number for number, unit in figures if not _is_told(number, unit, known, plain)]
    names = [*_QUOTED.findall(claims), *_FILE.findall(claims)]
    return [*numbers, *(name for name in names if _normalized(name).strip() not in plain)]


def check_wording(text: str, source: str) -> None:
    """Refuses a text with facts that are not in `source`."""
    wrong = unfounded(text, source)
    if wrong:
        names = ", ".join(dict.fromkeys(wrong[:3]))
        raise ModelFailed(
            Sentence("its text has facts that are in no result: {facts}", facts=names)
        )


def _with_dates(text: str) -> str:
    """Writes every day and month in one form, so that two languages compare equal."""
    for pattern in _DATES:
        text = pattern.sub(_iso, text)
    return text


def _iso(found: re.Match[str]) -> str:
    parts = found.groupdict()
    year, month, day = parts.get("year"), parts["month"], parts.get("day")
    if not month.isdecimal():
        month = str(month_of(month))
    named = [year] if year else []
    named += [f"{int(each):02}" for each in (month, day) if each]
    return f" {'-'.join(named)} "


def _normalized(text: str) -> str:
    apart = _WIDE_COMMA.sub("， ", text)
    return " ".join(folded(apart).split())


_BILLIONS: Final = re.compile(r"(?<![\d.a-z])(\d+(?:\.\d+)?)b(?![a-z])", re.IGNORECASE)
_MILLIONS: Final = re.compile(r"(?<![\d.a-z])\d+m(?![a-z])", re.IGNORECASE)
_SMALL: Final = 5.0  # billions of weights, below which numbers are made up too often


def is_small(name: str) -> bool:
    """Whether a model's name says that it is small, such as `qwen3:1.7b`."""
    sizes = [float(each) for each in _BILLIONS.findall(name)]
    return bool(_MILLIONS.search(name)) if not sizes else max(sizes) < _SMALL


class FactCheckedModel(Wrapper):
    """Reads a text to its end and refuses it if it has facts that are not in the prompt.

    The caller then shows the plain results. Answers to a schema are not checked here.
    """

    async def stream(self, prompt: Prompt) -> AsyncIterator[Delta]:
        """Yields empty pieces while it reads, then the whole text if it is correct."""
        held = prompt.schema is None and not prompt.tools
        text, source, brief = "", prompt.text, prompt.brief
        if isinstance(brief, ReplyBrief):  # numbers and names may come from these alone
            source = "\n".join([brief.instruction, *map(value_text, brief.results.values())])
        pieces = self._model.stream(prompt)
        async with closing(pieces):
            async for delta in pieces:
                if held and isinstance(delta, TextDelta):
                    text += delta.text
                    yield TextDelta("")
                    continue
                if held and isinstance(delta, ModelDone):
                    check_wording(text, source)
                    yield TextDelta(text)
                yield delta
