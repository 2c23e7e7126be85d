"""Unfold: calls become a plan in the planner's own language, with references and a reply."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from plansmith.adapters.models.local.grounding import ASK
from plansmith.adapters.models.local.signatures import Offered
from plansmith.adapters.models.local.wording import SAY, instruction
from plansmith.plan.data import Json
from plansmith.plan.refs import FROM, PATH, RESERVED, escape_text

_WHOLE: Final = re.compile(r"\$([1-9])((?:\.[A-Za-z0-9_]+)*)")
_TEXTS: Final = ("text", "content", "answer", "summary", "result", "value", "message", "name", "id")


def plan_of_reply(text: str, request: str) -> dict[str, Json]:
    """A plan that calls nothing and says something."""
    said = f"{SAY}{escape_text(text)}"
    steps: list[Json] = [{"id": "answer", "kind": "reply", "instruction": said}]
    return {"goal": request, "steps": steps}


def plan_of_calls(
    calls: Sequence[Mapping[str, Any]], tools: Mapping[str, Offered], request: str
) -> dict[str, Json]:
    """A plan that makes the calls and answers from their results.

    What is asked for with `"?"` is left out of the inputs: the planner asks for what is missing.
    """
    ids = _ids([str(call["tool"]) for call in calls])
    filler = _Filler(ids, [tools[str(call["tool"])] for call in calls])
    steps: list[Json] = []
    for name, call in zip(ids, calls, strict=True):
        tool = tools[str(call["tool"])]
        inputs: dict[str, Json] = {
            key: filler.value(value, key, tool.fields.get(key))
            for key, value in call["args"].items()
            if value != ASK
        }
        steps.append(_step(name, tool, inputs))
    told = instruction(escape_text(" ".join(request.split())), ids)
    steps.append({"id": "answer", "kind": "reply", "instruction": told})
    return {"goal": request, "steps": steps}


def _step(name: str, tool: Offered, inputs: dict[str, Json]) -> dict[str, Json]:
    if tool.is_agent:
        return {"id": name, "kind": "agent", "agent": tool.name, "task": inputs.get("task", "")}
    return {"id": name, "kind": "tool", "tool": tool.name, "inputs": inputs}


def _ids(names: Sequence[str]) -> list[str]:
    """Short ids out of the tools' names, each once."""
    taken = {*RESERVED, "answer"}
    ids: list[str] = []
    for name in names:
        last = re.split(r"[./:]", name)[-1]
        stem = re.sub(r"[^A-Za-z0-9_-]+", "_", last).strip("_-")[:40] or "step"
        number, wish = 2, stem
        while wish in taken:
            wish, number = f"{stem}_{number}", number + 1
        taken.add(wish)
        ids.append(wish)
    return ids


class _Filler:
    """Puts references where `$n` stands."""

    def __init__(self, ids: Sequence[str], tools: Sequence[Offered]) -> None:
        self._ids = ids
        self._tools = tools

    def value(self, value: Json, name: str = "", schema: Any = None) -> Json:
        if isinstance(value, list):
            return [self.value(each) for each in value]
        if isinstance(value, dict):
            return {key: self.value(each, key) for key, each in value.items()}
        if not isinstance(value, str):
            return value
        found = _WHOLE.fullmatch(value)
        if found is None:
            return self._text(value)
        place, path = int(found[1]) - 1, [part for part in found[2].split(".") if part]
        path = path or self._fitting(place, name, schema)
        if not path and _kind(schema) == "string":
            # Whatever comes out goes in as text.
            return f"{{{{{self._ids[place]}}}}}"
        return {FROM: self._ids[place], PATH: path} if path else {FROM: self._ids[place]}

    def _text(self, value: str) -> str:
        parts = re.split(r"\$([1-9])", value)
        texts = [escape_text(part) for part in parts[::2]]
        names = [f"{{{{{self._ids[int(part) - 1]}}}}}" for part in parts[1::2]]
        return "".join(a + b for a, b in zip(texts, [*names, ""], strict=True))

    def _fitting(self, place: int, name: str, schema: Any) -> list[Json]:
        """The part of a result that is meant: of the same name, or the only one of the kind."""
        gives = self._tools[place].gives
        if gives is None or gives.get("type") != "object" or _kind(schema) == "object":
            return []
        parts = cast("Mapping[str, Any]", gives.get("properties") or {})
        same = [key for key, each in parts.items() if _kind(each) == _kind(schema)]
        wishes = [name, *_TEXTS] if _kind(schema) == "string" else [name]
        found = next((key for key in wishes if key in same), None)
        if found is None and len(same) == 1:
            found = same[0]
        return [found] if found else []


def _kind(schema: Any) -> str:
    if not isinstance(schema, Mapping):
        return ""
    return str(cast("Mapping[str, Any]", schema).get("type") or "")
