"""Reads lists of tools as other systems write them: MCP, OpenAI functions, SAGE, JSON lines."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import cast

from plansmith.errors import Misconfigured
from plansmith.plan.capability import ToolSpec, tool_spec
from plansmith.plan.data import Json
from plansmith.plan.sentence import Sentence

_HINT = Sentence(
    "give {form}, a list of tools, or JSON lines", form='{"name": {"description", "input_schema"}}'
)


def read_tools(text: str) -> list[ToolSpec]:
    """Reads the tools in a text of any usual format; names must be distinct."""
    specs = [tool_spec(entry) for entry in _entries(_load(text))]
    seen: set[str] = set()
    for spec in specs:
        if spec.name in seen:
            why = Sentence("two tools are called '{name}'", name=spec.name)
            raise Misconfigured(why, hint=Sentence("rename one of them"))
        seen.add(spec.name)
    return specs


def _load(text: str) -> Json:
    try:
        return cast("Json", json.loads(text))
    except (ValueError, RecursionError) as whole:
        try:
            return [json.loads(line) for line in text.splitlines() if line.strip()]
        except (ValueError, RecursionError):
            why = Sentence("the tools are not JSON: {error}", error=whole)
            raise Misconfigured(why, hint=_HINT) from None


def _entries(value: Json) -> list[Mapping[str, Json]]:
    if isinstance(value, dict) and isinstance(value.get("tools"), list):
        value = value["tools"]
    if isinstance(value, dict) and isinstance(value.get("name"), str):
        value = [value]
    if isinstance(value, dict):
        value = [{**_entry(each), "name": name} for name, each in value.items()]
    if not isinstance(value, list):
        raise Misconfigured(Sentence("the tools are neither an object nor a list"), hint=_HINT)
    return [_entry(each) for each in value]


def _entry(value: Json) -> Mapping[str, Json]:
    if not isinstance(value, dict):
        raise Misconfigured(Sentence("'{text}' is not a tool", text=str(value)[:40]), hint=_HINT)
    inner = value.get("function")
    return inner if isinstance(inner, dict) else value
