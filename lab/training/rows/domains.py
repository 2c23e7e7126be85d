"""Reads the kinds of tables that worlds are made of from the data files."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Final, Literal, TypeVar

DATA: Final = Path(__file__).parent / "data"
T = TypeVar("T")
Part = Literal["train", "validation"]
NUMBERS: Final = frozenset({"int", "int0", "money", "float", "float0"})
CHOICES: Final = frozenset({"place", "status", "type", "flag", "name"})
_EVERY: Final = 8  # one domain in so many is kept for validation
_KEPT: Final = 5


@dataclass(frozen=True, slots=True)
class ColumnKind:
    """A column of a domain: its names and words in both languages, and what its values are."""

    en: str
    zh: str
    kind: str
    adds_up: bool
    may_miss: bool
    values: str
    words_en: tuple[str, ...]
    words_zh: tuple[str, ...]
    most_en: tuple[str, ...]
    most_zh: tuple[str, ...]

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """The values of a column of choices, in English and Chinese."""
        found = (each.strip().replace("~", "=").partition("=") for each in self.values.split(","))
        return [(en, zh or en) for en, _, zh in found]

    @property
    def translates(self) -> bool:
        """Whether the two values of a pair mean the same."""
        return self.kind in CHOICES and self.kind != "name" and "~" not in self.values

    @property
    def is_number(self) -> bool:
        return self.kind in NUMBERS


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition with words of its own, such as "out of stock"."""

    sql: str
    en: tuple[str, ...]
    zh: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Domain:
    """A kind of table."""

    key: str
    row: str
    rows: str
    rows_zh: str
    files_en: tuple[str, ...]
    files_zh: tuple[str, ...]
    columns: tuple[ColumnKind, ...]
    conditions: tuple[Condition, ...]


def _list(text: str) -> tuple[str, ...]:
    return tuple(each.strip() for each in text.split(",") if each.strip())


def _column(line: str) -> ColumnKind:
    names, kind, words, words_zh, *most = (each.strip() for each in line.split(" : "))
    en, _, zh = names.partition("/")
    word, _, values = kind.partition(" ")
    most_en, _, most_zh = (most[0] if most else "").partition(";")
    return ColumnKind(
        en=en,
        zh=zh,
        kind=word.rstrip("+?"),
        adds_up=word.endswith("+"),
        may_miss=word.endswith("?"),
        values=values,
        words_en=_list(words),
        words_zh=_list(words_zh.rstrip(" :")),
        most_en=tuple(filter(None, most_en.strip().split("/"))),
        most_zh=tuple(filter(None, most_zh.strip().split("/"))),
    )


def extra_column(
    names: str, kind: str, values: str, words_en: tuple[str, ...], words_zh: tuple[str, ...]
) -> ColumnKind:
    """Returns a column that any table may have; its values are not added up."""
    en, _, zh = names.partition("/")
    return ColumnKind(
        en=en,
        zh=zh,
        kind=kind,
        adds_up=False,
        may_miss=False,
        values=values,
        words_en=words_en,
        words_zh=words_zh,
        most_en=(),
        most_zh=(),
    )


def _domain(block: list[str]) -> Domain:
    key, rows, rows_zh, files, files_zh = (each.strip() for each in block[0][1:].split("|"))
    conditions = [line[1:].split(" : ") for line in block[1:] if line.startswith("?")]
    return Domain(
        key=key,
        row=_list(rows)[0],
        rows=_list(rows)[-1],
        rows_zh=rows_zh,
        files_en=_list(files),
        files_zh=_list(files_zh),
        columns=tuple(_column(line) for line in block[1:] if not line.startswith("?")),
        conditions=tuple(
            Condition(sql.strip(), _list(en), _list(zh)) for sql, en, zh in conditions
        ),
    )


@cache
def domains(name: str = "domains") -> tuple[Domain, ...]:
    """Returns all domains of a data file."""
    lines = (DATA / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    used = [line for line in lines if line.strip() and line[0] not in "#@"]
    starts = [place for place, line in enumerate(used) if line.startswith("=")]
    return tuple(_domain(used[a:b]) for a, b in pairwise([*starts, len(used)]))


def of_part(items: tuple[T, ...], part: Part) -> list[T]:
    """Returns the items of one part: what is validated on is never trained on."""
    kept = [place % _EVERY == _KEPT for place in range(len(items))]
    return [each for each, held in zip(items, kept, strict=True) if held == (part == "validation")]
