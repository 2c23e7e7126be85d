"""Requests over two tables that belong together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from random import Random
from typing import Final

from lab.training.rows.conditions import said_value, some_cond, value_sql
from lab.training.rows.domains import Part, domains, of_part
from lab.training.rows.queries import Ask, Unfit, some
from lab.training.rows.row import Lang, call
from lab.training.rows.tables import Column, Table, identifier, make_table
from lab.training.rows.voice import Voice

_BY_NAME: Final = 0.45  # the share of pairs whose rows refer by a name instead of a number


def joined_pair(rng: Random, part: Part, lang: Lang, now: datetime) -> tuple[Table, Table]:
    """Makes a table and one whose rows refer to its rows."""
    blocks = domains("joins")
    pairs = tuple(zip(blocks[::2], blocks[1::2], strict=True))
    while True:
        parent, child = (
            make_table(rng, each, lang, now) for each in rng.choice(of_part(pairs, part))
        )
        if parent.label is not None and _has_key(parent) and child.of_kind("ref"):
            break
    parent.rows = parent.rows[:20]
    key = parent.columns.index(next(c for c in parent.columns if c.of.kind == "id"))
    place = child.columns.index(child.of_kind("ref")[0])
    known = [row[key] for row in parent.rows][: max(2, len(parent.rows) - 2)]
    for row in child.rows:
        row[place] = rng.choice(known)
    if rng.random() < _BY_NAME:
        _refer_by_name(rng, parent, child, lang)
    child.value_lang = (
        parent.value_lang if child.value_lang != parent.value_lang else child.value_lang
    )
    return parent, child


def _refer_by_name(rng: Random, parent: Table, child: Table, lang: Lang) -> None:
    """Lets rows refer by the name of a row, in a column that may be called like it or not."""
    label = next((c for c in parent.columns if c.of.kind in ("person", "name", "code")), None)
    if label is None:
        return
    place = parent.columns.index(label)
    parent.rows = list({row[place]: row for row in parent.rows if row[place]}.values())
    names = [row[place] for row in parent.rows]
    ref = child.of_kind("ref")[0]
    at = child.columns.index(ref)
    known = names[: max(2, len(names) - 2)]
    for row in child.rows:
        row[at] = rng.choice(known)
    words = label.of.words_en if lang == "en" else label.of.words_zh
    row_word = parent.domain.row if lang == "en" else parent.domain.rows_zh
    name = rng.choice((label.name, label.name, row_word.replace(" ", "_"), words[-1]))
    others = {each.name.casefold() for each in child.columns if each is not ref}
    if name.casefold() not in others:
        child.columns[at] = replace(ref, name=name)
    if rng.random() < 0.6:
        key = parent.columns.index(next(c for c in parent.columns if c.of.kind == "id"))
        parent.columns.pop(key)
        for row in parent.rows:
            row.pop(key)


def _key_of(parent: Table, child: Table) -> Column:
    """Returns the column of a table that the rows of another one refer to."""
    values = set(child.values(child.of_kind("ref")[0]))
    return next(each for each in parent.columns if values <= set(parent.values(each)))


def _has_key(table: Table) -> bool:
    return any(each.of.kind == "id" for each in table.columns)


class JoinAsker:
    """Asks about a table by what another one says."""

    def __init__(self, parent: Table, child: Table, voice: Voice, now: datetime) -> None:
        self._now = now
        self._parent, self._child, self._voice = parent, child, voice
        self._rng = voice.rng
        self._key = _key_of(parent, child)
        self._ref = child.of_kind("ref")[0]
        named = [each for each in parent.columns if each.of.kind in ("person", "name", "code")]
        self._label = named[0] if named else self._key

    def ask(self) -> Ask:
        """Returns a request of some kind."""
        ways: list[Callable[[], Ask]] = [
            *(
                self._sum_per,
                self._count_per,
                self._best,
                self._most_rows,
                self._of_one,
                self._none,
            ),
            *(self._per_group, self._of_group, self._having, self._show),
            *(self._with_zero, self._top, self._average, self._best_where, self._best_where),
            *(self._count_of_group, self._over, self._over),
        ]
        by_parent: list[Callable[[], Ask]] = [
            *(self._per_group, self._of_group, self._of_group, self._count_of_group, self._none),
            *(self._best_group, self._average_group, self._list_of_group, self._worth),
            *(self._count_per_group, self._with_zero, self._worth_per),
        ]
        # Where rows refer by name, only what the other table alone says needs both.
        if self._key is self._label:
            return self._rng.choice(by_parent)()
        return self._rng.choice([*ways, *by_parent[-7:]])()

    def _word(self, column: Column) -> str:
        return self._rng.choice(column.words(self._voice.lang))

    def _say(self, kind: str, /, **slots: str) -> str:
        zh = self._voice.is_zh
        parent, child = self._parent.domain, self._child.domain
        base = {
            "label": self._word(self._label),
            "rows": child.rows_zh if zh else child.rows,
            "prows": parent.rows_zh if zh else parent.rows,
            "prow": parent.rows_zh if zh else parent.row,
        }
        return self._voice.say("join_phrases", kind, **(base | slots))

    def _query(self, what: str, rest: str = "") -> str:
        both = f"{self._child.source} a JOIN {self._parent.source} b"
        tail = f" {rest}" if rest else ""
        return f"SELECT {what} FROM {both} ON a.{self._ref.sql} = b.{self._key.sql}{tail}"

    def _made(self, kind: str, text: str, query: str) -> Ask:
        return Ask(f"join {kind}", text, (call("tables.sql", query=query),))

    def _sum(self) -> Column:
        return self._rng.choice(some(self._child.sums))

    def _sum_per(self) -> Ask:
        column, label = self._sum(), self._label.sql
        what = f"b.{label}, SUM(a.{column.sql}) AS total"
        return self._made(
            "sum",
            self._say("sumper", w=self._word(column)),
            self._query(what, f"GROUP BY b.{label}"),
        )

    def _count_per(self) -> Ask:
        label = self._label.sql
        query = self._query(f"b.{label}, COUNT(*) AS count", f"GROUP BY b.{label}")
        return self._made("count", self._say("countper"), query)

    def _best(self) -> Ask:
        column, label = self._sum(), self._label.sql
        rest = f"GROUP BY b.{label} ORDER BY total DESC LIMIT 1"
        query = self._query(f"b.{label}, SUM(a.{column.sql}) AS total", rest)
        return self._made("best", self._say("best", w=self._word(column)), query)

    def _most_rows(self) -> Ask:
        label = self._label.sql
        rest = f"GROUP BY b.{label} ORDER BY count DESC LIMIT 1"
        return self._made(
            "best", self._say("mostrows"), self._query(f"b.{label}, COUNT(*) AS count", rest)
        )

    def _of_one(self) -> Ask:
        place, key = self._parent.columns.index(self._label), self._parent.columns.index(self._key)
        used = {row[self._child.columns.index(self._ref)] for row in self._child.rows}
        values = [row[place] for row in self._parent.rows if row[key] in used]
        if not values or not isinstance(values[0], str):
            raise Unfit
        value = self._rng.choice(values)
        said = said_value(self._parent, self._label, value, self._voice)
        test = f"WHERE b.{value_sql(self._parent, self._label, value, said)}"
        if self._rng.random() < 0.5:
            return self._made("list", self._say("listof", v=said), self._query("a.*", test))
        column = self._sum()
        text = self._say("sumof", v=said, w=self._word(column))
        return self._made("sum", text, self._query(f"SUM(a.{column.sql}) AS total", test))

    def _none(self) -> Ask:
        inner = f"(SELECT {self._ref.sql} FROM {self._child.source})"
        query = f"SELECT * FROM {self._parent.source} WHERE {self._key.sql} NOT IN {inner}"
        return self._made("none", self._say("none"), query)

    def _group(self) -> Column:
        own = set(self._parent.domain.columns)
        groups = [c for c in self._parent.columns if c.of.kind in ("place", "type") and c.of in own]
        return self._rng.choice(some(groups))

    def _per_group(self) -> Ask:
        column, group = self._sum(), self._group()
        text = self._say("pergroup", w=self._word(column), g=self._word(group))
        what = f"b.{group.sql}, SUM(a.{column.sql}) AS total"
        return self._made("group", text, self._query(what, f"GROUP BY b.{group.sql}"))

    def _of_group(self) -> Ask:
        column, group = self._sum(), self._group()
        value = self._rng.choice(self._parent.values(group))
        said = said_value(self._parent, group, value, self._voice)
        text = self._say("ofgroup", w=self._word(column), g=self._word(group), u=said)
        test = f"WHERE b.{value_sql(self._parent, group, value, said)}"
        return self._made("sum", text, self._query(f"SUM(a.{column.sql}) AS total", test))

    def _having(self) -> Ask:
        count, label = self._rng.randint(1, 3), self._label.sql
        rest = f"GROUP BY b.{label} HAVING COUNT(*) > {count}"
        text = self._say("having", n=self._voice.number(count))
        return self._made("having", text, self._query(f"b.{label}, COUNT(*) AS count", rest))

    def _with_zero(self) -> Ask:
        """Counts for every row of the first table, also where nothing refers to it."""
        label, left = self._label.sql, f"{self._parent.source} b LEFT JOIN {self._child.source} a"
        on = f"ON a.{self._ref.sql} = b.{self._key.sql} GROUP BY b.{self._key.sql}"
        query = f"SELECT b.{label}, COUNT(a.{self._ref.sql}) AS count FROM {left} {on}"
        return self._made("count", self._say("withzero"), query)

    def _top(self) -> Ask:
        column, label, count = self._sum(), self._label.sql, self._rng.randint(2, 6)
        text = self._say("topn", w=self._word(column), n=self._voice.number(count))
        rest = f"GROUP BY b.{label} ORDER BY total DESC LIMIT {count}"
        return self._made(
            "top", text, self._query(f"b.{label}, SUM(a.{column.sql}) AS total", rest)
        )

    def _average(self) -> Ask:
        column, label = self._sum(), self._label.sql
        what = f"b.{label}, AVG(a.{column.sql}) AS average"
        text = self._say("avgper", w=self._word(column))
        return self._made("average", text, self._query(what, f"GROUP BY b.{label}"))

    def _best_where(self) -> Ask:
        """Asks who has most under a condition on the rows that refer."""
        column, label = self._sum(), self._label.sql
        cond = some_cond(self._child, self._voice, self._now, {column.name, self._ref.name})
        if cond is None or not cond.column:
            raise Unfit
        test = cond.sql.replace(identifier(cond.column), f"a.{identifier(cond.column)}")
        text = self._say("bestwhere", w=self._word(column), where=cond.said)
        rest = f"WHERE {test} GROUP BY b.{label} ORDER BY total DESC LIMIT 1"
        return self._made(
            "best", text, self._query(f"b.{label}, SUM(a.{column.sql}) AS total", rest)
        )

    def _count_of_group(self) -> Ask:
        group = self._group()
        value = self._rng.choice(self._parent.values(group))
        said = said_value(self._parent, group, value, self._voice)
        text = self._say("countgroup", g=self._word(group), u=said)
        test = f"WHERE b.{value_sql(self._parent, group, value, said)}"
        return self._made("count", text, self._query("COUNT(*) AS count", test))

    def _over(self) -> Ask:
        """Asks which have a total over a limit."""
        column, label = self._sum(), self._label.sql
        total = sum(self._child.values(column)) / max(1, len(self._parent.rows))
        step = 10 ** max(0, len(str(int(total))) - 2)
        limit = int(total // step * step)
        text = self._say("over", w=self._word(column), n=str(limit))
        rest = f"GROUP BY b.{label} HAVING total > {limit}"
        return self._made(
            "having", text, self._query(f"b.{label}, SUM(a.{column.sql}) AS total", rest)
        )

    def _show(self) -> Ask:
        return self._made("show", self._say("show"), self._query(f"a.*, b.{self._label.sql}"))

    def _best_group(self) -> Ask:
        column, group = self._sum(), self._group()
        text = self._say("bestgroup", w=self._word(column), g=self._word(group))
        rest = f"GROUP BY b.{group.sql} ORDER BY total DESC LIMIT 1"
        what = f"b.{group.sql}, SUM(a.{column.sql}) AS total"
        return self._made("best", text, self._query(what, rest))

    def _average_group(self) -> Ask:
        column, group = self._sum(), self._group()
        text = self._say("avggroup", w=self._word(column), g=self._word(group))
        what = f"b.{group.sql}, AVG(a.{column.sql}) AS average"
        return self._made("average", text, self._query(what, f"GROUP BY b.{group.sql}"))

    def _count_per_group(self) -> Ask:
        group = self._group()
        what = f"b.{group.sql}, COUNT(*) AS count"
        text = self._say("countpergroup", g=self._word(group))
        return self._made("count", text, self._query(what, f"GROUP BY b.{group.sql}"))

    def _list_of_group(self) -> Ask:
        group = self._group()
        value = self._rng.choice(self._parent.values(group))
        said = said_value(self._parent, group, value, self._voice)
        text = self._say("listgroup", g=self._word(group), u=said)
        test = f"WHERE b.{value_sql(self._parent, group, value, said)}"
        return self._made("list", text, self._query("a.*", test))

    def _times(self) -> tuple[Column, Column]:
        """Returns a number of pieces and the price of one, in two tables."""
        counts = [each for each in self._child.sums if each.of.kind == "int"]
        prices = [each for each in self._parent.columns if each.of.kind == "money"]
        return self._rng.choice(some(counts)), self._rng.choice(some(prices))

    def _worth(self) -> Ask:
        count, price = self._times()
        text = self._say("worth", w=self._word(count), p=self._word(price))
        return self._made(
            "worth", text, self._query(f"SUM(a.{count.sql} * b.{price.sql}) AS total")
        )

    def _worth_per(self) -> Ask:
        count, price = self._times()
        text = self._say("worthper", w=self._word(count), p=self._word(price))
        what = f"b.{self._label.sql}, SUM(a.{count.sql} * b.{price.sql}) AS total"
        return self._made("worth", text, self._query(what, f"GROUP BY b.{self._label.sql}"))
