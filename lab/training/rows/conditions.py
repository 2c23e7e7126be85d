"""Conditions of a request on a table: what is said, and the SQL that means it."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

from lab.training.rows.periods import Cond, Period
from lab.training.rows.tables import Column, Table, literal
from lab.training.rows.voice import Voice

_VALUE_EN: Final = {
    "place": ("in {v}", "from {v}", "in {w} {v}", "where {w} is {v}", "for {v}", "for {w} {v}"),
    "status": (
        "with {w} {v}",
        "that are {v}",
        "marked {v}",
        "where {w} is {v}",
        "with the {w} {v}",
    ),
    "type": ("with {w} {v}", "where {w} is {v}", "for {w} {v}", "of {w} {v}", "for {v}"),
    "name": ("for {v}", "of {v}", "where {w} is {v}", "with {w} {v}", "for {w} {v}"),
    "person": ("for {v}", "of {v}", "from {v}", "where {w} is {v}", "with {v} as {w}"),
    "flag": ("where {w} is {v}", "with {w} = {v}", "with {w} {v}"),
}
_VALUE_ZH: Final = {
    "place": ("{v}的", "{w}是{v}的", "{w}为{v}的", "{w}在{v}的", "来自{v}的"),
    "status": ("{w}为{v}的", "{v}的", "{w}是{v}的", "状态为“{v}”的"),
    "type": ("{w}为{v}的", "{v}的", "{w}是{v}的", "{v}这个{w}的"),
    "name": ("{v}的", "{w}是{v}的", "{w}为{v}的"),
    "person": ("{v}的", "{w}是{v}的", "{w}为{v}的"),
    "flag": ("{w}为{v}的", "{w}是“{v}”的"),
}
_MORE_EN: Final = (
    ("with {w} over {n}", ">"), ("with more than {n} {w}", ">"), ("where {w} is above {n}", ">"),
    ("with a {w} of more than {n}", ">"), ("with {w} greater than {n}", ">"),
    ("with {w} under {n}", "<"), ("with less than {n} {w}", "<"), ("where {w} is below {n}", "<"),
    ("with a {w} of at least {n}", ">="), ("with {w} of {n} or more", ">="),
    ("with {w} of at most {n}", "<="), ("with {w} up to {n}", "<="), ("where {w} > {n}", ">"),
)  # fmt: skip
_MORE_ZH: Final = (
    ("{w}大于{n}的", ">"), ("{w}超过{n}的", ">"), ("{w}高于{n}的", ">"), ("{w}在{n}以上的", ">="),
    ("{w}小于{n}的", "<"), ("{w}低于{n}的", "<"), ("{w}不到{n}的", "<"), ("{w}少于{n}的", "<"),
    ("{w}不低于{n}的", ">="), ("{w}至少{n}的", ">="), ("{w}不超过{n}的", "<="),
    ("{w}最多{n}的", "<="),
)  # fmt: skip


def value_sql(table: Table, column: Column, value: str, said: str) -> str:
    """Returns a test for a value: exact where the folder lists it, else by what was said."""
    if value in table.listed(column) or column.of.kind in ("code", "flag"):
        return f"{column.sql} = {literal(value)}"
    return f"{column.sql} LIKE {literal(f'%{said}%')}"


def said_value(table: Table, column: Column, value: str, voice: Voice) -> str:
    """Returns what a request calls a value: a listed one also in the other language."""
    if column.of.translates and table.value_lang != voice.lang and table.listed(column):
        pair = next((each for each in column.of.pairs if value in each), (value, value))
        return voice.exact(pair[voice.is_zh])
    return voice.exact(value)


def is_sayable(table: Table, column: Column, voice: Voice) -> bool:
    """Whether the request's language has words for the values of a column."""
    return table.value_lang == voice.lang or bool(table.listed(column)) or not voice.is_zh


