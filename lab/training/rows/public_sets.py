"""Reads public sets of tool requests with a free licence: tools, requests and their calls."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, cast

from lab.training.rows.row import Call, Lang, Spec
from plansmith.plan.capability import ToolSpec, tool_spec

# Apache-2.0 or MIT; sets without a licence file are for measuring only and never named here.
CATALOGUES: Final = ("sealtools", "bfcl", "acebench_en", "acebench_zh", "apibank", "nestful")
_GOLD: Final = (
    ("planning/sealtools", "sealtools"),
    ("planning/bfcl_parallel", "bfcl"),
    ("planning/acebench_parallel_en", "acebench_en"),
    ("planning/acebench_parallel_zh", "acebench_zh"),
    ("planning/nestful", "nestful"),
    ("execution/apibank", "apibank"),
)
_ASKED: Final = ("metatool", "toolbench", "bfcl", "acebench_en", "acebench_zh", "sealtools")
_TYPES: Final = {
    "dict": "object",
    "float": "number",
    "double": "number",
    "tuple": "array",
    "list": "array",
    "any": "string",
    "str": "string",
    "int": "integer",
    "bool": "boolean",
}
_LARGEST: Final = 2_400  # letters of a schema that a small model is shown
_MAX_FIELDS: Final = 8
_MAX_LENGTH: Final = 900


@dataclass(frozen=True, slots=True)
class Asked:
    """A public request with the names of its tools, and its calls where they are published."""

    query: str
    lang: Lang
    catalogue: str
    gold: tuple[str, ...]
    calls: tuple[Call, ...] = ()


class PublicSets:
    """The sets of a data folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @cached_property
    def tools(self) -> Mapping[str, Mapping[str, Spec]]:
        """All small tools, by catalogue and name."""
        found: dict[str, dict[str, Spec]] = {}
        for name in CATALOGUES:
            specs = (_spec(each) for each in self._lines(f"catalogues/{name}"))
            found[name] = {each["name"]: each for each in specs if _is_small(each)}
        return found

    @cached_property
    def catalogues(self) -> Mapping[str, tuple[ToolSpec, ...]]:
        """The same tools as the product's shortlist takes them."""
        return {
            name: tuple(tool_spec(each) for each in tools.values())
            for name, tools in self.tools.items()
        }

    def with_calls(self) -> Iterator[Asked]:
        """Yields requests whose calls say what the request says."""
        for path, catalogue in _GOLD:
            for row in self._lines(path):
                if "gold_issues" in row or len(str(row["query"])) > _MAX_LENGTH:
                    continue
                calls = _calls(row["gold_steps"], self.tools[catalogue], str(row["query"]))
                if calls:
                    names = tuple(dict.fromkeys(str(each["tool"]) for each in calls))
                    yield Asked(row["query"], _lang(row), catalogue, names, tuple(calls))

    def requests(self) -> Iterator[Asked]:
        """Yields requests of which only the tools are known."""
        for name in _ASKED:
            for row in self._lines(f"retrieval/{name}"):
                if len(str(row["query"])) <= _MAX_LENGTH:
                    yield Asked(row["query"], _lang(row), name, tuple(row["gold"]))

    def _lines(self, name: str) -> Iterator[dict[str, Any]]:
        with (self._folder / f"{name}.jsonl").open(encoding="utf-8") as file:
            yield from map(json.loads, file)


def _lang(row: Mapping[str, Any]) -> Lang:
    return "zh" if row.get("lang") == "zh" else "en"


def _typed(schema: Any) -> Any:
    """Returns a schema with the usual names of types."""
    if isinstance(schema, list):
        return [_typed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    known = cast("dict[str, Any]", schema)
    found = {key: _typed(value) for key, value in known.items()}
    if isinstance(known.get("type"), str):
        found["type"] = _TYPES.get(known["type"], known["type"])
    if isinstance(known.get("required"), bool):
        del found["required"]
    return found


def _spec(tool: Mapping[str, Any]) -> Spec:
    schema = _typed(tool.get("input_schema") or {})
    properties = {
        name: each if isinstance(each, dict) else {"type": "string"}
        for name, each in (schema.get("properties") or {}).items()
    }
    required = [name for name in schema.get("required") or () if name in properties]
    inputs = {"type": "object", "properties": properties, "required": required}
    return {
        "name": tool["name"],
        "description": " ".join(str(tool.get("description") or "").split()),
        "input_schema": inputs,
    }


def _is_small(spec: Spec) -> bool:
    fields = spec["input_schema"]["properties"]
    plain = re.fullmatch(r"[\w.:/-]{1,60}", spec["name"])
    return bool(plain) and len(fields) <= _MAX_FIELDS and len(json.dumps(spec)) < _LARGEST


def _calls(steps: Any, tools: Mapping[str, Spec], query: str) -> list[Call]:
    """Returns the calls of a request; none if they say what the request does not."""
    places = {step["id"]: place for place, step in enumerate(steps, start=1)}
    calls: list[Call] = []
    for step in steps:
        if step["tool"] not in tools or not isinstance(step.get("args"), dict):
            return []
        schema = tools[step["tool"]]["input_schema"]
        args: dict[str, Any] = {}
        for name, value in _with_references(step, places).items():
            field = schema["properties"].get(name)
            if field is None:
                return []
            if is_said(value, query):
                args[name] = _as_type(value, field)
            elif name in schema["required"]:
                return []
        if set(schema["required"]) - set(args):
            return []
        order = [name for name in schema["properties"] if name in args]
        calls.append({"tool": step["tool"], "args": {name: args[name] for name in order}})
    return calls if len(calls) <= 6 else []


def _with_references(step: Mapping[str, Any], places: Mapping[str, int]) -> dict[str, Any]:
    """Returns the arguments with `$n` for what comes from an earlier step."""
    refs = {ref["arg"]: ref["step"] for ref in step.get("refs") or ()}
    return {
        name: f"${places[refs[name]]}" if refs.get(name) in places else value
        for name, value in step["args"].items()
    }


def is_said(value: Any, query: str) -> bool:
    """Whether a value stands in a request, letter case aside."""
    if isinstance(value, bool):
        return True
    if isinstance(value, list):
        return all(is_said(each, query) for each in value)
    if isinstance(value, dict):
        return all(is_said(each, query) for each in cast("dict[str, Any]", value).values())
    if isinstance(value, int | float):
        return f"{value:g}" in query.replace(",", "") or str(value) in query
    text = str(value)
    return text.startswith("$") or text.casefold() in query.casefold()


def _as_type(value: Any, field: Mapping[str, Any]) -> Any:
    """Returns a value as the schema wants it."""
    kind = field.get("type")
    if kind == "string" and isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, str) and not value.startswith("$"):
        if kind == "integer" and re.fullmatch(r"-?\d+", value.strip()):
            return int(value)
        if kind == "number" and re.fullmatch(r"-?\d+(?:\.\d+)?", value.strip()):
            return float(value) if "." in value else int(value)
    return value
