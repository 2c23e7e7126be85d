"""Replaces values that the request does not contain by questions."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, cast

from plansmith.adapters.models.local.call_language import EXAMPLE_VALUES
from plansmith.adapters.models.local.known_names import is_beside
from plansmith.adapters.models.local.signatures import Offered, without_condition
from plansmith.plan.data import Json, leaves
from plansmith.text import HAN

DEEDS: Final = "write|save|append|add|put|draw|plot|send|e?mail|post|replace|create|book"
_CHANGES: Final = re.compile(
    rf"\b(?:{DEEDS}|set|update|change|edit|delete|remove|chart|graph|note|remind|order|buy|upload"
    r"|make|turn|start|stop|cancel|schedule|call|text|pay|print|record|store|export|copy|move"
    r"|rename|clear|clean|wipe|translate|summari[sz]e)\w*\b"
    "|写|存|画|发|加|换|改|建|删|订|提醒|复制|移动|导出|生成|制作|打开|关闭|设置|记录|打印|买",
    re.IGNORECASE,
)


def asks_for_change(text: str) -> bool:
    """Whether the words may ask for a change."""
    return bool(_CHANGES.search(text))


ASK: Final = "?"
_FOLDERS: Final = ("folder", "directory", "dir")
_INSIDE: Final = re.compile(r"\$[1-9]")
_LIMIT: Final = re.compile(r"\s+LIMIT\s+(\d+)\s*;?\s*$", re.IGNORECASE)
_LOOSE: Final = re.compile(r"(?<![A-Za-z0-9.])\d+(?:\.\d+)?(?![A-Za-z0-9.])")
_NUMBER: Final = re.compile(r"\d+(?:[.,]\d+)*")
_WORD: Final = re.compile(r"[^\W\d_]+|\d+")
_CODE: Final = re.compile(r"[A-Za-z]{2,4}(?:[-_/][A-Za-z]{2,4})?")
# Words that imply a date; "my last order" does not.
_RELATIVE: Final = re.compile(
    r"\b(?:today|tonight|tomorrow|yesterday|now|ago|since|\w+day|weekend|noon|midnight)\b"
    r"|\b(?:next|this|last|past|coming)\s+(?:\w+\s+)?(?:day|night|week|month|year|quarter|hour"
    r"|minute|morning|afternoon|evening|spring|summer|autumn|fall|winter|jan|feb|mar|apr|may|jun"
    r"|jul|aug|sep|oct|nov|dec)\w*|\bin\s+(?:\d+|an?|one|two|three|half|the)\s+(?:\w+\s+)?"
    r"(?:day|week|month|year|hour|minute|morning|afternoon|evening)s?\b"
    r"|今|明天|明早|明晚|后天|昨|[上下本这]个?[周月]|周[一二三四五六日天]|星期|礼拜|现在|去年",
    re.IGNORECASE,
)
# Arguments that are times of some kind; no other is filled with the clock.
_WHEN: Final = re.compile(
    r"date|time|day|when|start|end\b|begin|since|until|deadline|due|month|year|moment"
    r"|(?:^|_)(?:at|on|from|to|by|before|after)$|日|时|期|月|年",
    re.IGNORECASE,
)
_LITERAL: Final = re.compile(r"'([^']*)'")
_SOURCE: Final = re.compile(r"\b(?:from|join)\s+'[^']*'", re.IGNORECASE)
_DAY: Final = re.compile(r"\d{4}(?:-\d\d){0,2}$")
_PERIOD: Final = re.compile(
    r"\b(?:today|yesterday|tomorrow|last|this|past|next|since|before|after|until|week|month|year"
    r"|quarter|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)\w*\b|\d{4}"
    r"|今|昨|明|[上下本这]个?[周月]|去年|\d\s*月|季度|之[前后]|以[前后来]",
    re.IGNORECASE,
)
_NEW_NAMES: Final = ("as", "alias")
_PLACE: Final = re.compile(r"path|file|folder|dir$|directory", re.IGNORECASE)
_MOMENT: Final = re.compile(r"\d{4}-\d\d-\d\d")
_MOMENTS: Final = ("date", "time", "date-time")
_FREE_FROM: Final = 4  # with this many words a text may be rephrased
# The number that such a word may mean in the unit of a tool.
_MEANT: Final = {
    "a": 1,
    "an": 1,
    "once": 1,
    "twice": 2,
    "both": 2,
    "half": 30,
    "hour": 60,
    "minute": 60,
    "day": 24,
    "week": 7,
    "fortnight": 14,
    "dozen": 12,
    "hundred": 100,
    "thousand": 1000,
    "两": 2,
    "半": 30,
    "周": 7,
    "百": 100,
    "千": 1000,
    "万": 10000,
}
_SPELLED: Final = {
    word: number
    for words, start in (
        (("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"), 0),
        (("ten", "eleven", "twelve"), 10),
        (tuple("零一二三四五六七八九十"), 0),
    )
    for number, word in enumerate(words, start)
} | _MEANT


def grounded(
    calls: Sequence[Mapping[str, Any]],
    tools: Mapping[str, Offered],
    request: str,
    context: str = "",
    *,
    tuned: bool = False,
) -> list[dict[str, Any]]:
    """Returns the calls without invented values: each is asked for or left out.

    A required value becomes `"?"`; an optional one is dropped. A reference to a call that does
    not come before counts as invented. An unused number of the request fills a single gap.

    A tuned model has learned what to look up here, and such calls do no harm: their values stay.
    """
    known, asked = _Source(f"{request}\n{context}", tuned=tuned), _Source(request, tuned=tuned)
    kept: list[dict[str, Any]] = []
    for place, call in enumerate(calls):
        tool = tools[str(call["tool"])]
        if tuned and tool.is_safe:
            kept.append({"tool": tool.name, "args": _without_later(call["args"], tool, place)})
            continue
        args: dict[str, Json] = {}
        for name, value in cast("Mapping[str, Json]", call["args"]).items():
            schema = _schema(tool, name)
            # Samples in a context are no reason to compare with them.
            source = asked if schema.get("format") == "sql" else known
            found = source.value(value, schema, place)
            if not _takes_moment(name, schema) and not known.tells_moments(found):
                found = None
            if _PLACE.search(name):
                found = value if is_beside(value, request) else asked.path(found, known)
            if name in tool.required:
                args[name] = _default(tool, name) if found in (None, ASK) else found
            elif found not in (None, ASK):
                args[name] = found
        kept.append({"tool": tool.name, "args": args})
    _fill_single_gap(calls, kept, tools, request)
    return _without_unasked(_without_repeats(kept), tools, request)


def without_later(
    calls: Sequence[Mapping[str, Any]], tools: Mapping[str, Offered]
) -> list[dict[str, Any]]:
    """Returns the calls without references to calls that do not come before."""
    return [
        {"tool": call["tool"], "args": _without_later(call["args"], tools[call["tool"]], place)}
        for place, call in enumerate(calls)
    ]


def _without_later(args: Mapping[str, Json], tool: Offered, place: int) -> dict[str, Json]:
    later = [name for name, value in args.items() if _has_later(value, place)]
    kept = {name: ASK if name in later else value for name, value in args.items()}
    return {name: v for name, v in kept.items() if v != ASK or name in tool.required}


def _has_later(value: Json, place: int) -> bool:
    texts = [each for each in leaves(value) if isinstance(each, str)]
    return any(int(found[1:]) > place for text in texts for found in _INSIDE.findall(text))


def _without_unasked(
    calls: list[dict[str, Any]], tools: Mapping[str, Offered], request: str
) -> list[dict[str, Any]]:
    """Drops changes at the end that the request does not mention and lacks values for."""
    while len(calls) > 1 and not asks_for_change(request):
        last = calls[-1]
        if tools[last["tool"]].only_reads or ASK not in last["args"].values():
            break
        calls = calls[:-1]
    return calls


def values_not_in(query: str, request: str) -> list[str]:
    """Returns the values in a query that the request does not contain."""
    source = _Source(request)
    return source.untold(source.cleaned(query))


def _default(tool: Offered, name: str) -> Json:
    """Returns an implied value: the schema's default, or for reading tools this folder."""
    schema = _schema(tool, name)
    if "default" in schema:
        return cast("Json", schema["default"])
    return "." if tool.only_reads and name.casefold() in _FOLDERS else ASK


