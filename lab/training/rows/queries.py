"""Requests that one SELECT over one table answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from lab.training.rows.conditions import said_value, some_cond, value_sql
from lab.training.rows.periods import Cond
from lab.training.rows.row import Call, call
from lab.training.rows.tables import Column, Table, literal
from lab.training.rows.texts import texts
from lab.training.rows.voice import Voice

FILE: Final = "table_phrases"


@dataclass(frozen=True, slots=True)
class Ask:
    """A request before its manners: words, calls, and whether an empty result is meant."""

    kind: str
    text: str
    calls: tuple[Call, ...]
    names_file: bool = False
    may_be_empty: bool = False


class Unfit(Exception):
    """This table has no columns for such a request."""


def some(items: Sequence[Column]) -> Sequence[Column]:
    """Returns the columns if there are some."""
    if not items:
        raise Unfit
    return items


class Asker:
    """Asks about one table in one voice."""

    def __init__(self, table: Table, voice: Voice, now: datetime) -> None:
        self.table, self.voice, self.now = table, voice, now
        self.rng = voice.rng

    # -- words

    def word(self, column: Column) -> str:
        """Returns what the request calls a column: a word for it, sometimes its very name."""
        if self.rng.random() < 0.12 and (self.voice.is_zh or column.name.isascii()):
            return self.voice.exact(column.name)
        return self.rng.choice(column.words(self.voice.lang))

    def slots(self) -> dict[str, str]:
        """Returns the words for rows of this table."""
        domain = self.table.domain
        if self.voice.is_zh:
            return {"rows": domain.rows_zh, "row": domain.rows_zh}
        return {"rows": domain.rows, "row": domain.row}

    def say(self, kind: str, conds: Sequence[Cond] = (), /, **slots: str) -> str:
        """Fills a template; one condition may stand before the noun: "paid orders"."""
        way = self.voice.pick(texts(FILE)[kind, self.voice.lang])
        before = next((each for each in conds if each.before), None)
        words = self.slots()
        if before is not None and "{rows}" in way and self.rng.random() < 0.6:
            conds = [each for each in conds if each is not before]
            words["rows"] = f"{before.before} {words['rows']}"
        if conds and "{where}" not in way:
            raise Unfit
        return self.voice.fill(way, **(words | {"where": self.where(conds)} | slots))

    def conds(self, counts: Sequence[int], used: Sequence[Column] = ()) -> list[Cond]:
        """Returns conditions on columns that the request does not use otherwise."""
        taken = {each.name for each in used}
        found: list[Cond] = []
        for _ in range(self.rng.choice(counts)):
            made = some_cond(self.table, self.voice, self.now, taken)
            if made is not None and made.sql not in [each.sql for each in found]:
                found.append(made)
                taken |= {made.column}
        # Conditions with words of their own stand alone: their columns are not told apart.
        return found[:1] if any(not each.column for each in found) else found

    def where(self, conds: Sequence[Cond]) -> str:
        if self.voice.is_zh:
            return "".join(each.said for each in conds)
        return (" and " if self.rng.random() < 0.3 else " ").join(each.said for each in conds)

    # -- SQL

    def sql(self, what: str, conds: Sequence[Cond] = (), rest: str = "") -> Call:
        """Returns the call with a SELECT on this table."""
        test = f" WHERE {' AND '.join(each.sql for each in conds)}" if conds else ""
        tail = f" {rest}" if rest else ""
        return call("tables.sql", query=f"SELECT {what} FROM {self.table.source}{test}{tail}")

    def one(self, kind: str, text: str, made: Call, *, may_be_empty: bool = False) -> Ask:
        return Ask(kind, text, (made,), may_be_empty=may_be_empty)

    # -- requests

    def count(self) -> Ask:
        conds = self.conds((1, 1, 1, 2))
        if not conds:
            raise Unfit
        text = self.say(
            "count",
            conds,
        )
        return self.one("sql count", text, self.sql("COUNT(*) AS count", conds))

    def exists(self) -> Ask:
        conds = self.conds((1,))
        if not conds:
            raise Unfit
        text = self.say(
            "exists",
            conds,
        )
        return self.one("sql count", text, self.sql("COUNT(*) AS count", conds))

    def aggregate(self) -> Ask:
        """Asks for one number: sum, average, extremes or median."""
        how = self.rng.choice(
            ("sum", "sum", "sum", "sum", "avg", "avg", "avg", "max", "min", "median")
        )
        column = self.rng.choice(some(self.table.sums if how == "sum" else self.table.numbers))
        conds = self.conds((0, 1, 1, 1, 2), [column])
        made = {
            "sum": f"SUM({column.sql}) AS total",
            "avg": f"AVG({column.sql}) AS average",
            "max": f"MAX({column.sql}) AS maximum",
            "min": f"MIN({column.sql}) AS minimum",
            "median": f"median({column.sql}) AS median",
        }[how]
        text = self.say(how, conds, w=self.word(column))
        return self.one(f"sql {how}", text, self.sql(made, conds))

    def listing(self) -> Ask:
        conds = self.conds((1, 1, 1, 2))
        if not conds:
            raise Unfit
        text = self.say(
            "list",
            conds,
        )
        return self.one("sql list", text, self.sql("*", conds), may_be_empty=True)

    def labels(self) -> Ask:
        label = self.table.label
        if label is None:
            raise Unfit
        conds = self.conds((1, 1, 2), [label])
        if not conds:
            raise Unfit
        text = self.say("labels", conds, label=self.word(label))
        return self.one("sql list", text, self.sql(label.sql, conds), may_be_empty=True)

    def pair(self) -> Ask:
        label = self.table.label
        if label is None:
            raise Unfit
        column = self.rng.choice(some([c for c in self.table.columns if c is not label]))
        conds = self.conds((1,), [label, column])
        text = self.say("pair", conds, label=self.word(label), w=self.word(column))
        made = self.sql(f"{label.sql}, {column.sql}", conds)
        return self.one("sql list", text, made, may_be_empty=True)

    def extreme(self) -> Ask:
        """Asks for the row with the most or least of something, under a condition."""
        column, text_of, down = self.superlative()
        conds = self.conds((1,), [column])
        if not conds:
            raise Unfit
        rest = f"ORDER BY {column.sql}{' DESC' if down else ''} LIMIT 1"
        return self.one("sql extreme", text_of(conds), self.sql("*", conds, rest))

    def superlative(self) -> tuple[Column, Callable[[Sequence[Cond]], str], bool]:
        """Returns a column, a way to ask for its extreme row, and whether the greatest is meant."""
        voice = self.voice
        column = self.rng.choice(some(self.table.numbers or self.table.of_kind("year")))
        most = column.of.most_zh if voice.is_zh else column.of.most_en
        down = self.rng.random() < 0.6
        if len(most) == 2 and self.rng.random() < 0.65:
            return column, lambda conds: self.say("sup", conds, sup=most[not down]), down
        label = self.table.label or self.table.columns[0]
        words = {"hilo": self.hilo(down=down), "w": self.word(column), "label": self.word(label)}
        return column, lambda conds: self.say("most", conds, **words), down

    def hilo(self, *, down: bool) -> str:
        """Returns a word for most or least."""
        en = ("highest", "largest", "biggest") if down else ("lowest", "smallest")
        return self.voice.either(en, ("最高", "最大", "最多") if down else ("最低", "最小", "最少"))

    def top_where(self) -> Ask:
        column = self.rng.choice(some(self.table.numbers))
        conds = self.conds((1,), [column])
        if not conds:
            raise Unfit
        count, down = self.rng.randint(2, 10), self.rng.random() < 0.7
        text = self.say(
            "top",
            conds,
            w=self.word(column),
            n=self.voice.number(count),
            hilo=self.hilo(down=down) if self.voice.is_zh else ("highest" if down else "lowest"),
        )
        if not self.voice.is_zh and text.startswith("Top") and not down:
            raise Unfit
        rest = f"ORDER BY {column.sql}{' DESC' if down else ''} LIMIT {count}"
        return self.one("sql top", text, self.sql("*", conds, rest), may_be_empty=True)

    def share(self) -> Ask:
        """Asks for the share of one listed value."""
        groups = [g for g in self.table.groups if self.table.listed(g)]
        group = self.rng.choice(some(groups))
        value = self.rng.choice(self.table.listed(group))
        said = said_value(self.table, group, value, self.voice)
        test = f"{group.sql} = {literal(value)}"
        if self.rng.random() < 0.5 and self.table.sums:
            column = self.rng.choice(self.table.sums)
            text = self.say("share", w=self.word(column), v=said)
            part, whole = f"SUM(CASE WHEN {test} THEN {column.sql} END)", f"SUM({column.sql})"
        else:
            text = self.say("sharecount", v=said)
            part, whole = f"SUM({test})", "COUNT(*)"
        return self.one(
            "sql share", text, self.sql(f"ROUND(100.0 * {part} / {whole}, 1) AS percent")
        )

    def versus(self) -> Ask:
        groups = [g for g in self.table.groups if len(self.table.listed(g)) >= 2]
        group = self.rng.choice(some(groups))
        column = self.rng.choice(some(self.table.numbers))
        values = self.rng.sample(self.table.listed(group), 2)
        v, u = (said_value(self.table, group, each, self.voice) for each in values)
        average = not column.of.adds_up or self.rng.random() < 0.25
        how = (("average", "平均") if average else ("total", "总"))[self.voice.is_zh]
        text = self.say("versus", v=v, u=u, how=how, w=self.word(column))
        made = f"{'AVG' if average else 'SUM'}({column.sql}) AS {'average' if average else 'total'}"
        both = f"({literal(values[0])}, {literal(values[1])})"
        test = f"WHERE {group.sql} IN {both} GROUP BY {group.sql}"
        return self.one("sql versus", text, self.sql(f"{group.sql}, {made}", rest=test))

    def distinct(self) -> Ask:
        group = self.rng.choice(some(self.table.groups))
        conds = self.conds((0, 0, 1), [group])
        if self.rng.random() < 0.5:
            text = self.say("distinctcount", conds, w=self.word(group))
            return self.one(
                "sql distinct", text, self.sql(f"COUNT(DISTINCT {group.sql}) AS count", conds)
            )
        text = self.say("distinct", conds, w=self.word(group))
        return self.one(
            "sql distinct", text, self.sql(f"DISTINCT {group.sql}", conds), may_be_empty=True
        )

    def cell(self) -> Ask:
        """Asks for one value of one named row."""
        label = self.table.label
        if label is None or label.of.kind == "id":
            raise Unfit
        value = self.rng.choice(self.table.values(label))
        said = said_value(self.table, label, value, self.voice)
        test = Cond(value_sql(self.table, label, value, said), "", label.name)
        if self.rng.random() < 0.15:
            return self.one("sql cell", self.say("all", v=said), self.sql("*", [test]))
        column = self.rng.choice(some([c for c in self.table.columns if c is not label]))
        return self.one(
            "sql cell", self.say("cell", v=said, w=self.word(column)), self.sql(column.sql, [test])
        )

    def missing(self) -> Ask:
        column = self.rng.choice(some([c for c in self.table.columns if c.of.may_miss]))
        # A cell of a database may hold an empty text, one of a CSV file is null.
        test = Cond(f"COALESCE({column.sql}, '') = ''", "", column.name)
        return self.one(
            "sql missing", self.say("missing", w=self.word(column)), self.sql("*", [test])
        )

    def sort(self) -> Ask:
        times = self.table.of_kind("date", "datetime") if self.table.dates != "." else []
        column = self.rng.choice(some([*self.table.numbers, *times]))
        down = self.rng.random() < 0.5
        en = ("highest", "largest") if down else ("lowest", "smallest")
        if column in times:
            en = ("newest", "latest") if down else ("oldest", "earliest")
        order = self.voice.either(en, ("从高到低", "降序") if down else ("从低到高", "升序"))
        text = self.say("sort", w=self.word(column), order=order)
        rest = f"ORDER BY {column.sql}{' DESC' if down else ''}"
        return self.one("sql sort", text, self.sql("*", rest=rest))

    def recent(self) -> Ask:
        """Asks for the newest or oldest rows, or for the span of time."""
        column = some(self.table.of_kind("date", "datetime"))[0]
        if self.table.dates == "." and column.of.kind == "date":
            raise Unfit
        word, roll = self.word(column), self.rng.random()
        if roll < 0.2:
            made = self.sql(f"MIN({column.sql}) AS first, MAX({column.sql}) AS last")
            return self.one("sql recent", self.say("span", w=word), made)
        if roll < 0.45:
            count = self.rng.randint(2, 10)
            text = self.say("latestn", n=self.voice.number(count))
            rest = f"ORDER BY {column.sql} DESC LIMIT {count}"
        elif roll < 0.75:
            text, rest = self.say("latest", w=word), f"ORDER BY {column.sql} DESC LIMIT 1"
        else:
            text, rest = self.say("earliest", w=word), f"ORDER BY {column.sql} LIMIT 1"
        return self.one("sql recent", text, self.sql("*", rest=rest))

    def firstn(self) -> Ask:
        count = self.rng.choice((3, 5, 10, 20))
        file = self.voice.file(self.table.path)
        text = self.say("firstn", n=self.voice.number(count), file=file)
        return Ask("sql first", text, (self.sql("*", rest=f"LIMIT {count}"),), names_file=True)

    def arithmetic(self) -> Ask:
        """Asks for a share of a total, raised values, or a difference of two columns."""
        roll, label = self.rng.random(), self.table.label
        percent = self.rng.choice((5, 10, 12, 15, 17.5, 19, 20, 25, 7.5, 30))
        if roll < 0.4 or label is None:
            column = self.rng.choice(some(self.table.sums))
            conds = self.conds((0, 0, 1), [column])
            text = self.say("percent", conds, p=f"{percent:g}", w=self.word(column))
            made = f"SUM({column.sql}) * {percent / 100:g} AS result"
            return self.one("sql arithmetic", text, self.sql(made, conds))
        if roll < 0.7:
            column = self.rng.choice(some(self.table.numbers))
            text = self.say("raise", p=f"{percent:g}", w=self.word(column), label=self.word(label))
            made = f"{label.sql}, {column.sql} * {1 + percent / 100:g} AS result"
            return self.one("sql arithmetic", text, self.sql(made))
        money = [c for c in self.table.sums if c.of.kind in ("money", "int", "int0")]
        if len(money) < 2:
            raise Unfit
        a, b = self.rng.sample(money, 2)
        text = self.say("minus", w=self.word(a), x=self.word(b), label=self.word(label))
        return self.one(
            "sql arithmetic", text, self.sql(f"{label.sql}, {a.sql} - {b.sql} AS difference")
        )

    def against_average(self) -> Ask:
        column = self.rng.choice(some(self.table.numbers))
        text = self.say("aboveavg", w=self.word(column))
        average = f"(SELECT AVG({column.sql}) FROM {self.table.source})"
        counted = text.startswith(("How many", "有多少"))
        test = Cond(f"{column.sql} > {average}", "", column.name)
        return self.one(
            "sql average", text, self.sql("COUNT(*) AS count" if counted else "*", [test])
        )

    def second(self) -> Ask:
        column, down = self.rng.choice(some(self.table.numbers)), self.rng.random() < 0.7
        hilo2 = self.voice.either(("",), ("高", "大") if down else ("低", "小"))
        text = self.say("second", hilo=self.hilo(down=down), hilo2=hilo2, w=self.word(column))
        rest = f"ORDER BY {column.sql}{' DESC' if down else ''} LIMIT 1 OFFSET 1"
        return self.one("sql extreme", text, self.sql("*", rest=rest))

    def stats(self) -> Ask:
        column = self.rng.choice(some(self.table.numbers))
        conds = self.conds((0, 1), [column])
        name = column.sql
        if self.rng.random() < 0.4:
            text = self.say("range", conds, w=self.word(column))
            return self.one(
                "sql stats", text, self.sql(f"MAX({name}) - MIN({name}) AS difference", conds)
            )
        made = f"MIN({name}) AS minimum, MAX({name}) AS maximum, AVG({name}) AS average"
        return self.one(
            "sql stats", self.say("stats", conds, w=self.word(column)), self.sql(made, conds)
        )
