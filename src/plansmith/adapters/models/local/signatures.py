"""Tools as a small model reads them best: one short line each, like a function's head."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

_LONGEST_ABOUT: Final = 160
_LONGEST_NOTE: Final = 60
_MOST_CHOICES: Final = 12
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
    """One tool a draft may call, as the planner's prompt tells of it."""

    name: str
    about: str
    inputs: Mapping[str, Any]
    gives: Mapping[str, Any] | None = None
    is_agent: bool = False
    only_reads: bool = False

    @property
    def fields(self) -> Mapping[str, Any]:
        """The schemas of the arguments by name."""
        found: Any = self.inputs.get("properties")
        return cast("Mapping[str, Any]", found) if isinstance(found, Mapping) else {}

    @property
    def required(self) -> list[str]:
        """The arguments that have to be given."""
        return [str(each) for each in self.inputs.get("required") or ()]


def signature(tool: Offered) -> str:
    """The tool on one line: its name, its arguments with `?` behind optional ones, its deed."""
    required = tool.required
    parts = [
        f"{name}{'' if name in required else '?'}: {_kind(each)}{_note(each)}"
        for name, each in tool.fields.items()
    ]
    return f"{tool.name}({', '.join(parts)}) - {_clip(tool.about, _LONGEST_ABOUT)}"


def _kind(schema: Any) -> str:
    if not isinstance(schema, Mapping):
        return "any"
    known = cast("Mapping[str, Any]", schema)
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
        return f"{{{', '.join(map(str, known['properties']))}}}"
    return _WORDS.get(str(kind), "any")


def _note(schema: Any) -> str:
    about = cast("Mapping[str, Any]", schema).get("description") if schema else None
    return f" ({_clip(about, _LONGEST_NOTE)})" if isinstance(about, str) and about else ""


def _clip(text: str, longest: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= longest else f"{line[: longest - 1]}…"