def _takes_moment(name: str, schema: Mapping[str, Any]) -> bool:
    """Whether an argument is a date or time, by its format or its name."""
    return schema.get("format") in (*_MOMENTS, "sql") or bool(_WHEN.search(name))


def _schema(tool: Offered, name: str) -> Mapping[str, Any]:
    found: Any = tool.fields.get(name)
    return cast("Mapping[str, Any]", found) if isinstance(found, Mapping) else {}


def _fill_single_gap(
    drafted: Sequence[Mapping[str, Any]],
    calls: Sequence[dict[str, Any]],
    tools: Mapping[str, Offered],
    request: str,
) -> None:
    """Puts the one unused number of the request into the one missing number argument."""
    values = [each for call in calls for each in leaves(call["args"])]
    texts = " ".join(map(str, values))
    left = [
        float(each)
        for each in _LOOSE.findall(request)
        if float(each) not in values and each not in texts
    ]
    gaps = [
        (call["args"], name)
        for draft, call in zip(drafted, calls, strict=True)
        for name, value in draft["args"].items()
        if isinstance(value, str)
        and _schema(tools[call["tool"]], name).get("type") in ("integer", "number")
    ]
    if len(left) == 1 and len(gaps) == 1:
        args, name = gaps[0]
        args[name] = int(left[0]) if left[0].is_integer() else left[0]


