"""Requests over three tables: two with keys, and one whose rows refer to both of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from random import Random
from typing import Final

from lab.training.rows.conditions import said_value, value_sql
from lab.training.rows.domains import DATA, Part, domains, of_part
from lab.training.rows.queries import Ask, Unfit, some
from lab.training.rows.row import Lang, call
from lab.training.rows.tables import Column, Table, make_table
from lab.training.rows.voice import Voice

BOOK: Final = "triple_phrases"
_MONTH: Final = "substr({0}, 1, 7)"
_SPANS: Final = {
    "month": _MONTH,
    "year": "substr({0}, 1, 4)",
    "week": "strftime('%Y-W%W', {0})",
}
_MAX_PARENTS: Final = 20


@dataclass(frozen=True, slots=True)
class Triple:
    """The tables: people or places, things, and what happened; each with its alias in queries."""

    first: Table
    second: Table
    third: Table
    worth: tuple[tuple[str, ...], tuple[str, ...]] | None

    @property
    def tables(self) -> tuple[Table, Table, Table]:
        return self.first, self.second, self.third


@cache
def _worths() -> dict[str, tuple[tuple[str, ...], tuple[str, ...]]]:
    """Returns what units times a price are called, by the key of the third table."""
    found: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {}
    key = ""
    for line in (DATA / "triples.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("="):
            key = line[1:].split("|")[0].strip()
        elif line.startswith("@"):
            en, zh = ([each.strip() for each in part.split(",")] for part in line[1:].split(" : "))
            found[key] = tuple(en), tuple(zh)
    return found


def triple(rng: Random, part: Part, lang: Lang, now: datetime) -> Triple:
    """Makes three tables that belong together, with rows that refer to each other."""
    blocks = domains("triples")
    known = tuple(zip(blocks[::3], blocks[1::3], blocks[2::3], strict=True))
    chosen = rng.choice(of_part(known, part))
    while True:
        first, second, third = (make_table(rng, each, lang, now) for each in chosen)
        parents = first, second
        keyed = all(each.of_kind("id") and _label(each) is not None for each in parents)
        dated = third.dates == "-" and third.of_kind("date")
        langs = {each.value_lang for each in (first, second, third)}
        if keyed and dated and len(third.of_kind("ref")) == 2 and third.sums and len(langs) == 1:
            break
    for parent, ref in zip(parents, third.of_kind("ref"), strict=True):
        parent.rows = parent.rows[:_MAX_PARENTS]
        key = parent.columns.index(parent.of_kind("id")[0])
        place = third.columns.index(ref)
        keys = [row[key] for row in parent.rows]
        for row in third.rows:
            row[place] = rng.choice(keys[: max(2, len(keys) - 2)])
    return Triple(first, second, third, _worths().get(chosen[2].key))


def _label(table: Table) -> Column | None:
    named = table.of_kind("person", "name")
    return named[0] if named else None


def _groups(table: Table) -> list[Column]:
    """Returns the columns of groups that belong to the domain; nobody asks about the others."""
    known = table.of_kind("place", "type", "status")
    return [each for each in known if each.of in table.domain.columns]


class TripleAsker:
    """Asks about three tables at once."""

    def __init__(self, of: Triple, voice: Voice) -> None:
        self._of, self._voice, self._rng = of, voice, voice.rng

    # -- parts of queries

    def _from(self, *parents: Table) -> str:
        """Returns the tables of a query: c is what happened, a and b what it refers to."""
        text = f"FROM {self._of.third.source} c"
        refs = self._of.third.of_kind("ref")
        for parent, alias, ref in (
            (self._of.first, "a", refs[0]),
            (self._of.second, "b", refs[1]),
        ):
            if parent in parents:
                key = parent.of_kind("id")[0]
                text += f" JOIN {parent.source} {alias} ON c.{ref.sql} = {alias}.{key.sql}"
        return text

    def _alias(self, table: Table) -> str:
        return "a" if table is self._of.first else "b"

    def _other(self, table: Table) -> Table:
        return self._of.second if table is self._of.first else self._of.first

    def _parent(self) -> Table:
        return self._rng.choice((self._of.first, self._of.second))

    def _group(self, table: Table) -> Column:
        return self._rng.choice(some(_groups(table)))

    def _word(self, column: Column) -> str:
        return self._rng.choice(column.words(self._voice.lang))

    def _measure(self, used: list[Table]) -> tuple[str, str, str]:
        """Returns what is summed: its SQL, its alias and its word; a price needs its table."""
        money = self._of.second.of_kind("money")
        unit = self._rng.choice(some(self._of.third.sums))
        if self._of.worth and money and self._rng.random() < 0.5:
            used.append(self._of.second)
            word = self._rng.choice(self._of.worth[self._voice.is_zh])
            return f"SUM(c.{unit.sql} * b.{money[0].sql})", "total", word
        if self._rng.random() < 0.2:
            domain = self._of.third.domain
            word = f"{domain.rows_zh}数量" if self._voice.is_zh else f"number of {domain.rows}"
            return "COUNT(*)", "count", word
        return f"SUM(c.{unit.sql})", "total", self._word(unit)

    def _value(self, table: Table, column: Column) -> tuple[str, str]:
        """Returns a value that occurs in the third table as a condition, and as it is said."""
        place, key = table.columns.index(column), table.columns.index(table.of_kind("id")[0])
        ref = self._of.third.of_kind("ref")[0 if table is self._of.first else 1]
        used = set(self._of.third.values(ref))
        values = [row[place] for row in table.rows if row[key] in used and row[place] is not None]
        if not values or not isinstance(values[0], str):
            raise Unfit
        value = self._rng.choice(values)
        said = said_value(table, column, value, self._voice)
        return f"{self._alias(table)}.{value_sql(table, column, value, said)}", said

    def _one_of(self, table: Table) -> tuple[str, str]:
        """Returns a condition on a table: one of its rows by name, or one of its groups."""
        label = _label(table)
        groups = _groups(table)
        column = self._rng.choice(some([*groups, *([label] if label else [])]))
        test, said = self._value(table, column)
        if column is label or self._rng.random() < 0.35:
            return test, said
        word = self._word(column)
        return test, f"{word}{said}" if self._voice.is_zh else f"{word} {said}"

    def _say(self, kind: str, /, **slots: str) -> str:
        zh = self._voice.is_zh
        domains_of = [each.domain for each in self._of.tables]
        rows = [each.rows_zh if zh else each.rows for each in domains_of]
        base = {"arows": rows[0], "brows": rows[1], "rows": rows[2]}
        return self._voice.say(BOOK, kind, **(base | slots))

    def _made(self, kind: str, text: str, query: str) -> Ask:
        return Ask(f"three tables {kind}", text, (call("tables.sql", query=query),))

    # -- requests

    def per(self) -> Ask:
        table = self._parent()
        used = [table]
        group = self._group(table)
        what, alias, word = self._measure(used)
        column = f"{self._alias(table)}.{group.sql}"
        query = f"SELECT {column}, {what} AS {alias} {self._from(*used)} GROUP BY {column}"
        return self._made("per", self._say("per", w=word, g=self._word(group)), query)

    def per_of(self) -> Ask:
        """Groups by one table under a condition on the other."""
        table = self._parent()
        used = [table, self._other(table)]
        group = self._group(table)
        test, said = self._one_of(self._other(table))
        what, alias, word = self._measure(used)
        column = f"{self._alias(table)}.{group.sql}"
        query = (
            f"SELECT {column}, {what} AS {alias} {self._from(*used)} WHERE {test} GROUP BY {column}"
        )
        return self._made("per", self._say("perof", w=word, g=self._word(group), v=said), query)

    def count(self) -> Ask:
        (test, v), (other, u) = (self._one_of(each) for each in (self._of.first, self._of.second))
        where = f"WHERE {test} AND {other}"
        query = f"SELECT COUNT(*) AS count {self._from(self._of.first, self._of.second)} {where}"
        return self._made("count", self._say("count", v=v, u=u), query)

    def best(self) -> Ask:
        table = self._parent()
        label = _label(table)
        if label is None:
            raise Unfit
        used = [table, self._other(table)]
        test, said = self._one_of(self._other(table))
        what, alias, word = self._measure(used)
        column = f"{self._alias(table)}.{label.sql}"
        query = (
            f"SELECT {column}, {what} AS {alias} {self._from(*used)} WHERE {test} "
            f"GROUP BY {column} ORDER BY {alias} DESC LIMIT 1"
        )
        return self._made("best", self._say("best", w=word, a=self._word(label), v=said), query)

    def who(self) -> Ask:
        table = self._parent()
        label = _label(table)
        if label is None:
            raise Unfit
        test, said = self._one_of(self._other(table))
        column = f"{self._alias(table)}.{label.sql}"
        query = f"SELECT DISTINCT {column} {self._from(table, self._other(table))} WHERE {test}"
        rows = table.domain.rows
        text = self._say("who", a=self._word(label), v=said, arows=rows)
        return self._made("list", text, query)

    def none(self) -> Ask:
        """Asks for rows of one table that never met a value of the other."""
        table = self._parent()
        label, other = _label(table), self._other(table)
        if label is None:
            raise Unfit
        test, said = self._one_of(other)
        ref = self._of.third.of_kind("ref")[0 if table is self._of.first else 1]
        inner = f"SELECT c.{ref.sql} {self._from(other)} WHERE {test}"
        key = table.of_kind("id")[0].sql
        query = f"SELECT {label.sql} FROM {table.source} WHERE {key} NOT IN ({inner})"
        text = self._say("none", a=self._word(label), v=said, arows=table.domain.rows)
        return self._made("none", text, query)

    def span(self) -> Ask:
        """Sums by month, year or week under a condition on one of the other tables."""
        table = self._parent()
        used = [table]
        test, said = self._one_of(table)
        what, alias, word = self._measure(used)
        span = self._rng.choice(("month", "month", "month", "year", "week"))
        time = f"c.{self._of.third.of_kind('date')[0].sql}"
        made = _SPANS[span].format(time)
        query = (
            f"SELECT {made} AS {span}, {what} AS {alias} {self._from(*used)} WHERE {test} "
            f"GROUP BY {span}"
        )
        return self._made("months", self._say(span, w=word, v=said), query)

    def ways(self) -> list[tuple[Callable[[], Ask], int]]:
        """Returns the kinds of requests with their weights."""
        return [
            *((self.per, 5), (self.per_of, 5), (self.count, 4), (self.best, 6)),
            *((self.who, 4), (self.none, 2), (self.span, 5)),
        ]