def by_value(table: Table, voice: Voice, column: Column) -> Cond:
    """Returns a condition on one value of a column."""
    value = voice.rng.choice(table.values(column))
    said = said_value(table, column, value, voice)
    ways = (_VALUE_ZH if voice.is_zh else _VALUE_EN)[column.of.kind]
    text = voice.fill(voice.rng.choice(ways), v=said, w=voice.rng.choice(column.words(voice.lang)))
    before = said if column.of.kind in ("status", "type") and said.isascii() else ""
    test = value_sql(table, column, value, said)
    return Cond(test, _low(text, voice), column.name, before)


def by_not(table: Table, voice: Voice, column: Column) -> Cond:
    """Returns a condition that excludes one listed value."""
    value = voice.rng.choice(table.listed(column))
    said, word = said_value(table, column, value, voice), voice.rng.choice(column.words(voice.lang))
    text = voice.either(
        (f"where {word} is not {said}", f"except {said}", f"without {said}", f"not {said}"),
        (f"{word}不是{said}的", f"除{said}以外的", f"非{said}的"),
    )
    return Cond(f"{column.sql} <> {literal(value)}", text, column.name)


def by_two(table: Table, voice: Voice, column: Column) -> Cond:
    """Returns a condition that allows two listed values."""
    a, b = voice.rng.sample(table.listed(column), 2)
    x, y = (said_value(table, column, each, voice) for each in (a, b))
    word = voice.rng.choice(column.words(voice.lang))
    text = voice.either(
        (f"with {word} {x} or {y}", f"where {word} is {x} or {y}", f"for {x} and {y}"),
        (f"{word}为{x}或{y}的", f"{x}和{y}的", f"{word}是{x}或者{y}的"),
    )
    return Cond(f"{column.sql} IN ({literal(a)}, {literal(b)})", text, column.name)


def by_number(table: Table, voice: Voice, column: Column) -> Cond:
    """Returns a condition on a number."""
    low, high = min(table.values(column)), max(table.values(column))
    limit = _round(low + (high - low) * voice.rng.choice((0.2, 0.3, 0.5, 0.6, 0.75)))
    word = voice.rng.choice(column.words(voice.lang))
    if voice.rng.random() < 0.15:
        other = _round(limit + (high - limit) * 0.6)
        if other > limit:
            text = voice.either(
                (
                    f"with {word} between {limit} and {other}",
                    f"where {word} is from {limit} to {other}",
                ),
                (f"{word}在{limit}到{other}之间的", f"{word}介于{limit}和{other}的"),
            )
            return Cond(f"{column.sql} BETWEEN {limit} AND {other}", text, column.name)
    way, sign = voice.either(_MORE_EN, _MORE_ZH)
    if not column.of.adds_up and "{n} {w}" in way:
        way = "with {w} over {n}" if sign == ">" else "with {w} under {n}"
    said = f"{limit:,}" if limit >= 1000 and voice.rng.random() < 0.4 else str(limit)
    return Cond(
        f"{column.sql} {sign} {limit}", _low(voice.fill(way, w=word, n=said), voice), column.name
    )