def _without_repeats(calls: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Drops a call that repeats the one before it, as small models tend to do."""
    return [call for place, call in enumerate(calls) if place == 0 or call != calls[place - 1]]


class _Source:
    """The request and its context, in which values are looked up."""

    def __init__(self, text: str, *, tuned: bool = False) -> None:
        self._text = text
        self._tuned = tuned
        self._plain = _plain(text)
        self._words = set(_words(text))
        self._numbers = set(_numbers(text))
        self._is_han = bool(HAN.search(text))

    def value(self, value: Json, schema: Mapping[str, Any], place: int) -> Json:
        """Returns the value if the request contains it, else None."""
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, (int, float)):
            return value if float(value) in self._numbers else None
        if isinstance(value, str):
            return self._words_of(value.strip(), schema, place)
        if isinstance(value, list):
            inner = cast("Mapping[str, Any]", schema.get("items") or {})
            items = [self.value(each, inner, place) for each in value]
            found = [each for each in items if each is not None and each != ASK]
            return cast("Json", found) or None
        return value if self._has_parts(value, schema, place) else None

    def _has_parts(self, value: dict[str, Json], schema: Mapping[str, Any], place: int) -> bool:
        """Whether the request contains all parts of an object; choices and new names are free."""
        parts = cast("Mapping[str, Any]", schema.get("properties") or {})
        for name, each in value.items():
            known = cast("Mapping[str, Any]", parts.get(name) or {})
            free = name in _NEW_NAMES or "enum" in known
            if not free and each is not None and self.value(each, known, place) is None:
                return False
        return True

    def path(self, value: Json, more: _Source) -> Json:
        """Returns a path as the request writes it; one with an extension may come from context."""
        if not isinstance(value, str):
            return value
        plain = _plain(value)
        free = value in (ASK, ".") or _INSIDE.search(value) or "*" in value or not plain
        return value if free or self.holds(plain) or ("." in value and more.holds(plain)) else None

    def tells_moments(self, value: Json) -> bool:
        """Whether the request contains every date of a value."""
        moments = (each for each in leaves(value) if isinstance(each, str) and _MOMENT.match(each))
        return all(self.holds(_plain(each)) for each in moments)

    def holds(self, plain: str) -> bool:
        """Whether a normalized text occurs in the request or context."""
        return plain in self._plain

    def _words_of(self, value: str, schema: Mapping[str, Any], place: int) -> Json:
        if value == ASK:
            return value
        if _INSIDE.search(value):
            earlier = [int(each[1:]) for each in _INSIDE.findall(value)]
            return value if max(earlier) <= place else None
        if schema.get("enum") or schema.get("const") is not None:
            return value if self._tuned or self._has_choice(value) else None
        if schema.get("format") in _MOMENTS:
            return value if self._has_moment(value) else None
        if schema.get("format") == "sql":
            cleaned = self._without_limit(self.cleaned(value))
            return None if self.untold(cleaned) else cleaned
        if schema.get("format") == "arithmetic":
            return value if self._has_figures(value) else None
        return value if self._has_text(value) else None

    def _has_text(self, value: str) -> bool:
        plain = _plain(value)
        if not plain or plain in self._plain:
            return bool(plain)
        if _MOMENT.match(value):
            return bool(_RELATIVE.search(self._text))
        if not self._tuned and value in EXAMPLE_VALUES:
            return False
        words = list(_words(value))
        if self._is_foreign(value) or _CODE.fullmatch(value):
            return True
        known = sum(self._knows(word) for word in words)
        if len(words) >= _FREE_FROM or HAN.search(value):
            return known * 2 >= len(words)
        return bool(words) and known == len(words)

    def _has_choice(self, value: str) -> bool:
        """Whether the request contains a choice, or is in another script and cannot be compared."""
        return self._is_foreign(value) or any(map(self._knows, _words(value)))

    def _has_moment(self, value: str) -> bool:
        """Whether a date follows from the request: as a day, or as words such as "tomorrow"."""
        day = value[8:10]
        known = self._numbers & set(range(1, 32))
        return bool(_RELATIVE.search(self._text)) or (day.isdecimal() and float(day) in known)

    def cleaned(self, query: str) -> str:
        """Returns a query without conditions whose values the request does not contain."""
        for value in self.untold(query):
            query = without_condition(query, value)
        return query

    def _without_limit(self, query: str) -> str:
        limit = _LIMIT.search(query)
        made_up = limit and float(limit[1]) > 1 and float(limit[1]) not in self._numbers
        return query[: limit.start()] if limit and made_up else query

    def untold(self, query: str) -> list[str]:
        """Returns the values in a query that the request does not contain."""
        query = _SOURCE.sub("", query)
        texts = [text for text in _LITERAL.findall(query) if text.strip("% ")]
        numbers = {each for each in _LOOSE.findall(_LITERAL.sub("", query)) if float(each) > 1}
        return [
            *(f"'{text}'" for text in texts if not self._has_literal(text.strip("% "))),
            *(each for each in sorted(numbers) if float(each) not in self._numbers),
        ]

    def _has_literal(self, text: str) -> bool:
        if _DAY.match(text):
            return text in self._text or bool(_PERIOD.search(self._text))
        return all(map(self._knows, _words(text)))

    def _has_figures(self, expression: str) -> bool:
        """Whether the request contains the numbers of a formula; 20 % may be 0.2."""
        shares = self._numbers | {each / 100 for each in self._numbers} | {0.0, 1.0, 100.0}
        return all(float(each.replace(",", "")) in shares for each in _NUMBER.findall(expression))

    def _is_foreign(self, value: str) -> bool:
        return self._is_han and not HAN.search(value)

    def _knows(self, word: str) -> bool:
        if word in self._words or word in self._plain:
            return True
        stem = word[: max(4, len(word) - 3)]
        return len(word) > 4 and any(each.startswith(stem) for each in self._words)


def _plain(text: str) -> str:
    """Normalizes a text for comparison: case, spaces, punctuation."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return "".join(sign for sign in folded if sign.isalnum())


def _words(text: str) -> Iterator[str]:
    for word in _WORD.findall(unicodedata.normalize("NFKC", text).casefold()):
        if HAN.search(word):
            yield from word
        else:
            yield word


def _numbers(text: str) -> Iterator[float]:
    plain = unicodedata.normalize("NFKC", text).casefold()
    for found in _NUMBER.findall(plain):
        for way in (found, found.replace(",", ""), found.replace(",", ".")):
            try:
                yield float(way)
            except ValueError:
                continue
        yield from map(float, re.findall(r"\d+", found))
    for word in _words(text):
        singular = word.removesuffix("s")
        spelled = _SPELLED.get(word, _SPELLED.get(singular))
        if spelled is not None:
            yield float(spelled)
