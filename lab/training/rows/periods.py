"""Conditions of a request on a time: last month, in March, since 2024."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Final

from lab.training.rows.tables import Column, Table, literal, written
from lab.training.rows.voice import Voice

MONTHS: Final = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]


@dataclass(frozen=True, slots=True)
class Cond:
    """A condition: its SQL, its words, and the columns it uses."""

    sql: str
    said: str
    column: str
    before: str = ""
    """What may stand before the noun instead, in English."""


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
                self._quarter,
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

    def _quarter(self) -> tuple[str, str]:
        number = (self._some.month + 2) // 3
        year = self._some.year
        start = date(year, number * 3 - 2, 1)
        end = date(year + (number == 4), number * 3 % 12 + 1, 1) - timedelta(days=1)
        said = self._voice.either(
            (f"in Q{number} {year}", f"in quarter {number} of {year}"),
            (f"{year}年第{'一二三四'[number - 1]}季度的", f"{year}年Q{number}的"),
        )
        return f"{self._column.sql} >= {self._text(start)} AND {self._until(end)}", said

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
