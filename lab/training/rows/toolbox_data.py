"""Reads the tools of other makers: their arguments, and the ways people ask for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any

from lab.training.rows.domains import DATA
from lab.training.rows.row import Spec


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument: its name, the kind of its values, and whether it is required."""

    name: str
    kind: str
    detail: str
    required: bool

    @property
    def choices(self) -> list[tuple[str, str, str]]:
        """The values of a choice with the words for each, in English and Chinese."""
        found: list[tuple[str, str, str]] = []
        for each in self.detail.split(","):
            value, _, words = each.strip().partition("=")
            en, _, zh = (words or value).partition("~")
            found.append((value.partition("~")[0], en, zh or en))
        return found


@dataclass(frozen=True, slots=True)
class Toolbox:
    """A tool with the ways people ask for it."""

    name: str
    effect: str
    about: str
    arguments: tuple[Argument, ...]
    ways: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Dressed:
    """A tool under one of many names, with other names of its arguments."""

    of: Toolbox
    name: str
    names: dict[str, str]

    @property
    def spec(self) -> Spec:
        fields: dict[str, Any] = {}
        for each in self.of.arguments:
            fields[self.names[each.name]] = _schema(each)
        required = [self.names[each.name] for each in self.of.arguments if each.required]
        inputs = {"type": "object", "properties": fields, "required": required}
        about = self.of.about
        return {
            "name": self.name,
            "description": about,
            "input_schema": inputs,
            "effect": self.of.effect,
        }


def _schema(argument: Argument) -> dict[str, Any]:
    match argument.kind:
        case "int":
            return {"type": "integer"}
        case "money":
            return {"type": "number"}
        case "date":
            return {"type": "string", "format": "date", "description": "day as YYYY-MM-DD"}
        case "time":
            return {"type": "string", "description": "time as HH:MM"}
        case "pick":
            return {"type": "string", "enum": [value for value, _, _ in argument.choices]}
        case _:
            return {"type": "string"}


@cache
def _blocks() -> tuple[tuple[Toolbox, ...], tuple[str, ...]]:
    lines = (DATA / "toolboxes.txt").read_text(encoding="utf-8").splitlines()
    used = [line for line in lines if line.strip() and not line.startswith("#")]
    starts = [place for place, line in enumerate(used) if line.startswith("=")]
    blocks = [used[a:b] for a, b in pairwise([*starts, len(used)])]
    return tuple(_toolbox(each) for each in blocks[:-1]), tuple(blocks[-1][1:])


def chains() -> tuple[str, ...]:
    """Returns the ways to hand one result to another tool."""
    return _blocks()[1]


def toolboxes() -> tuple[Toolbox, ...]:
    """Returns all tools of other makers."""
    return _blocks()[0]


def _toolbox(block: Sequence[str]) -> Toolbox:
    name, effect, about, arguments = (each.strip() for each in block[0][1:].split("|"))
    found: list[Argument] = []
    for each in arguments.split(";"):
        label, _, kind = each.strip().partition(" ")
        word, _, detail = kind.partition("(")
        found.append(Argument(label.rstrip("!"), word, detail.rstrip(")"), label.endswith("!")))
    return Toolbox(name, effect, about, tuple(found), tuple(block[1:]))
