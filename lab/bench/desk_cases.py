"""What a request of the folder bench is: its words, the facts of a right answer, the files it leaves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Literal

Lang = Literal["en", "zh"]
# answer: the facts are told; absent: it says that they are not there; reply: any words do, and no
# step runs; decline: it says that it cannot be done; question: a value is missing, so asking is right.
Expects = Literal["answer", "absent", "reply", "decline", "question"]


@dataclass(frozen=True, slots=True)
class Number:
    """A number, in any usual notation; one with a fraction may be rounded to one decimal."""

    value: float


@dataclass(frozen=True, slots=True)
class Words:
    """A name or phrase, in one of several forms."""

    forms: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Day:
    """A date, in any usual notation, with or without its year."""

    day: date


@dataclass(frozen=True, slots=True)
class Clock:
    """The time of day in a zone while the request was answered."""

    zone: str


Fact = Number | Words | Day | Clock


@dataclass(frozen=True, slots=True)
class Wrote:
    """A file that has to be there afterwards; `path` may be a pattern."""

    path: str
    facts: tuple[Fact, ...] = ()
    must_not: tuple[Fact, ...] = ()
    rows: int | None = None  # rows of a table, without its head
    same_as: str = ""  # the file of the folder whose content it has


@dataclass(frozen=True, slots=True)
class Gone:
    """A file that must not be there any more."""

    path: str


@dataclass(frozen=True, slots=True)
class Ask:
    """A request, and what is right.

    `proof` is a query over the folder (tables by file name, `lines` of texts, `files`) whose values
    hold the facts: the tests compute them a second time with it.
    """

    id: str
    folder: str
    kind: str
    lang: Lang
    text: str
    facts: tuple[Fact, ...] = ()
    must_not: tuple[Fact, ...] = ()
    proof: str = ""
    expects: Expects = "answer"
    files: tuple[Wrote | Gone, ...] = ()
    before: str = ""  # the request that this one follows in the same conversation


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder of files, made by program, and the requests about it."""

    name: str
    files: Mapping[str, bytes]
    asks: tuple[Ask, ...]

    def write(self, place: Path) -> None:
        """Writes the files below a place."""
        for path, content in self.files.items():
            target = place / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)


class Asks:
    """Collects the requests of one folder and numbers them."""

    def __init__(self, folder: str, prefix: str = "") -> None:
        self.folder = folder
        self.prefix = prefix or folder
        self.all: list[Ask] = []

    def add(
        self,
        kind: str,
        lang: Lang,
        text: str,
        *facts: Fact,
        proof: str = "",
        must_not: tuple[Fact, ...] = (),
        expects: Expects = "answer",
        files: tuple[Wrote | Gone, ...] = (),
        before: str = "",
    ) -> None:
        """Adds a request."""
        ask = Ask(
            id=f"{self.prefix}-{len(self.all) + 1:02}",
            folder=self.folder,
            kind=kind,
            lang=lang,
            text=text,
            facts=facts,
            must_not=must_not,
            proof=proof,
            expects=expects,
            files=files,
            before=before,
        )
        self.all.append(ask)


def number(value: float) -> Number:
    """A number that an answer has to hold."""
    return Number(float(value))


def words(*forms: str) -> Words:
    """A name that an answer has to hold, in one of these forms."""
    return Words(forms)


def each(*names: str) -> tuple[Words, ...]:
    """Names that an answer all has to hold."""
    return tuple(Words((name,)) for name in names)
