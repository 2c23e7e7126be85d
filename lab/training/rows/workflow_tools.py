"""Reads tools of many trades whose results feed each other, and dresses them in other names."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from random import Random
from typing import Any, Final

from lab.training.rows.domains import DATA
from lab.training.rows.row import Spec
from lab.training.rows.toolbox_data import toolboxes

_EVERY: Final = 9
_HELD: Final = 4
_STYLES: Final = ("dot", "dot", "dot", "snake", "camel", "kebab", "deed")
# Tools of the other list that do nothing that one of this list does.
_MORE: Final = frozenset(
    [
        "calendar.list_events",
        "payments.refund",
        "payments.status",
        "home.lock_door",
        "music.add_to_playlist",
        "maps.nearby",
        "git.create_branch",
        "git.merge",
        "git.commits",
        "legal.find_clause",
        "access.grant",
        "car.find_charger",
        "inventory.check",
        "inventory.order",
        "orders.cancel",
        "database.backup",
        "health.log",
        "tasks.add",
        "tasks.complete",
        "cloud.scale",
        "school.grade",
    ]
)
_KINDS: Final = {"text": "message", "place": "city"}
_TYPES: Final = {"int": "integer", "minutes": "integer", "money": "number", "bool": "boolean"}
_NOTES: Final = {"minutes": "in minutes", "currency": "currency code, such as USD"}
_SECONDS: Final = 0.35  # of the durations are wanted in seconds
_MOMENTS: Final = {
    "datetime": ("date and time", "when, as YYYY-MM-DD HH:MM", "day and time"),
    "date": ("YYYY-MM-DD", "day as YYYY-MM-DD", "date"),
    "time": ("HH:MM", "time as HH:MM", "clock time"),
}
_LANGUAGES: Final = ("de", "fr", "es", "it", "pt", "en", "zh", "ja", "ko", "ru", "ar", "nl")
_LANGUAGE_NAMES: Final = (
    *("German", "French", "Spanish", "Italian", "Portuguese", "English", "Chinese", "Japanese"),
    *("Korean", "Russian", "Arabic", "Dutch"),
)


@dataclass(frozen=True, slots=True)
class Input:
    """An argument of a tool: its kind, and other names that it may have."""

    name: str
    kind: str
    required: bool
    others: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WorkTool:
    """A tool: what it takes and gives, and how people ask for it."""

    name: str
    effect: str
    about: Mapping[str, str]
    others: tuple[str, ...]
    inputs: tuple[Input, ...]
    gives: str
    takes: Mapping[str, frozenset[str]]
    ways: Mapping[str, tuple[str, ...]]
    """Requests by language and mark: `en`, `en>` with a result, `en:` as a noun, `en?` open."""
    held: bool

    def taking(self, way: str) -> Input | None:
        """Returns the argument that `{it}` stands for in a request."""
        open_ones = [each for each in self.inputs if each.name in self.takes]
        return next((each for each in open_ones if f"{{{each.name}}}" not in way), None)


@dataclass(slots=True)
class Dressed:
    """A tool under one of many names, with other names and schemas of its arguments."""

    of: WorkTool
    name: str
    names: Mapping[str, str]
    fields: Mapping[str, Any]
    about: str
    forms: Mapping[str, str] = field(default_factory=dict[str, str])
    """How an argument wants its values, where there are several ways."""

    @property
    def spec(self) -> Spec:
        """Returns the tool as it is offered."""
        required = [self.names[each.name] for each in self.of.inputs if each.required]
        schema = {"type": "object", "properties": dict(self.fields), "required": required}
        return {
            "name": self.name,
            "description": self.about,
            "input_schema": schema,
            "effect": self.of.effect,
        }


@cache
def work_tools() -> tuple[WorkTool, ...]:
    """Returns all tools."""
    found = [_tool(block, place) for place, block in enumerate(_blocks("workflows"))]
    found += [_converted(each, place) for place, each in enumerate(_others(), len(found))]
    more = _blocks("workflows_trades") + _blocks("workflows_choices")
    return (*found, *(_tool(block, place) for place, block in enumerate(more, len(found))))


def _blocks(name: str) -> list[list[str]]:
    """Returns the lines of a file, tool by tool."""
    lines = (DATA / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    used = [line for line in lines if line.strip() and not line.startswith("#")]
    starts = [place for place, line in enumerate(used) if line.startswith("=")]
    return [used[a:b] for a, b in pairwise([*starts, len(used)])]


def _others() -> list[Any]:
    return [each for each in toolboxes() if each.name in _MORE]


def _converted(tool: Any, place: int) -> WorkTool:
    ways: dict[str, tuple[str, ...]] = {
        lang: tuple(each[2:].strip() for each in tool.ways if each.startswith(lang))
        for lang in ("en", "zh")
    }
    inputs = tuple(
        Input(
            each.name,
            f"{_KINDS.get(each.kind, each.kind)}({each.detail})",
            each.required,
        )
        for each in tool.arguments
    )
    about = {"en": tool.about, "zh": ""}
    held = place % _EVERY == _HELD
    return WorkTool(tool.name, tool.effect, about, (), inputs, "", {}, ways, held)


def _tool(block: Sequence[str], place: int) -> WorkTool:
    name, effect, en, zh = (each.strip() for each in block[0][1:].split("|"))
    others: list[str] = []
    inputs: list[Input] = []
    takes: dict[str, frozenset[str]] = {}
    ways: dict[str, tuple[str, ...]] = {}
    gives = ""
    for line in block[1:]:
        mark, _, rest = line.partition(" ")
        parts = [each.strip() for each in rest.split(" | ")]
        match mark:
            case "other":
                others += [each.strip() for each in rest.split(",")]
            case "arg":
                label, _, kind = parts[0].partition(" ")
                more = tuple(each.strip() for each in "".join(parts[1:]).split(",") if each.strip())
                inputs.append(Input(label.rstrip("!"), kind, label.endswith("!"), more))
            case "gives":
                gives = rest.strip()
            case "takes":
                for each in rest.split(";"):
                    argument, *kinds = each.split()
                    takes[argument] = frozenset(kinds)
            case _:
                ways[mark] = (*ways.get(mark, ()), *parts)
    about = {"en": en, "zh": zh}
    held = place % _EVERY == _HELD
    return WorkTool(name, effect, about, tuple(others), tuple(inputs), gives, takes, ways, held)


def _named_for(label: str, form: str) -> str:
    """Returns the name of an argument that wants its values in a form: codes, seconds."""
    if form == "seconds":
        return label.replace("minutes", "seconds") if "minutes" in label else f"{label}_seconds"
    return f"{label}_code" if form == "code" else label


class Wardrobe:
    """Dresses the tools of one list alike: the style of names, the language of descriptions."""

    def __init__(self, rng: Random, lang: str) -> None:
        self._rng = rng
        self._style = rng.choice(_STYLES)
        languages = ("en", "en", "both") if lang == "en" else ("en", "both", "zh")
        self._language = rng.choice(languages)
        self._notes = rng.random() < 0.7
        self._stop = rng.choice(("", "."))
        self._strange = rng.choice((0.1, 0.4, 0.7))

    def dressed(self, tool: WorkTool) -> Dressed:
        """Returns a tool in this style."""
        rng = self._rng
        name = rng.choice((tool.name, *tool.others)) if tool.others else tool.name
        names: dict[str, str] = {}
        fields: dict[str, Any] = {}
        forms: dict[str, str] = {}
        for each in tool.inputs:
            other = rng.choice(each.others) if each.others else each.name
            label = other if rng.random() < self._strange else each.name
            if label in names.values() or any(label == more.name for more in tool.inputs):
                label = each.name
            fields[label], forms[each.name] = self._schema(each)
            named = _named_for(label, forms[each.name])
            fields[named] = fields.pop(label)
            names[each.name] = named
        return Dressed(tool, self._named(name), names, fields, self._about(tool), forms)

    def _named(self, name: str) -> str:
        area, _, deed = name.partition(".")
        match self._style:
            case "snake":
                return f"{area}_{deed}"
            case "camel":
                return re.sub(r"_(\w)", lambda found: found[1].upper(), f"{area}_{deed}")
            case "kebab":
                return f"{area}-{deed}".replace("_", "-")
            case "deed":
                return f"{deed}_{area}"
            case _:
                return name

    def _about(self, tool: WorkTool) -> str:
        en, zh = tool.about["en"], tool.about["zh"]
        if self._language == "zh" and zh:
            return zh
        return f"{en}. {zh}" if self._language == "both" and zh else f"{en}{self._stop}"

    def _schema(self, argument: Input) -> tuple[dict[str, Any], str]:
        """Returns the schema of an argument, and the form of values that it asks for."""
        kind, _, detail = argument.kind.partition("(")
        match kind:
            case "date" | "time" | "datetime":
                return self._moment(kind)
            case "lang":
                return self._language_schema()
            case "minutes" if self._rng.random() < _SECONDS:
                return {"type": "integer", "description": "in seconds"}, "seconds"
            case "list":
                items = {"type": "number" if detail.startswith("money") else "string"}
                return {"type": "array", "items": items}, ""
            case "pick":
                values = [each.partition("=")[0].strip() for each in detail.rstrip(")").split(",")]
                return {"type": "string", "enum": values}, ""
            case _:
                note = self._noted(_NOTES[kind]) if kind in _NOTES else {}
                return {"type": _TYPES.get(kind, "string"), **note}, ""

    def _noted(self, *notes: str) -> dict[str, str]:
        """Returns a note on an argument, or none."""
        noted = self._notes and self._rng.random() < 0.7
        return {"description": self._rng.choice(notes)} if noted else {}

    def _moment(self, kind: str) -> tuple[dict[str, Any], str]:
        roll = self._rng.random()
        if kind == "datetime" and roll < 0.3:
            return {"type": "string", "format": "date-time"}, "T"
        if kind == "date" and roll < 0.4:
            return {"type": "string", "format": "date"}, ""
        return {"type": "string", **self._noted(*_MOMENTS[kind])}, ""

    def _language_schema(self) -> tuple[dict[str, Any], str]:
        roll = self._rng.random()
        if roll < 0.35:
            return {"type": "string", "enum": list(_LANGUAGES)}, "codes"
        if roll < 0.55:
            return {"type": "string", "enum": list(_LANGUAGE_NAMES)}, "names"
        if roll < 0.7:
            return {"type": "string"}, "code"
        return {"type": "string"}, "said"
