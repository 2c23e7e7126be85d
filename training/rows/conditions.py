"""Conditions of a request on a table: what is said, and the SQL that means it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Final

from training.rows.tables import Column, Table, identifier, literal, written
from training.rows.voice import Voice

MONTHS: Final = (
    "January February March April May June July August September October November December".split()
)
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
    ("{w}不低于{n}的", ">="), ("{w}至少{n}的", ">="), ("{w}不超过{n}的", "<="), ("{w}最多{n}的", "<="),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Cond:
    """A condition: its SQL, its words, and the columns it uses."""

    sql: str
    said: str
    column: str


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
    return Cond(value_sql(table, column, value, said), _low(text, voice), column.name)


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


def by_words(table: Table, voice: Voice) -> Cond | None:
    """Returns a condition with words of its own, such as "out of stock"."""
    known = {each.of.en: each for each in table.columns}
    fitting = [c for c in table.domain.conditions if _names(c.sql) <= set(known)]
    if not fitting:
        return None
    chosen = voice.rng.choice(fitting)
    sql = _translated(chosen.sql, table, known)
    word = voice.rng.choice(chosen.zh if voice.is_zh else chosen.en)
    ways = ("that are {}", "which are {}", "{}", "that are currently {}")
    text = f"{word}的" if voice.is_zh else voice.rng.choice(ways).replace("{}", word)
    return Cond(sql, text, "")


def _names(sql: str) -> set[str]:
    bare = re.sub(r"'[^']*'", "", sql)
    return set(re.findall(r"[a-z_]+[0-9]*[a-z_]*", bare))


def _translated(sql: str, table: Table, known: dict[str, Column]) -> str:
    """Writes a condition of a domain with the names and values of a table."""

    def put(found: re.Match[str]) -> str:
        return known[found[0]].sql if found[0] in known else found[0]

    texts = re.findall(r"'([^']*)'", sql)
    bare = re.sub(r"[a-z_]+[0-9]*[a-z_]*", put, re.sub(r"'[^']*'", "\0", sql))
    column = known[min(_names(sql))]
    for value in texts:
        pair = next((each for each in column.of.pairs if each[0] == value), (value, value))
        bare = bare.replace("\0", literal(pair[table.value_lang == "zh"]), 1)
    return re.sub(r"\s*(<>|>=|<=|=|<|>)\s*", r" \1 ", bare)


class Period:
    """Conditions on time, counted from now."""

    def __init__(self, table: Table, voice: Voice, column: Column, now: datetime) -> None:
        self._table, self._voice, self._column = table, voice, column
        self._now = now
        raw = str(voice.rng.choice(table.values(column)))
        self._some = _day(raw, table.dates) if column.of.kind != "month" else _day(raw + "-15", "-")

    def cond(self) -> Cond:
        """Returns a condition of some form."""
        kind, dates = self._column.of.kind, self._table.dates
        ways: list[Callable[[], tuple[str, str]]] = [
            self._month_of_year,
            self._year,
            self._relative,
        ]
        if kind == "month":
            ways = [self._month_of_year, self._year, self._relative]
        elif dates == "." and kind == "date":
            ways = [self._month_of_year, self._year]
        else:
            ways += [
                self._month,
                self._month_of_year,
                self._since,
                self._between,
                self._day,
                self._days,
            ]
        sql, said = self._voice.rng.choice(ways)()
        return Cond(sql, said, self._column.name)

    def _like(self, year: int, month: int | None = None) -> str:
        dotted = self._table.dates == "." and self._column.of.kind == "date"
        mark = self._table.dates if self._column.of.kind == "date" else "-"
        if dotted:
            text = f"%.{month:02}.{year}" if month else f"%.{year}"
        else:
            text = f"{year}{mark}{month:02}%" if month else f"{year}%"
        if self._column.of.kind == "month" and month:
            return f"{self._column.sql} = '{year}-{month:02}'"
        return f"{self._column.sql} LIKE '{text}'"

    def _month_of_year(self) -> tuple[str, str]:
        year, month = self._some.year, self._some.month
        name = MONTHS[month - 1]
        said = self._voice.either(
            (f"in {name} {year}", f"for {name} {year}", f"in {month}/{year}", f"of {name} {year}"),
            (f"{year}年{month}月的", f"{year}年{month}月份的"),
        )
        return self._like(year, month), said

    def _month(self) -> tuple[str, str]:
        month = self._some.month
        mark = self._table.dates if self._column.of.kind == "date" else "-"
        said = self._voice.either(
            (f"in {MONTHS[month - 1]}", f"for {MONTHS[month - 1]}"),
            (f"{month}月的", f"{month}月份的"),
        )
        return f"{self._column.sql} LIKE '%{mark}{month:02}{mark}%'", said

    def _year(self) -> tuple[str, str]:
        year = self._some.year
        return self._like(year), self._voice.either(
            (f"in {year}", f"for {year}", f"from {year}"), (f"{year}年的", f"{year}年度的")
        )

    def _relative(self) -> tuple[str, str]:
        now, pick = self._now, self._voice.either
        last = now.replace(day=1) - timedelta(days=1)
        return self._voice.rng.choice(
            (
                (self._like(now.year), pick(("this year", "so far this year"), ("今年的",))),
                (self._like(now.year - 1), pick(("last year",), ("去年的",))),
                (self._like(now.year, now.month), pick(("this month",), ("这个月的", "本月的"))),
                (
                    self._like(last.year, last.month),
                    pick(("last month", "in the last month"), ("上个月的", "上月的")),
                ),
            )
        )

    def _text(self, day: date) -> str:
        return literal(written(day, self._table.dates if self._column.of.kind == "date" else "-"))

    def _since(self) -> tuple[str, str]:
        day, column = self._some, self._column.sql
        iso, name = day.isoformat(), MONTHS[day.month - 1]
        first = day.replace(day=1)
        return self._voice.rng.choice(
            (
                (
                    f"{column} >= {self._text(day)}",
                    self._voice.either(
                        (f"since {iso}", f"from {day.day} {name} {day.year} on"),
                        (f"{iso}以来的", f"{day.year}年{day.month}月{day.day}日之后的"),
                    ),
                ),
                (
                    f"{column} < {self._text(day)}",
                    self._voice.either(
                        (f"before {iso}", f"before {name} {day.day}, {day.year}"),
                        (f"{iso}之前的", f"{day.year}年{day.month}月{day.day}日以前的"),
                    ),
                ),
                (
                    f"{column} >= {self._text(first)}",
                    self._voice.either(
                        (f"since {name} {day.year}",), (f"{day.year}年{day.month}月以来的",)
                    ),
                ),
            )
        )

    def _between(self) -> tuple[str, str]:
        a = self._some
        b = a + timedelta(days=self._voice.rng.choice((6, 13, 30, 60)))
        end = self._until(b)
        said = self._voice.either(
            (
                f"between {a.isoformat()} and {b.isoformat()}",
                f"from {a.isoformat()} to {b.isoformat()}",
            ),
            (
                f"{a.isoformat()}到{b.isoformat()}的",
                f"{a.year}年{a.month}月{a.day}日至{b.year}年{b.month}月{b.day}日的",
            ),
        )
        return f"{self._column.sql} >= {self._text(a)} AND {end}", said

    def _until(self, day: date) -> str:
        """Returns the upper end: a time of that day still counts."""
        if self._column.of.kind == "datetime":
            return f"{self._column.sql} < {self._text(day + timedelta(days=1))}"
        return f"{self._column.sql} <= {self._text(day)}"

    def _day(self) -> tuple[str, str]:
        day, now = self._some, self._now.date()
        said = self._voice.either(
            (f"on {day.isoformat()}", f"on {day.day} {MONTHS[day.month - 1]} {day.year}"),
            (f"{day.isoformat()}的", f"{day.year}年{day.month}月{day.day}日的"),
        )
        if self._voice.rng.random() < 0.25:
            back = self._voice.rng.choice((0, 1))
            day = now - timedelta(days=back)
            said = self._voice.either(
                (("today", "yesterday")[back],), (("今天的", "昨天的")[back],)
            )
        if self._column.of.kind == "datetime":
            return f"{self._column.sql} LIKE '{day.isoformat()}%'", said
        return f"{self._column.sql} = {self._text(day)}", said

    def _days(self) -> tuple[str, str]:
        count = self._voice.rng.choice((3, 7, 10, 14, 30, 60, 90))
        now, column = self._now.date(), self._column.sql
        if self._column.of.values.startswith("+"):
            said = self._voice.either(
                (f"in the next {count} days",), (f"未来{count}天内的", f"接下来{count}天的")
            )
            return (
                f"{column} >= {self._text(now)} AND {self._until(now + timedelta(days=count))}",
                said,
            )
        said = self._voice.either(
            (f"in the last {count} days", f"over the past {count} days"),
            (f"最近{count}天的", f"过去{count}天的"),
        )
        return f"{column} >= {self._text(now - timedelta(days=count))}", said


def _day(text: str, dates: str) -> date:
    if dates == "." and "." in text:
        return datetime.strptime(text, "%d.%m.%Y").date()  # noqa: DTZ007 - a day has no zone
    return date.fromisoformat(text[:10].replace("/", "-"))


def some_cond(table: Table, voice: Voice, now: datetime, used: set[str]) -> Cond | None:
    """Returns a condition on a column that is not used yet."""
    free = [each for each in table.columns if each.name not in used]
    kinds = [each for each in free if each.of.kind in _VALUE_EN and is_sayable(table, each, voice)]
    kinds = [each for each in kinds if table.values(each)]
    times = [each for each in free if each.of.kind in ("date", "datetime", "month")]
    numbers = [each for each in free if each.of.is_number]
    several = [each for each in kinds if len(table.listed(each)) > 2]
    ways: list[Callable[[], Cond | None]] = []
    ways += [lambda: by_value(table, voice, voice.rng.choice(kinds))] * 5 if kinds else []
    ways += [lambda: by_number(table, voice, voice.rng.choice(numbers))] * 2 if numbers else []
    ways += [lambda: Period(table, voice, voice.rng.choice(times), now).cond()] * 3 if times else []
    ways += [lambda: by_not(table, voice, voice.rng.choice(several))] if several else []
    ways += [lambda: by_two(table, voice, voice.rng.choice(several))] if several else []
    ways += [lambda: by_words(table, voice)] * 4 if table.domain.conditions else []
    return voice.rng.choice(ways)() if ways else None


__all__ = ["MONTHS", "Cond", "by_value", "identifier", "said_value", "some_cond", "value_sql"]
