"""Documents as people write them, asked about in other words: scenes with slots for values."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import date, timedelta
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

from lab.training.rows.answers_statements import (
    Question,
    Statement,
    clock,
    day,
    money,
    number,
    person,
    span,
)
from lab.training.rows.answers_words import CITIES, COMPANIES, Language, Pair

_SLOT: Final = re.compile(r"\{([a-z]+)(\d*)\}")


class Line(NamedTuple):
    """A line of a scene, and what can be asked about it: questions and answer, with slots."""

    say: Pair
    questions: tuple[tuple[Pair, Pair], ...]


class Scene(NamedTuple):
    """A document with slots: its kind, the names of its file, its lines."""

    name: Pair
    files: tuple[str, ...]
    lines: tuple[Line, ...]


def _read(text: str) -> tuple[Scene, ...]:
    scenes: list[Scene] = []
    for row in text.splitlines():
        mark, cells = row[:1], [cell.strip() for cell in row[1:].split("|")]
        if mark == "#":
            scenes.append(Scene(Pair(cells[0], cells[1]), tuple(cells[2].split()), ()))
        elif mark == "-":
            line = Line(Pair(cells[0], cells[1]), ())
            scenes[-1] = scenes[-1]._replace(lines=(*scenes[-1].lines, line))
        elif mark == "?":
            *rest, last = scenes[-1].lines
            asked = (Pair(cells[0], cells[1]), Pair(cells[2], cells[3]))
            last = last._replace(questions=(*last.questions, asked))
            scenes[-1] = scenes[-1]._replace(lines=(*rest, last))
    return tuple(scenes)


SCENES: Final = _read(Path(__file__).with_name("answers_scenes.txt").read_text(encoding="utf-8"))


def _percent(rng: Random) -> Pair:
    rate = f"{rng.randrange(2, 95)}%"
    return Pair(rate, rate)


def _phone(rng: Random) -> Pair:
    digits = f"{rng.randrange(200, 999)}-{rng.randrange(1000, 9999)}"
    return Pair(digits, digits)


def _code(rng: Random) -> Pair:
    code = f"{rng.choice('ABCDKRX')}{rng.choice(('-', ''))}{rng.randrange(1000, 99999)}"
    return Pair(code, code)


def _version(rng: Random) -> Pair:
    text = f"{rng.randrange(1, 9)}.{rng.randrange(30)}.{rng.randrange(10)}"
    return Pair(text, text)


def _mail(rng: Random) -> Pair:
    text = f"{rng.choice(('bugs', 'help', 'team'))}{rng.randrange(9)}@nimbus.example"
    return Pair(text, text)


def _company(rng: Random) -> Pair:
    name = rng.choice(COMPANIES)
    return Pair(name, name)


def _city(rng: Random) -> Pair:
    return rng.choice(CITIES)


def _iso(rng: Random) -> Pair:
    text = (date(2024, 1, 1) + timedelta(days=rng.randrange(1000))).isoformat()
    return Pair(text, text)


_VALUES: Final[dict[str, Callable[[Random], Pair]]] = {
    "d": day, "m": money, "n": number, "t": clock, "s": span, "pc": _percent, "ph": _phone,
    "id": _code, "v": _version, "e": _mail, "co": _company, "c": _city, "iso": _iso,
}  # fmt: skip


class Filled(NamedTuple):
    """A scene with values: its path and its lines as statements."""

    path: str
    statements: tuple[Statement, ...]


def filled(rng: Random, scene: Scene, language: Language) -> Filled:
    """Gives each slot of a scene a value; no two slots have the same one."""
    values: dict[str, Pair] = {}

    def value(found: re.Match[str]) -> Pair:
        slot, sort = found[0], found[1]
        while slot not in values:
            name = person(rng, language) if sort == "p" else ""
            one = Pair(name, name) if name else _VALUES[sort](rng)
            if one not in values.values():
                values[slot] = one
        return values[slot]

    def put(text: Pair) -> Pair:
        return Pair(
            _SLOT.sub(lambda found: value(found).en, text.en),
            _SLOT.sub(lambda found: value(found).zh, text.zh),
        )

    statements = tuple(
        Statement(
            f"{scene.name.en} {place}",
            put(line.say),
            tuple(_question(rng, put(ask), put(answer)) for ask, answer in line.questions),
            Pair("that", "这一点"),
            plainly=put(line.say),
        )
        for place, line in enumerate(scene.lines)
    )
    path = put(Pair(rng.choice(scene.files), "")).en
    return Filled(path, statements)


def _question(rng: Random, ask: Pair, answer: Pair) -> Question:
    english = rng.choice([each.strip() for each in ask.en.split(" / ")])
    chinese = rng.choice([each.strip() for each in re.split(r"/ ", ask.zh)])
    return Question(Pair(english, chinese), answer)


def laid_out(
    rng: Random, title: str, lines: Sequence[str], language: Language
) -> tuple[list[str], list[int]]:
    """Puts lines below each other or into paragraphs; returns blocks and the block of each line."""
    between = rng.choice(("\n", "\n", " " if language == "en" else ""))
    mark = rng.choice(("", "", "- ")) if between == "\n" else ""
    blocks = [title] if rng.random() < 0.8 else []
    places: list[int] = []
    rest = list(lines)
    while rest:
        size = rng.randrange(1, 5)
        places += [len(blocks)] * len(rest[:size])
        blocks.append(between.join(f"{mark}{each}" for each in rest[:size]))
        rest = rest[size:]
    return blocks, places
