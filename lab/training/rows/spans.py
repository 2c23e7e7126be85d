"""Requests about spans of time: months side by side, durations, days gone by."""

from __future__ import annotations

from lab.training.rows.natural import NaturalAsker
from lab.training.rows.periods import MONTHS
from lab.training.rows.queries import Ask, Unfit, some
from lab.training.rows.tables import literal


class SpanAsker(NaturalAsker):
    """Asks how long things take and how months differ."""

    def two_months(self) -> Ask:
        time = some(self.table.of_kind("date", "datetime", "month"))[0]
        if self.table.dates != "-":
            raise Unfit
        months = sorted({str(each)[:7] for each in self.table.values(time)})
        if len(months) < 2:
            raise Unfit
        a, b = sorted(self.rng.sample(months, 2))
        column = self.rng.choice(some(self.table.sums))
        word = self.word(column)
        (x, y), (u, v) = ([self._month(each, lang) for each in (a, b)] for lang in ("en", "zh"))
        text = self.voice.either(
            (
                f"Compare the {word} of {x} with {y}",
                f"{word} in {x} compared to {y}",
                f"How did the {word} change from {x} to {y}?",
                f"Total {word} in {x} and in {y}",
            ),
            (
                f"比较{u}和{v}的{word}",
                f"{u}与{v}的总{word}对比",
                f"{word}从{u}到{v}变化如何？",
                f"{u}和{v}的{word}分别是多少？",
            ),
        )
        month = self.month_of(time)
        test = f"WHERE {month} IN ('{a}', '{b}') GROUP BY month"
        made = self.sql(f"{month} AS month, SUM({column.sql}) AS total", rest=test)
        return self.one("sql months", text, made)

    def _month(self, month: str, lang: str) -> str:
        year, number = month.split("-")
        if lang == "zh":
            return f"{year}年{int(number)}月"
        return f"{MONTHS[int(number) - 1]} {year}"

    def duration(self) -> Ask:
        times = self.table.of_kind("date", "datetime")
        if len(times) < 2 or self.table.dates != "-":
            raise Unfit
        a, b = times[:2]
        x, y = self.word(a), self.word(b)
        days = f"julianday({b.sql}) - julianday({a.sql})"
        label = self.table.label
        if label is None or self.rng.random() < 0.5:
            text = self.voice.either(
                (
                    f"How many days are there on average between {x} and {y}?",
                    f"average number of days from {x} to {y}",
                    f"How long does it take on average from {x} to {y}?",
                ),
                (f"从{x}到{y}平均多少天？", f"{x}和{y}平均间隔几天", f"平均多久（天）从{x}到{y}？"),
            )
            return self.one("sql duration", text, self.sql(f"AVG({days}) AS average"))
        text = self.voice.either(
            (f"Days between {x} and {y} for each {self.slots()['row']}",),
            (f"每个{self.slots()['rows']}从{x}到{y}的天数",),
        )
        return self.one("sql duration", text, self.sql(f"{label.sql}, {days} AS days"))

    def days_since(self) -> Ask:
        time = some(self.table.of_kind("date", "datetime"))[0]
        if self.table.dates != "-" or time.of.values.startswith("+"):
            raise Unfit
        conds = self.conds((0, 0, 1), [time])
        where, row, rows = self.where(conds), self.slots()["row"], self.slots()["rows"]
        text = self.voice.either(
            (
                f"How many days ago was the last {row} {where}?",
                f"How long ago was the latest {row} {where} (in days)?",
            ),
            (f"最近一次{where}{rows}是几天前？", f"上一次{where}{rows}距今多少天"),
        )
        today = literal(self.now.date().isoformat())
        made = self.sql(f"julianday({today}) - julianday(MAX({time.sql})) AS days", conds)
        return self.one("sql duration", self.voice.tidy(text), made)
