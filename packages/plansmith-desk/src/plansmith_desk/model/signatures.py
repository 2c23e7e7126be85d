"""Describes tools to a small model in one line each."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, cast

from plansmith.plan.capability import Effect, ToolSpec
from plansmith.text import clip

Schema = Mapping[str, Any]

_LONGEST_ABOUT: Final = 160
_SHORT_ABOUT: Final = 80
_LONGEST_NOTE: Final = 60
_MOST_CHOICES: Final = 12
_MANY: Final = 5  # optional arguments from which a small model loses sight
_MOST_OPTIONAL: Final = 6
_MANY_NESTED: Final = 2
_WORDS: Final = {
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "true|false",
    "array": "list",
    "object": "object",
    "null": "null",
}


@dataclass(frozen=True, slots=True)
class Offered:
    """A tool that a draft may call; `is_safe` if it only reads, and nothing outside."""

    name: str
    about: str
    inputs: Mapping[str, Any]
    gives: Mapping[str, Any] | None = None
    is_agent: bool = False
    only_reads: bool = False
    is_safe: bool = False

    @property
    def fields(self) -> dict[str, Schema]:
        """Returns the schemas of the arguments by name; one that says nothing is empty."""
        found: Any = self.inputs.get("properties")
        known: Schema = cast("Schema", found) if isinstance(found, Mapping) else {}
        return {
            name: cast("Schema", schema) if isinstance(schema, Mapping) else {}
            for name, schema in known.items()
        }

    @property
    def required(self) -> list[str]:
        """Returns the names of required arguments."""
        return [str(each) for each in self.inputs.get("required") or ()]

    def may_look_without(self, name: str) -> bool:
        """Whether the tool only reads, and needs no such argument."""
        return self.only_reads and name not in self.required

    def without(self, names: Collection[str]) -> Offered:
        """Returns the tool without some of its optional arguments."""
        gone = {each for each in names if each not in self.required}
        fields = {name: each for name, each in self.fields.items() if name not in gone}
        return replace(self, inputs={**self.inputs, "properties": fields}) if fields else self


# A tool of the call language alone: it becomes a reply step, whose text later calls can use.
WORDS: Final = Offered(
    "words.make",
    "Write new text from a result: a summary, a list, a letter, a translation (写总结、信件、翻译)",
    {
        "type": "object",
        "properties": {"instruction": {"type": "string"}, "from": {"type": "string"}},
        "required": ["instruction"],
    },
    {"type": "string"},
    only_reads=True,
    is_safe=True,
)


def offered(tool: ToolSpec) -> Offered:
    """Returns a tool as a small model sees it."""
    return Offered(
        tool.name,
        tool.description,
        tool.input_schema,
        tool.output_schema,
        only_reads=tool.effect is Effect.READ,
        is_safe=tool.effect is Effect.READ and not tool.open_world,
    )


def slim(tool: Offered) -> Offered:
    """Returns a tool without its rarely used optional arguments.

    What is left out keeps its default; a person can still set it in the plan.
    """
    optional = {name: each for name, each in tool.fields.items() if name not in tool.required}
    many = len(optional) > _MANY
    details = [
        name
        for name, each in optional.items()
        if len(each.get("enum") or ()) > _MOST_CHOICES
        or (many and each.get("type") == "boolean" and "default" in each)
    ]
    kept = [name for name in optional if name not in details]
    return tool.without([*details, *kept[_MOST_OPTIONAL:]])


def easiest(tools: Sequence[Offered]) -> tuple[Offered, ...]:
    """Returns the tools, slim; of two tools for one source, the one with SQL.

    Small models write a query well, and conditions inside lists inside objects badly.
    """
    speaking = {
        tool.name.rpartition(".")[0]
        for tool in tools
        if any(each.get("format") == "sql" for each in tool.fields.values())
    }
    return tuple(
        slim(tool)
        for tool in tools
        if tool.name.rpartition(".")[0] not in speaking
        or sum(map(_is_nested, tool.fields.values())) < _MANY_NESTED
    )


def _is_nested(schema: Schema) -> bool:
    """Whether an argument is an object, or a list of objects."""
    inner = schema.get("items") if schema.get("type") == "array" else schema
    return isinstance(inner, Mapping) and "properties" in inner


def signature(tool: Offered, *, short: bool = False) -> str:
    """Returns the tool on one line: name, arguments (`?` marks optional ones), description.

    A short one has no notes on arguments: for prompts with many tools.
    """
    parts: list[str] = []
    for name, each in tool.fields.items():
        note = each.get("description") if not short else ""
        told = f" ({_clip(note, _LONGEST_NOTE)})" if isinstance(note, str) and note else ""
        parts.append(f"{name}{'' if name in tool.required else '?'}: {_kind(each)}{told}")
    about = _clip(tool.about, _SHORT_ABOUT if short else _LONGEST_ABOUT)
    return f"{tool.name}({', '.join(parts)}) - {about}"


def _kind(schema: Any) -> str:
    if not isinstance(schema, Mapping):
        return "any"
    known = cast("Schema", schema)
    choices = cast("list[Any]", known.get("enum") or ())
    if choices:
        shown = [json.dumps(each, ensure_ascii=False) for each in choices[:_MOST_CHOICES]]
        return "|".join([*shown, "…"] if len(choices) > _MOST_CHOICES else shown)
    if isinstance(known.get("format"), str):
        return str(known["format"])
    kind = known.get("type")
    if kind == "array":
        return f"list of {_kind(known.get('items'))}"
    if kind == "object" and isinstance(known.get("properties"), Mapping):
        parts = cast("Schema", known["properties"]).items()
        # Of the fields of an object only choices are told.
        told = [
            f"{name}: {_kind(each)}" if isinstance(each, Mapping) and "enum" in each else name
            for name, each in parts
        ]
        return f"{{{', '.join(told)}}}"
    return _WORDS.get(str(kind), "any")


def _clip(text: str, longest: int) -> str:
    return clip(" ".join(text.split()), longest)
