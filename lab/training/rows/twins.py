"""Requests in folders with several files of one kind, told apart by a year, a place or a number."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Final

from lab.training.rows.domains import domains, of_part
from lab.training.rows.naming import cities
from lab.training.rows.natural import NaturalAsker
from lab.training.rows.queries import Ask, Unfit, some
from lab.training.rows.row import Lang, call
from lab.training.rows.tables import Table, make_table
from lab.training.rows.texts import texts
from lab.training.rows.voice import Voice
from lab.training.rows.world import World, WorldMaker

BOOK: Final = "twin_phrases"
_MONTHS_EN: Final = ("january", "february", "march", "april", "june", "july", "october", "december")
_ENDINGS: Final = ("csv", "csv", "csv", "json", "tsv")


@dataclass(frozen=True, slots=True)
class Twin:
    """One of the files, with the mark in its name and what requests call it."""

    table: Table
    said: tuple[str, ...]


Marks = list[tuple[str, tuple[str, ...]]]


def _marks(rng: Random, lang: Lang, said: Lang) -> Marks:
    """Returns marks of files, each with the ways in which a request says it."""
    start, zh = rng.randrange(2018, 2026), said == "zh"
    match rng.choice(("year", "year", "month", "quarter", "place", "number", "version")):
        case "year":
            years = range(start, start + rng.randint(2, 4))
            return [(str(each), (f"{each}年" if zh else str(each),)) for each in years]
        case "month" if lang == said == "en":
            return [(each, (each.capitalize(),)) for each in rng.sample(_MONTHS_EN, 3)]
        case "month":
            months = [(f"{start}-{each:02}", each) for each in sorted(rng.sample(range(1, 13), 3))]
            return [(mark, (f"{start}年{each}月" if zh else mark,)) for mark, each in months]
        case "quarter":
            return [_quarter(start, each, zh=zh) for each in rng.sample((1, 2, 3, 4), 3)]
        case "place":
            return [(each, (each,)) for each in cities(rng, lang, rng.randint(2, 4))]
        case "number":
            numbers = [f"{each:02}" for each in rng.sample(range(1, 30), 3)]
            return [(each, (each, f"{each}号" if zh else f"no. {each}")) for each in numbers]
        case _:
            old, new = ("旧", "新") if lang == "zh" else ("old", "new")
            words = (("旧版", "旧的"), ("新版", "新的")) if zh else (("old",), ("new",))
            return [(old, words[0]), (new, words[1])]


def _quarter(year: int, number: int, *, zh: bool) -> tuple[str, tuple[str, ...]]:
    mark = f"{year}Q{number}"
    said = f"{year}年第{'一二三四'[number - 1]}季度" if zh else f"Q{number} {year}"
    return mark, (said, mark)


class TwinAsker:
    """Asks about one of several alike files, or about two of them together."""

    def __init__(self, world: World, worlds: WorldMaker, voice: Voice) -> None:
        self._world, self._voice, self._rng = world, voice, voice.rng
        rng = voice.rng
        lang: Lang = "en" if rng.random() < 0.5 else "zh"
        domain = rng.choice(of_part(domains(), voice.part))
        first = make_table(rng, domain, lang, world.now)
        base = first.path
        marks = _marks(rng, lang, voice.lang)
        mark_at = rng.choice(("{b}_{m}", "{b}-{m}", "{m}_{b}", "{b} {m}", "{m}/{b}", "{b}{m}"))
        ending = rng.choice(_ENDINGS)
        if base[-1:].isdigit() or re.search(r"\d", base):
            base = domain.files_en[0] if lang == "en" else domain.files_zh[0]
        self.twins: list[Twin] = []
        for mark, said in marks:
            path = mark_at.format(b=base.rpartition("/")[2], m=mark)
            table = replace(first, path=f"{path}.{ending}", rows=self._rows(first))
            self.twins.append(Twin(table, said))
        if len({each.table.path for each in self.twins}) < len(self.twins):
            raise Unfit
        worlds.add_as_named(world, [each.table for each in self.twins])

    def _rows(self, first: Table) -> list[list[Any]]:
        """Returns rows like those of the first file, in another order and number."""
        rows = [list(each) for each in first.rows]
        self._rng.shuffle(rows)
        return rows[: max(4, len(rows) - self._rng.randrange(0, 5))]

    def _asker(self, twin: Twin) -> NaturalAsker:
        return NaturalAsker(twin.table, self._voice, self._world.now)

    def one(self, ways: Callable[[NaturalAsker], Sequence[tuple[Callable[[], Ask], int]]]) -> Ask:
        """Asks about one file: only the mark tells which one."""
        twin = self._rng.choice(self.twins)
        known = ways(self._asker(twin))
        maker = self._rng.choices([each for each, _ in known], [weight for _, weight in known])[0]
        ask = maker()
        if ask.names_file or twin.table.path.rpartition(".")[0] in ask.text:
            return replace(ask, names_file=True)
        said = self._rng.choice(twin.said)
        self._voice.kept.append(said)
        bare = ask.text.rstrip("?？.。")
        way = self._voice.pick(texts(BOOK)["mark", self._voice.lang])
        if not self._voice.is_zh and not way.startswith("{}"):
            bare = bare[:1].lower() + bare[1:]
        if way.startswith("{} Use"):
            bare += "."
        text = way.replace("{}", bare).replace("{m}", said)
        return Ask("twin " + ask.kind, text, ask.calls, names_file=True)

    def _two(self) -> tuple[Twin, Twin, str, str]:
        first, second = self._rng.sample(self.twins, 2)
        m, n = (self._rng.choice(each.said) for each in (first, second))
        self._voice.kept += [m, n]
        return first, second, m, n

    def together(self) -> Ask:
        """Asks for the rows or the total of two files together."""
        first, second, m, n = self._two()
        asker = self._asker(first)
        counted = self._rng.random() < 0.4
        if counted:
            text = self._voice.say(BOOK, "all", m=m, n=n, rows=asker.slots()["rows"])
            parts = [f"(SELECT COUNT(*) FROM {each.table.source})" for each in (first, second)]
            query = f"SELECT {parts[0]} + {parts[1]} AS count"
        else:
            column = self._rng.choice(some(first.table.sums))
            text = self._voice.say(BOOK, "sum", m=m, n=n, w=asker.word(column))
            parts = [
                f"(SELECT SUM({column.sql}) FROM {each.table.source})" for each in (first, second)
            ]
            query = f"SELECT {parts[0]} + {parts[1]} AS total"
        return Ask("twin sum", text, (call("tables.sql", query=query),), names_file=True)

    def rise(self) -> Ask:
        """Asks by how much a total differs between two files."""
        first, second, m, n = self._two()
        column = self._rng.choice(some(first.table.sums))
        text = self._voice.say(BOOK, "rise", m=m, n=n, w=self._asker(first).word(column))
        parts = [f"(SELECT SUM({column.sql}) FROM {each.table.source})" for each in (second, first)]
        query = f"SELECT {parts[0]} - {parts[1]} AS difference"
        return Ask("twin difference", text, (call("tables.sql", query=query),), names_file=True)

    def compare(self) -> Ask:
        first, second, m, n = self._two()
        text = self._voice.say(BOOK, "compare", m=m, n=n)
        made = call("files.compare", first=first.table.path, second=second.table.path)
        return Ask("twin compare", text, (made,), names_file=True)
