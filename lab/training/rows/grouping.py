"""Requests about groups, ranks and the shape of one table."""

from __future__ import annotations

from typing import Final

from lab.training.rows.queries import Ask, Asker, Unfit, some
from lab.training.rows.row import call
from lab.training.rows.tables import Column

_HOW: Final = {
    "sum": (("total", "summed", "overall"), ("总", "合计")),
    "average": (("average", "mean"), ("平均",)),
    "max": (("highest", "maximum"), ("最高", "最大")),
    "min": (("lowest", "minimum"), ("最低", "最小")),
}
# Parts of a date by which a table is grouped without SQL.
_PARTS: Final = (
    *(("month", "month", "月"),) * 4,
    ("year", "year", "年"),
    ("weekday", "weekday", "星期"),
    ("quarter", "quarter", "季度"),
)
SQL_OF: Final = {"sum": "SUM", "average": "AVG", "max": "MAX", "min": "MIN"}
ALIAS: Final = {"sum": "total", "average": "average", "max": "maximum", "min": "minimum"}


class GroupAsker(Asker):
    """Asks for groups, ranks and descriptions."""

    def measure(self) -> tuple[Column, str, str]:
        """Returns a column, how it is put together, and the word for that."""
        column = self.rng.choice(some(self.table.numbers))
        ways = ["average", "max", "min"] + (["sum"] * 5 if column.of.adds_up else ["average"] * 3)
        how = self.rng.choice(ways)
        return column, how, self.voice.either(*_HOW[how])

    def month_of(self, column: Column) -> str:
        """Returns the SQL of a month of a column of dates."""
        if column.of.kind == "month":
            return column.sql
        dotted = self.table.dates == "." and column.of.kind == "date"
        return f"substr({column.sql}, 4, 7)" if dotted else f"substr({column.sql}, 1, 7)"

    def describe(self) -> Ask:
        kind = self.rng.choice(("rows", "columns", "columns"))
        text = self.say(kind, file=self.voice.file(self.table.path))
        return Ask(
            "describe", text, (call("tables.describe", table=self.table.path),), names_file=True
        )

    def count_all(self) -> Ask:
        """Asks how many rows there are, by the name of a row."""
        text = self.say("count")
        return self.one("describe", text, call("tables.describe", table=self.table.path))

    def top(self) -> Ask:
        column = self.rng.choice(some([*self.table.numbers, *self.table.of_kind("year")]))
        count, down = self.rng.randint(2, 12), self.rng.random() < 0.7
        hilo = self.hilo(down=down) if self.voice.is_zh else ("highest" if down else "lowest")
        slots = {"w": self.word(column), "n": self.voice.number(count), "hilo": hilo}
        text = self.say("top", **slots)
        if text.startswith("Top") and not down:
            raise Unfit
        made = call(
            "tables.top",
            table=self.table.path,
            column=column.name,
            count=count,
            lowest=None if down else True,
        )
        return self.one("top", text, made)

    def top_one(self) -> Ask:
        column, text_of, down = self.superlative()
        made = call(
            "tables.top",
            table=self.table.path,
            column=column.name,
            count=1,
            lowest=None if down else True,
        )
        return self.one("top", text_of(()), made)

    def group(self) -> Ask:
        by = self.rng.choice(some(self.table.groups))
        if self.rng.random() < 0.35:
            text = self.say("groupcount", by=self.word(by))
            return self.one("group", text, call("tables.group", table=self.table.path, by=by.name))
        column, how, word = self.measure()
        text = self.say("group", by=self.word(by), w=self.word(column), how=word)
        made = call("tables.group", table=self.table.path, by=by.name, value=column.name, how=how)
        return self.one("group", text, made)

    def group_where(self) -> Ask:
        """Asks for groups under a condition, or by two columns."""
        by = self.rng.choice(some(self.table.groups))
        if self.rng.random() < 0.3:
            conds = self.conds((1,), [by])
            if not conds:
                raise Unfit
            text = self.say("groupcount", conds, by=self.word(by))
            made = self.sql(f"{by.sql}, COUNT(*) AS count", conds, f"GROUP BY {by.sql}")
            return self.one("sql group", text, made, may_be_empty=True)
        column, how, word = self.measure()
        made_of = f"{SQL_OF[how]}({column.sql}) AS {ALIAS[how]}"
        others = [each for each in self.table.groups if each is not by]
        if others and self.rng.random() < 0.35:
            b2 = self.rng.choice(others)
            words = {"by": self.word(by), "b2": self.word(b2), "w": self.word(column)}
            text = self.say("two", how=word, **words)
            pair = f"{by.sql}, {b2.sql}"
            return self.one(
                "sql group", text, self.sql(f"{pair}, {made_of}", rest=f"GROUP BY {pair}")
            )
        conds = self.conds((1,), [by, column])
        if not conds:
            raise Unfit
        text = self.say("group", conds, by=self.word(by), w=self.word(column), how=word)
        made = self.sql(f"{by.sql}, {made_of}", conds, f"GROUP BY {by.sql}")
        return self.one("sql group", text, made, may_be_empty=True)

    def best_group(self) -> Ask:
        """Asks which group has most or least."""
        by, down = self.rng.choice(some(self.table.groups)), self.rng.random() < 0.7
        order, roll = " DESC" if down else "", self.rng.random()
        if roll < 0.3:
            conds = self.conds((0, 0, 1), [by])
            word = self.voice.either(
                ("most",) if down else ("fewest", "least"), ("最多",) if down else ("最少",)
            )
            text = self.say("argcount", conds, by=self.word(by), mostleast=word)
            what, alias = "COUNT(*)", "count"
        else:
            average = roll > 0.75 or not self.table.sums
            column = self.rng.choice(some(self.table.numbers if average else self.table.sums))
            conds = self.conds((0, 0, 1), [by, column])
            kind = "argavg" if average else "argmax"
            words = {"by": self.word(by), "w": self.word(column), "hilo": self.hilo(down=down)}
            text = self.say(kind, conds, **words)
            what, alias = (
                (f"AVG({column.sql})", "average") if average else (f"SUM({column.sql})", "total")
            )
        rest = f"GROUP BY {by.sql} ORDER BY {alias}{order} LIMIT 1"
        return self.one(
            "sql best group", text, self.sql(f"{by.sql}, {what} AS {alias}", conds, rest)
        )

    def parts_of_time(self) -> Ask:
        """Asks for groups by a part of the one date that a table has."""
        times = self.table.of_kind("date", "datetime")
        named = {each.name.casefold() for each in self.table.columns}
        if len(times) != 1 or self.table.dates != "-" or named & {"month", "year", "月份", "年份"}:
            raise Unfit
        part, en, zh = self.rng.choice(_PARTS)
        if self.rng.random() < 0.35:
            kind = "monthcount" if part == "month" else "groupcount"
            text = self.say(kind, by=zh if self.voice.is_zh else en)
            return self.one("group", text, call("tables.group", table=self.table.path, by=part))
        column, how, word = self.measure()
        kind = "month" if part == "month" else "group"
        by = zh if self.voice.is_zh else en
        text = self.say(kind, how=word, w=self.word(column), by=by)
        made = call("tables.group", table=self.table.path, by=part, value=column.name, how=how)
        return self.one("group", text, made)

    def months(self) -> Ask:
        """Asks for values by month under a condition, or for the best month."""
        time = some(self.table.of_kind("date", "datetime", "month"))[0]
        month, roll = self.month_of(time), self.rng.random()
        plain = len(self.table.of_kind("date", "datetime")) == 1 and self.table.dates == "-"
        counts = (1,) if plain and time.of.kind != "month" else (0, 0, 1)
        if roll < 0.25:
            conds = self.conds(counts, [time])
            text = self.say("monthcount", conds)
            made = self.sql(f"{month} AS month, COUNT(*) AS count", conds, "GROUP BY month")
            return self.one("sql months", text, made, may_be_empty=True)
        if roll < 0.45 and self.table.sums:
            column, down = self.rng.choice(self.table.sums), self.rng.random() < 0.7
            text = self.say("bestmonth", w=self.word(column), hilo=self.hilo(down=down))
            rest = f"GROUP BY month ORDER BY total{' DESC' if down else ''} LIMIT 1"
            return self.one(
                "sql months",
                text,
                self.sql(f"{month} AS month, SUM({column.sql}) AS total", rest=rest),
            )
        column, how, word = self.measure()
        made_of = f"{SQL_OF[how]}({column.sql}) AS {ALIAS[how]}"
        if roll < 0.55 and self.table.dates != "." and not plain:
            text = self.say("yearsum", how=word, w=self.word(column))
            made = self.sql(f"substr({time.sql}, 1, 4) AS year, {made_of}", rest="GROUP BY year")
            return self.one("sql months", text, made)
        conds = self.conds(counts, [time, column])
        text = self.say("month", conds, how=word, w=self.word(column))
        made = self.sql(f"{month} AS month, {made_of}", conds, "GROUP BY month")
        return self.one("sql months", text, made, may_be_empty=True)

    def having(self) -> Ask:
        by = self.rng.choice(some(self.table.groups))
        values = self.table.values(by)
        if self.rng.random() < 0.5:
            count = max(values.count(each) for each in set(values)) - 1
            if count < 1:
                raise Unfit
            text = self.say("having", by=self.word(by), n=str(count))
            rest = f"GROUP BY {by.sql} HAVING COUNT(*) > {count}"
            return self.one("sql having", text, self.sql(f"{by.sql}, COUNT(*) AS count", rest=rest))
        column = self.rng.choice(some(self.table.sums))
        place, key = self.table.columns.index(column), self.table.columns.index(by)
        totals: dict[str, float] = {}
        for row in self.table.rows:
            totals[row[key]] = totals.get(row[key], 0) + row[place]
        step = 10 ** max(0, len(str(int(max(totals.values())))) - 2)
        limit = int(max(totals.values()) * 0.7 // step * step)
        text = self.say("havingsum", by=self.word(by), w=self.word(column), n=str(limit))
        rest = f"GROUP BY {by.sql} HAVING total > {limit}"
        return self.one(
            "sql having", text, self.sql(f"{by.sql}, SUM({column.sql}) AS total", rest=rest)
        )

    def top_groups(self) -> Ask:
        by, column = (
            self.rng.choice(some(self.table.groups)),
            self.rng.choice(some(self.table.sums)),
        )
        count, down = self.rng.randint(2, 5), self.rng.random() < 0.75
        conds = self.conds((0, 0, 1), [by, column])
        hilo = self.hilo(down=down)
        words = {"by": self.word(by), "w": self.word(column), "n": self.voice.number(count)}
        text = self.say("grouptop", conds, hilo=hilo, **words)
        if text.startswith("Top") and not down:
            raise Unfit
        rest = f"GROUP BY {by.sql} ORDER BY total{' DESC' if down else ''} LIMIT {count}"
        made = self.sql(f"{by.sql}, SUM({column.sql}) AS total", conds, rest)
        return self.one("sql top groups", text, made, may_be_empty=True)
