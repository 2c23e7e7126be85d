"""Papers of everyday folders, written by hand in one language, with slots for their values.

A paper starts with `#en` or `#zh`, its group (a star: its questions name what they are about), its
names and its files. Its lines follow (`~` is an empty one); below some of them `?` questions and
answers (of its language, or of both), and `!` questions that it does not answer.
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Callable, Iterator
from datetime import date, timedelta
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

from lab.training.rows.answers_statements import person, span
from lab.training.rows.answers_words import CITIES, COMPANIES, STREETS, Language, Pair, pairs
from plansmith_planner.language.characters import HAN

_SLOT: Final = re.compile(r"\{([a-z]+)(\d*)(?::([^{}]*))?\}")
_GLUED: Final = re.compile(r"(\d{4}-\d\d-\d\d)(?=\d)")
_MONTHS: Final = tuple(calendar.month_name)[1:]
_WEEKDAYS: Final = pairs("""
Monday | 周一
Tuesday | 周二
Wednesday | 周三
Thursday | 周四
Friday | 周五
""")


class Asked(NamedTuple):
    """Ways to ask one thing, and its answer: none where the paper does not say it."""

    ask: Pair
    answer: Pair | None
    block: int


class Paper(NamedTuple):
    """A paper with slots: the blocks of its text, and what is asked about it."""

    language: Language
    group: str
    is_named: bool
    name: Pair
    files: tuple[str, ...]
    blocks: tuple[str, ...]
    asked: tuple[Asked, ...]


class Sheet(NamedTuple):
    """A paper with values."""

    paper: Paper
    path: str
    blocks: tuple[str, ...]
    asked: tuple[Asked, ...]

    @property
    def text(self) -> str:
        """The whole text."""
        return "\n".join(self.blocks)


def _head(row: str) -> Paper:
    language: Language = "zh" if row.startswith("#zh") else "en"
    group, english, chinese, files = (cell.strip() for cell in row[3:].split("|"))
    named = group.endswith("*")
    name = Pair(english, chinese)
    return Paper(language, group.rstrip("*"), named, name, tuple(files.split()), (), ())


def _asked(row: str, language: Language, block: int) -> Asked:
    cells = [cell.strip() for cell in row[1:].split("|")]
    answers = row.startswith("?")
    if len(cells) not in ((2, 4) if answers else (1, 2)):
        raise ValueError(f"A question needs its cells: {row}")
    half = len(cells) // 2 if answers else len(cells)
    both = [_pair(part, language) for part in (cells[:half], cells[half:]) if part]
    return Asked(both[0], both[1] if answers else None, block)


def _pair(cells: list[str], language: Language) -> Pair:
    if len(cells) == 2:
        return Pair(cells[0], cells[1])
    return Pair(cells[0], "") if language == "en" else Pair("", cells[0])


def _read(text: str) -> Iterator[Paper]:
    for part in re.split(r"^(?=#(?:en|zh) )", text, flags=re.MULTILINE)[1:]:
        head, *rows = part.strip("\n").splitlines()
        paper = _head(head)
        blocks: list[list[str]] = []
        asked: list[Asked] = []
        is_open = False
        for row in rows:
            if row[:2] in ("? ", "! "):
                asked.append(_asked(row, paper.language, len(blocks) - 1))
            elif is_open:
                blocks[-1].append("" if row == "~" else row)
            else:
                blocks.append(["" if row == "~" else row])
            is_open = row[:2] not in ("? ", "! ")
        joined = tuple("\n".join(each) for each in blocks)
        yield paper._replace(blocks=joined, asked=tuple(asked))


_ALL: Final = tuple(
    paper
    for file in sorted(Path(__file__).parent.glob("answers_papers*.txt"))
    for paper in _read(file.read_text(encoding="utf-8"))
)
_ASIDE: Final = 12  # one paper of so many is for validation
PAPERS: Final = tuple(each for at, each in enumerate(_ALL) if at % _ASIDE != _ASIDE // 2)
VALIDATION_PAPERS: Final = _ALL[_ASIDE // 2 :: _ASIDE]


def _same(text: str) -> Pair:
    return Pair(text, text)


def _bounds(given: str, least: int, most: int) -> tuple[int, int]:
    if not given:
        return least, most
    low, high = given.split("-")
    return int(low), int(high)


def _number(rng: Random, given: str) -> Pair:
    low, high = _bounds(given, 2, 60)
    value = rng.randint(low, high)
    if high >= 200:
        value = max(low, value - value % rng.choice((1, 5, 10)))
    return _same(str(value))


def _price(rng: Random, given: str) -> Pair:
    low, high = _bounds(given, 2, 40)
    return _same(f"{rng.randint(low, high - 1)}.{rng.choice(('50', '90', '20', '95', '80', '40'))}")


def _thousands(rng: Random, given: str) -> Pair:
    low, high = _bounds(given, 2, 90)
    return _same(f"{100 * rng.randint(low * 10, high * 10):,}")


def _amount(rng: Random, given: str) -> Pair:
    low, high = _bounds(given, 1000, 9000)
    value = 10 * rng.randint(low // 10, high // 10)
    return _same(f"{value:,}" if rng.random() < 0.6 else str(value))


def _ten_thousands(rng: Random, given: str) -> Pair:
    low, high = _bounds(given, 1, 90)
    whole, rest = rng.randint(low, high), rng.randrange(10) if high < 100 else 0
    return Pair(f"{whole * 10_000 + rest * 1000:,}", f"{whole}.{rest}万" if rest else f"{whole}万")


def _hour(rng: Random, given: str) -> Pair:
    low, high = _bounds(given, 7, 20)
    hour = rng.randint(low, high)
    part = "上午" if hour < 12 else "下午" if hour < 18 else "晚上"
    shown = hour if hour <= 12 else hour - 12
    return Pair(f"{shown} {'am' if hour < 12 else 'pm'}", f"{part}{shown}点")


def _time(rng: Random, given: str) -> Pair:
    low, high = _bounds(given, 7, 20)
    minutes = rng.choice(("00", "00", "30", "30", "15", "45"))
    return _same(f"{rng.randint(low, high)}:{minutes}")


def _option(rng: Random, given: str) -> Pair:
    own, _, other = rng.choice(given.split("/")).partition("=")
    if not other:
        return _same(own)
    return Pair(own, other) if HAN.search(other) else Pair(other, own)


def _code(rng: Random, _: str) -> Pair:
    letters = rng.choice(("A", "B", "KD", "R", "INV", "SN", "ZX", "C"))
    return _same(f"{letters}{rng.choice(('-', ''))}{rng.randrange(1000, 99999)}")


def _version(rng: Random, _: str) -> Pair:
    return _same(f"{rng.randrange(1, 9)}.{rng.randrange(30)}.{rng.randrange(10)}")


def _mail(rng: Random, _: str) -> Pair:
    house = rng.choice(("alder", "brook", "lumen", "yuanjing", "harbour"))
    return _same(f"{rng.choice(('info', 'office', 'help', 'team'))}@{house}.example")


def _percent(rng: Random, given: str) -> Pair:
    low, high = _bounds(given, 2, 95)
    return _same(f"{rng.randint(low, high)}%")


def _street(rng: Random, _: str) -> Pair:
    street = rng.choice(STREETS)
    house = rng.randrange(1, 150)
    return _same(f"{house} {street}" if street.isascii() else f"{street}{house}号")


_VALUES: Final[dict[str, Callable[[Random, str], Pair]]] = {
    "n": _number, "x": _price, "k": _thousands, "t": _time, "o": _option, "id": _code,
    "v": _version, "e": _mail, "pc": _percent, "st": _street, "m": _amount, "wan": _ten_thousands,
    "h": _hour,
    "s": lambda rng, _: span(rng),
    "w": lambda rng, _: rng.choice(_WEEKDAYS),
    "c": lambda rng, _: rng.choice(CITIES),
    "co": lambda rng, _: _same(rng.choice(COMPANIES)),
    "ph": lambda rng, _: _same(f"{rng.randrange(200, 999)}-{rng.randrange(1000, 9999)}"),
    "iso": lambda rng, _: _same(_some_day(rng).isoformat()),
}  # fmt: skip


def _some_day(rng: Random) -> date:
    return date(2024, 1, 1) + timedelta(days=rng.randrange(1000))


def _days(rng: Random, count: int) -> list[Pair]:
    """Returns days in their order, all written in one way."""
    at, form, with_year = _some_day(rng), rng.randrange(5), rng.random() < 0.7
    made: list[Pair] = []
    for _ in range(count):
        at += timedelta(days=rng.randrange(2, 45))
        year = f"{at.year}年" if with_year else ""
        month = _MONTHS[at.month - 1]
        english = f"{month} {at.day}" if form == 1 else f"{at.day} {month}"
        english += f"{',' if form == 1 else ''} {at.year}" if with_year else ""
        made.append(Pair(english, f"{year}{at.month}月{at.day}日"))
        if form == 0:
            made[-1] = _same(at.isoformat())
    return made


def _values(rng: Random, paper: Paper) -> dict[str, Pair]:
    """Gives each slot of a paper a value, another one to each of a sort where that can be."""
    whole = "\n".join((*paper.blocks, *paper.files, *(str(each) for each in paper.asked)))
    found: dict[str, tuple[str, str]] = {}
    for sort, place, given in _SLOT.findall(whole):
        known = found.get(sort + place)
        if known is None or (given and not known[1]):
            found[sort + place] = (sort, given)
    days = sorted((slot for slot, (sort, _) in found.items() if sort == "d"), key=_place)
    values = dict(zip(days, _days(rng, len(days)), strict=True))
    for slot, (sort, given) in found.items():
        for _ in range(0 if slot in values else 20):
            one = _same(person(rng, paper.language)) if sort == "p" else _VALUES[sort](rng, given)
            values[slot] = one
            if not any(
                each == one and found[key][0] == sort for key, each in values.items() if key != slot
            ):
                break
    return values


def _place(slot: str) -> int:
    return int(slot.lstrip("d") or 0)


def sheet(rng: Random, paper: Paper) -> Sheet:
    """Fills a paper with values."""
    values = _values(rng, paper)

    def put(text: str, language: Language) -> str:
        said = _SLOT.sub(lambda found: values[found[1] + found[2]].says(language), text)
        return _GLUED.sub(r"\1 ", said)

    def pair(text: Pair) -> Pair:
        return Pair(put(text.en, "en"), put(text.zh, "zh"))

    asked = tuple(
        each._replace(ask=pair(each.ask), answer=pair(each.answer) if each.answer else None)
        for each in paper.asked
    )
    blocks = tuple(put(each, paper.language) for each in paper.blocks)
    return Sheet(paper, put(rng.choice(paper.files), "en").replace(" ", "-"), blocks, asked)
