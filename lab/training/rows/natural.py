"""Requests as people really ask them, without the names of columns."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from lab.training.rows.domains import DATA
from lab.training.rows.grouping import GroupAsker
from lab.training.rows.queries import Ask, Unfit
from lab.training.rows.row import call
from lab.training.rows.tables import Column


@dataclass(frozen=True, slots=True)
class Wording:
    """What is asked of which columns, and the ways to say it."""

    what: str
    columns: tuple[str, ...]
    en: tuple[str, ...]
    zh: tuple[str, ...]


@cache
def _wordings() -> dict[str, tuple[Wording, ...]]:
    found: dict[str, list[Wording]] = {}
    here: list[Wording] = []
    for line in (DATA / "natural.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            here = found.setdefault(line.strip("[]"), [])
        elif line.strip() and not line.startswith("#"):
            head, en, zh = (each.strip() for each in line.split("|"))
            what, *columns = head.split()
            ways = (tuple(way.strip() for way in each.split(" / ")) for each in (en, zh))
            here.append(Wording(what, tuple(columns), *ways))
    return {key: tuple(values) for key, values in found.items()}


class NaturalAsker(GroupAsker):
    """Asks as people do."""

    def natural(self) -> Ask:
        """Returns a request in a wording of the table's domain."""
        known = {each.of.en: each for each in self.table.columns}
        fitting = [
            each
            for each in _wordings().get(self.table.domain.key, ())
            if set(each.columns) <= set(known)
        ]
        if not fitting:
            raise Unfit
        chosen = self.rng.choice(fitting)
        columns = [known[name] for name in chosen.columns]
        way = self.voice.either(chosen.en, chosen.zh)
        match chosen.what:
            case "sum" | "avg" | "count":
                return self._one_number(chosen.what, way, columns)
            case "top" | "low":
                lowest = True if chosen.what == "low" else None
                made = call(
                    "tables.top",
                    table=self.table.path,
                    column=columns[0].name,
                    count=1,
                    lowest=lowest,
                )
                return self.one("top", way, made)
            case "per" | "each":
                return self._groups(way, columns)
            case _:
                return self._best(chosen.what, way, columns)

    def _one_number(self, what: str, way: str, columns: list[Column]) -> Ask:
        conds = self.conds((0, 1, 1, 1, 2), columns)
        if what == "count" and not conds:
            raise Unfit
        text = self.voice.fill(way, where=self.where(conds))
        made = "COUNT(*) AS count"
        if what != "count":
            made = (
                f"SUM({columns[0].sql}) AS total"
                if what == "sum"
                else f"AVG({columns[0].sql}) AS average"
            )
        return self.one(f"sql {what}", text, self.sql(made, conds))

    def _groups(self, way: str, columns: list[Column]) -> Ask:
        path, by = self.table.path, columns[0].name
        if len(columns) == 1:
            return self.one("group", way, call("tables.group", table=path, by=by))
        made = call("tables.group", table=path, by=by, value=columns[1].name, how="sum")
        return self.one("group", way, made)

    def _best(self, what: str, way: str, columns: list[Column]) -> Ask:
        by = columns[0].sql
        value, alias = (
            ("COUNT(*)", "count") if what == "busy" else (f"SUM({columns[1].sql})", "total")
        )
        order = "" if what == "worst" else " DESC"
        rest = f"GROUP BY {by} ORDER BY {alias}{order} LIMIT 1"
        return self.one("sql best group", way, self.sql(f"{by}, {value} AS {alias}", rest=rest))