def _round(value: float) -> int:
    step = 1 if abs(value) < 20 else 5 if abs(value) < 100 else 50 if abs(value) < 1000 else 500
    return int(value // step * step)


def _low(text: str, voice: Voice) -> str:
    return text if voice.is_zh else text[:1].lower() + text[1:]


def by_words(table: Table, voice: Voice, now: datetime) -> Cond | None:
    """Returns a condition with words of its own, such as "out of stock"."""
    known = {each.of.en: each for each in table.columns}
    fitting = [
        c
        for c in table.domain.conditions
        if _names(_dated(c.sql, now)) <= set(known) and (table.dates == "-" or "{" not in c.sql)
    ]
    if not fitting:
        return None
    chosen = voice.rng.choice(fitting)
    sql = _translated(_dated(chosen.sql, now), table, known)
    word = voice.rng.choice(chosen.zh if voice.is_zh else chosen.en)
    ways = ("that are {}", "which are {}", "{}", "that are currently {}")
    text = f"{word}的" if voice.is_zh else voice.rng.choice(ways).replace("{}", word)
    return Cond(sql, text, "")


def _dated(sql: str, now: datetime) -> str:
    """Puts days in for `{today}`, `{today+30}` and the like."""

    def day(found: re.Match[str]) -> str:
        return f"'{(now + timedelta(days=int(found[1] or 0))).date().isoformat()}'"

    return re.sub(r"\{today([+-]\d+)?\}", day, sql)


def by_weekday(voice: Voice, column: Column) -> Cond:
    """Returns a condition on weekends, working days or one day of the week."""
    number = voice.rng.randrange(7)
    days = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
    one = (
        f"= '{number}'",
        (f"on {days[number]}s",),
        (f"星期{'日一二三四五六'[number]}的", f"周{'日一二三四五六'[number]}的"),
    )
    ways = (
        ("IN ('0', '6')", ("on weekends", "at the weekend"), ("周末的",)),
        ("NOT IN ('0', '6')", ("on weekdays", "on working days"), ("工作日的",)),
        one,
    )
    test, en, zh = voice.rng.choice(ways)
    return Cond(f"strftime('%w', {column.sql}) {test}", voice.either(en, zh), column.name)


def _names(sql: str) -> set[str]:
    bare = re.sub(r"'[^']*'", "", sql)
    return set(re.findall(r"[a-z_]+[0-9]*[a-z_]*", bare))


def _translated(sql: str, table: Table, known: dict[str, Column]) -> str:
    """Writes a condition of a domain with the names and values of a table."""

    def put(found: re.Match[str]) -> str:
        return known[found[0]].sql if found[0] in known else found[0]

    texts = re.findall(r"'([^']*)'", sql)
    bare = re.sub(r"[a-z_]+[0-9]*[a-z_]*", put, re.sub(r"'[^']*'", "\0", sql))
    pairs = [pair for name in sorted(_names(sql)) for pair in known[name].of.pairs]
    for value in texts:
        pair = next((each for each in pairs if each[0] == value), (value, value))
        bare = bare.replace("\0", literal(pair[table.value_lang == "zh"]), 1)
    return re.sub(r"\s*(<>|>=|<=|=|<|>)\s*", r" \1 ", bare)


def some_cond(table: Table, voice: Voice, now: datetime, used: set[str]) -> Cond | None:
    """Returns a condition on a column that is not used yet."""
    free = [each for each in table.columns if each.name not in used]
    kinds = [each for each in free if each.of.kind in _VALUE_EN and is_sayable(table, each, voice)]
    kinds = [each for each in kinds if table.values(each)]
    # Nobody names the column of a time: the first one is meant.
    times = [each for each in table.of_kind("date", "datetime", "month")[:1] if each in free]
    numbers = [each for each in free if each.of.is_number]
    several = [each for each in kinds if len(table.listed(each)) > 2]
    ways: list[Callable[[], Cond | None]] = []
    ways += [lambda: by_value(table, voice, voice.rng.choice(kinds))] * 5 if kinds else []
    ways += [lambda: by_number(table, voice, voice.rng.choice(numbers))] * 2 if numbers else []
    ways += [lambda: Period(table, voice, voice.rng.choice(times), now).cond()] * 3 if times else []
    if times and times[0].of.kind != "month" and table.dates == "-":
        ways += [lambda: by_weekday(voice, times[0])] * (voice.rng.random() < 0.25)
    ways += [lambda: by_not(table, voice, voice.rng.choice(several))] if several else []
    ways += [lambda: by_two(table, voice, voice.rng.choice(several))] if several else []
    ways += [lambda: by_words(table, voice, now)] * 6 if table.domain.conditions else []
    return voice.rng.choice(ways)() if ways else None
