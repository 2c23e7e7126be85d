"""Requests that compare: differences, shares of groups, ratios, ranks, parts of texts."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from lab.training.rows.conditions import said_value
from lab.training.rows.periods import Cond
from lab.training.rows.queries import Ask, Unfit, some
from lab.training.rows.spans import SpanAsker
from lab.training.rows.tables import Column, literal

_NTH: Final = ((2, "third", "三"), (3, "fourth", "四"), (1, "second", "二"), (4, "fifth", "五"))
_SIGNS: Final = (
    (">", ("over", "more than", "above", "greater than"), ("超过", "大于", "高于", "多于")),
    ("<", ("under", "less than", "below"), ("低于", "不到", "少于", "小于")),
    (">=", ("at least", "no less than"), ("至少", "不低于", "不少于")),
)
_AGGREGATES: Final = {
    "SUM": ("total", ("total", "total", "summed", "combined"), ("总", "合计", "累计")),
    "AVG": ("average", ("average", "mean"), ("平均",)),
}


class ComparingAsker(SpanAsker):
    """Asks for what takes more than one value of a table."""

    def ways(self) -> list[tuple[Callable[[], Ask], int]]:
        """Returns the kinds of requests with their weights."""
        return [
            *((self.groups_over, 9), (self.nth, 3), (self.group_difference, 5)),
            *((self.count_difference, 4), (self.two_months, 4), (self.ratio, 3)),
            *((self.containing, 5), (self.duration, 4), (self.days_since, 2)),
            *((self.share_each, 4), (self.two_numbers, 4), (self.columns, 4), (self.zero, 2)),
            *((self.neither, 3), (self.count_and_sum, 3), (self.per_group_where, 3)),
        ]

    def groups_over(self) -> Ask:
        """Asks which groups have a total or an average over a limit: HAVING, not WHERE."""
        voice, table = self.voice, self.table
        by = self.rng.choice(some(table.groups))
        how = self.rng.choice(("SUM", "SUM", "AVG"))
        column = self.rng.choice(some(table.sums if how == "SUM" else table.numbers))
        alias, en, zh = _AGGREGATES[how]
        found = self._by_group(by, column, average=how == "AVG")
        middle = sorted(found)[len(found) // 2]
        step = 10 ** max(0, len(str(int(abs(middle)))) - 2)
        limit = int(middle // step * step)
        sign, over_en, over_zh = self.rng.choice(_SIGNS)
        over, word, name = voice.either(over_en, over_zh), self.word(column), self.word(by)
        word_how = voice.either(en, zh)
        text = voice.either(
            (
                f"Which {name} has a {word_how} {word} {over} {limit}?",
                f"Which {name} values have {word_how} {word} of {over} {limit}?",
                f"Show every {name} whose {word_how} {word} is {over} {limit}",
                f"List each {name} with {word_how} {word} {over} {limit}",
                f"{name} with a {word_how} {word} {over} {limit}",
                f"For which {name} is the {word_how} {word} {over} {limit}?",
                f"Only those {name} entries whose {word_how} {word} comes to {over} {limit}",
            ),
            (
                f"哪些{name}的{word_how}{word}{over}{limit}？",
                f"{word_how}{word}{over}{limit}的{name}有哪些？",
                f"列出{word_how}{word}{over}{limit}的{name}",
                f"哪个{name}{word_how}{word}{over}{limit}？",
                f"找出{word_how}{word}{over}{limit}的所有{name}",
                f"查一下哪些{name}{word_how}{word}{over}{limit}",
                f"{name}里{word_how}{word}{over}{limit}的是哪些",
            ),
        )
        rest = f"GROUP BY {by.sql} HAVING {alias} {sign} {limit}"
        made = self.sql(f"{by.sql}, {how}({column.sql}) AS {alias}", rest=rest)
        return self.one("sql having", text, made)

    def _by_group(self, by: Column, column: Column, *, average: bool) -> list[float]:
        places = [self.table.columns.index(each) for each in (by, column)]
        found: dict[str, list[float]] = {}
        for row in self.table.rows:
            if row[places[1]] is not None:
                found.setdefault(row[places[0]], []).append(row[places[1]])
        return [sum(each) / (len(each) if average else 1) for each in found.values()]

    def nth(self) -> Ask:
        column, down = self.rng.choice(some(self.table.numbers)), self.rng.random() < 0.7
        offset, en, zh = self.rng.choice(_NTH)
        conds = self.conds((0, 0, 1), [column])
        where, word, rows = self.where(conds), self.word(column), self.slots()["rows"]
        hilo = "highest" if down else "lowest"
        hilo_zh = ("高" if down else "低",)
        text = self.voice.either(
            (
                f"Which {self.slots()['row']} {where} has the {en} {hilo} {word}?",
                f"The {en} {hilo} {word} of the {rows} {where}",
                f"number {offset + 1} by {hilo} {word} among the {rows} {where}",
            ),
            (
                f"{where}{rows}中{word}第{zh}{hilo_zh[0]}的是哪个？",
                f"{word}排第{zh}{hilo_zh[0]}的{where}{rows}",
                f"{where}{rows}里{word}第{offset + 1}{hilo_zh[0]}的是谁",
            ),
        )
        rest = f"ORDER BY {column.sql}{' DESC' if down else ''} LIMIT 1 OFFSET {offset}"
        return self.one("sql extreme", self.voice.tidy(text), self.sql("*", conds, rest))

    def _two_values(self) -> tuple[Column, list[str], list[str]]:
        groups = [each for each in self.table.groups if len(self.table.listed(each)) >= 2]
        by = self.rng.choice(some(groups))
        values = self.rng.sample(self.table.listed(by), 2)
        return by, values, [said_value(self.table, by, each, self.voice) for each in values]

    def group_difference(self) -> Ask:
        by, values, (a, b) = self._two_values()
        column = self.rng.choice(some(self.table.sums))
        word = self.word(column)
        text = self.voice.either(
            (
                f"How much more {word} did {a} have than {b}?",
                f"What is the difference in {word} between {a} and {b}?",
                f"By how much does {a} beat {b} in total {word}?",
                f"difference between the total {word} of {a} and that of {b}",
                f"How far is {a} ahead of {b} in {word}?",
                f"Total {word} of {a} minus total {word} of {b}",
            ),
            (
                f"{a}的{word}比{b}多多少？",
                f"{a}和{b}的总{word}相差多少？",
                f"{a}比{b}的总{word}高出多少",
                f"{a}与{b}的{word}差额是多少？",
                f"算一下{a}的{word}合计减去{b}的{word}合计",
                f"{word}上{a}领先{b}多少？",
            ),
        )
        parts = [
            f"SUM(CASE WHEN {by.sql} = {literal(each)} THEN {column.sql} ELSE 0 END)"
            for each in values
        ]
        return self.one("sql difference", text, self.sql(f"{parts[0]} - {parts[1]} AS difference"))

    def count_difference(self) -> Ask:
        by, values, (a, b) = self._two_values()
        rows, name = self.slots()["rows"], self.word(by)
        text = self.voice.either(
            (
                f"How many more {rows} have {name} {a} than {b}?",
                f"How many more {a} {rows} than {b} {rows} are there?",
                f"difference in the number of {rows} between {a} and {b}",
            ),
            (
                f"{name}为{a}的{rows}比{b}的多几个？",
                f"{a}的{rows}比{b}的多多少条？",
                f"{a}和{b}的{rows}数量差多少",
            ),
        )
        tests = [f"SUM({by.sql} = {literal(each)})" for each in values]
        return self.one("sql difference", text, self.sql(f"{tests[0]} - {tests[1]} AS difference"))

    def ratio(self) -> Ask:
        sums = self.table.sums
        if len(sums) < 2:
            raise Unfit
        a, b = self.rng.sample(sums, 2)
        x, y = self.word(a), self.word(b)
        if self.rng.random() < 0.5:
            text = self.voice.either(
                (f"Overall {x} per {y}", f"What is the ratio of total {x} to total {y}?"),
                (f"总{x}与总{y}之比是多少？", f"平均每单位{y}对应多少{x}（总计）？"),
            )
            made = self.sql(f"SUM({a.sql}) * 1.0 / SUM({b.sql}) AS ratio")
            return self.one("sql ratio", text, made)
        by = self.rng.choice(some(self.table.groups))
        name = self.word(by)
        text = self.voice.either(
            (f"Ratio of {x} to {y} for each {name}", f"{x} per {y} by {name}"),
            (f"每个{name}的{x}与{y}之比", f"按{name}计算{x}除以{y}"),
        )
        what = f"{by.sql}, SUM({a.sql}) * 1.0 / SUM({b.sql}) AS ratio"
        return self.one("sql ratio", text, self.sql(what, rest=f"GROUP BY {by.sql}"))

    def containing(self) -> Ask:
        """Asks for rows whose text holds a word."""
        texts = [c for c in self.table.of_kind("name", "text") if not self.table.listed(c)]
        column = self.rng.choice(some(texts or self.table.of_kind("name")))
        value = str(self.rng.choice(self.table.values(column)))
        words = [each for each in re.findall(r"\w+", value) if len(each) > 2] or [value[:2]]
        word = self.voice.exact(self.rng.choice(words) if value.isascii() else value[:2])
        rows, name = self.slots()["rows"], self.word(column)
        counted = self.rng.random() < 0.3
        en = (
            f"Which {rows} have {word} in the {name}?",
            f'{rows} whose {name} contains "{word}"',
            f"Find {rows} with {word} in their {name}",
        )
        zh = (
            f"{name}里含有{word}的{rows}有哪些？",
            f"查找{name}包含“{word}”的{rows}",
            f"{name}带{word}字样的{rows}",
        )
        if counted:
            en = (f"How many {rows} have {word} in the {name}?",) * 3
            zh = (f"有多少{rows}的{name}含有{word}？",) * 3
        test = Cond(f"{column.sql} LIKE {literal(f'%{word}%')}", "", column.name)
        made = self.sql("COUNT(*) AS count" if counted else "*", [test])
        return self.one("sql containing", self.voice.either(en, zh), made)

    def share_each(self) -> Ask:
        by = self.rng.choice(some(self.table.groups))
        name, rows = self.word(by), self.slots()["rows"]
        if self.table.sums and self.rng.random() < 0.6:
            column = self.rng.choice(self.table.sums)
            word, source = self.word(column), self.table.source
            text = self.voice.either(
                (
                    f"What percentage of the {word} does each {name} have?",
                    f"share of total {word} by {name} in percent",
                    f"How is the {word} split over the {name} values, in %?",
                ),
                (
                    f"每个{name}占总{word}的百分比",
                    f"各{name}的{word}占比是多少？",
                    f"按{name}算{word}的占比",
                ),
            )
            part = f"SUM({column.sql}) / (SELECT SUM({column.sql}) FROM {source})"
        else:
            text = self.voice.either(
                (f"What percentage of the {rows} falls to each {name}?", f"{rows} by {name} in %"),
                (f"各{name}的{rows}占百分之多少？", f"每个{name}的{rows}数量占比"),
            )
            part = f"COUNT(*) / (SELECT COUNT(*) FROM {self.table.source})"
        made = f"{by.sql}, ROUND(100.0 * {part}, 1) AS percent"
        return self.one("sql share", text, self.sql(made, rest=f"GROUP BY {by.sql}"))

    def two_numbers(self) -> Ask:
        column = self.rng.choice(some(self.table.sums))
        conds = self.conds((0, 1, 1), [column])
        where, word = self.where(conds), self.word(column)
        text = self.voice.either(
            (
                f"Total and average {word} {where}",
                f"What are the sum and the mean of {word} {where}?",
            ),
            (f"{where}{word}的总和与平均值", f"{where}总{word}和平均{word}分别是多少？"),
        )
        made = f"SUM({column.sql}) AS total, AVG({column.sql}) AS average"
        return self.one("sql stats", self.voice.tidy(text), self.sql(made, conds))

    def count_and_sum(self) -> Ask:
        column = self.rng.choice(some(self.table.sums))
        conds = self.conds((0, 1, 1), [column])
        where, word, rows = self.where(conds), self.word(column), self.slots()["rows"]
        text = self.voice.either(
            (
                f"How many {rows} {where} are there and what is their total {word}?",
                f"Number of {rows} {where} and the sum of their {word}",
            ),
            (f"{where}{rows}有多少，{word}一共多少？", f"{where}{rows}的数量和总{word}"),
        )
        made = f"COUNT(*) AS count, SUM({column.sql}) AS total"
        return self.one("sql stats", self.voice.tidy(text), self.sql(made, conds))

    def columns(self) -> Ask:
        """Asks for two or three columns, all rows or some of them."""
        table = self.table
        chosen = self.rng.sample(table.columns, min(len(table.columns), self.rng.choice((2, 3))))
        chosen.sort(key=table.columns.index)
        conds = self.conds((0, 1, 1), chosen)
        words = [self.word(each) for each in chosen]
        rows, where = self.slots()["rows"], self.where(conds)
        en = ", ".join(words[:-1]) + f" and {words[-1]}"
        zh = "、".join(words[:-1]) + f"和{words[-1]}"
        text = self.voice.either(
            (f"Show only {en} of the {rows} {where}", f"List {en} for all {rows} {where}"),
            (f"只显示{where}{rows}的{zh}", f"列出{where}{rows}的{zh}"),
        )
        made = self.sql(", ".join(each.sql for each in chosen), conds)
        return self.one("sql list", self.voice.tidy(text), made)

    def zero(self) -> Ask:
        column = self.rng.choice(some(self.table.of_kind("int0", "float0")))
        word, rows = self.word(column), self.slots()["rows"]
        counted = self.rng.random() < 0.5
        text = self.voice.either(
            (f"How many {rows} have no {word} at all?",)
            if counted
            else (f"{rows} with zero {word}",),
            (f"有多少{rows}的{word}为零？",) if counted else (f"列出{word}为0的{rows}",),
        )
        test = Cond(f"{column.sql} = 0", "", column.name)
        made = self.sql("COUNT(*) AS count" if counted else "*", [test])
        return self.one("sql zero", text, made)

    def neither(self) -> Ask:
        groups = [each for each in self.table.groups if len(self.table.listed(each)) >= 3]
        by = self.rng.choice(some(groups))
        values = self.rng.sample(self.table.listed(by), 2)
        a, b = (said_value(self.table, by, each, self.voice) for each in values)
        rows, name = self.slots()["rows"], self.word(by)
        counted = self.rng.random() < 0.5
        first = "How many" if counted else "Which"
        text = self.voice.either(
            (
                f"{first} {rows} have a {name} other than {a} and {b}?",
                f"{'Count' if counted else 'List'} the {rows} with {name} neither {a} nor {b}",
            ),
            (
                f"{name}既不是{a}也不是{b}的{rows}{'有多少' if counted else '有哪些'}？",
                f"除了{a}和{b}，其他{name}的{rows}{'有几个' if counted else '列出来'}",
            ),
        )
        test = Cond(f"{by.sql} NOT IN ({literal(values[0])}, {literal(values[1])})", "", by.name)
        made = self.sql("COUNT(*) AS count" if counted else "*", [test])
        return self.one("sql neither", text, made)

    def per_group_where(self) -> Ask:
        """Asks for the count and the average of each group."""
        by, column = (
            self.rng.choice(some(self.table.groups)),
            self.rng.choice(some(self.table.numbers)),
        )
        name, word, rows = self.word(by), self.word(column), self.slots()["rows"]
        text = self.voice.either(
            (
                f"For each {name}: number of {rows} and average {word}",
                f"How many {rows} and what average {word} per {name}?",
            ),
            (f"每个{name}的{rows}数量和平均{word}", f"按{name}统计{rows}个数与平均{word}"),
        )
        made = f"{by.sql}, COUNT(*) AS count, AVG({column.sql}) AS average"
        return self.one("sql group", text, self.sql(made, rest=f"GROUP BY {by.sql}"))
