"""SAGE's tool registry, also as a source of tools for runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, cast

from pydantic_core import from_json, to_json

from plansmith.errors import ToolFailed
from plansmith.plan.capability import ToolSpec, tool_spec
from plansmith.plan.data import Json
from plansmith.ports import Call
from plansmith_compat.calling import awaited, in_thread
from plansmith_compat.sage.operator import MapFunction


class Registered(Protocol):
    """A tool of SAGE; `description`, `input_schema` and `effect` are optional."""

    name: str

    def call(self, arguments: dict[str, Any]) -> Any:
        """Calls the tool and returns its result."""
        ...


class ToolRegistry(MapFunction):
    """Tools by name, for planners and runtimes."""

    def __init__(self) -> None:
        self._tools: dict[str, Registered] = {}

    def register(self, tool_obj: Any) -> None:
        """Adds a tool; replaces one with the same name."""
        named = isinstance(getattr(tool_obj, "name", None), str) and bool(tool_obj.name)
        if not named or not callable(getattr(tool_obj, "call", None)):
            raise TypeError("a tool must have a name and call(arguments)")
        self._tools[tool_obj.name] = tool_obj

    def describe(self) -> dict[str, dict[str, Any]]:
        """Returns every tool with description, input schema and, if stated, effect."""
        return {name: _about(tool) for name, tool in self._tools.items()}

    def call(self, name: str, arguments: Any) -> Any:
        """Calls a tool; the tool itself judges its arguments."""
        if name not in self._tools:
            known = ", ".join(self._tools) or "none"
            raise KeyError(f"Tool not found: {name}; known: {known}")
        return self._tools[name].call(arguments)

    def execute(self, data: Any = None) -> Any:
        """Describes the tools, or calls the one that `{"name", "arguments"}` names."""
        if data is None or data == "describe":
            return self.describe()
        if not isinstance(data, dict):
            raise TypeError(
                "MCPRegistry.execute expects None/'describe' or a dict with 'name' and 'arguments'"
            )
        wanted = cast("dict[str, Any]", data)
        op = wanted.get("op")
        if op not in (None, "call", "describe"):
            raise ValueError(f"Unsupported op: {op}; use 'describe' or 'call'")
        if "name" not in wanted and op != "call":
            return self.describe()
        name, arguments = wanted.get("name"), wanted.get("arguments", {})
        if not isinstance(name, str) or not name:
            raise ValueError("Missing or invalid 'name': give the name of a registered tool")
        if not isinstance(arguments, dict):
            raise TypeError("'arguments' must be a dict")
        return self.call(name, arguments)


MCPRegistry = ToolRegistry


class RegistryTools:
    """A registry as a source of tools; a tool without an effect counts as writing."""

    def __init__(self, registry: ToolRegistry) -> None:
        self._registry = registry

    async def tools(self) -> Sequence[ToolSpec]:
        """Returns the tools that are registered now."""
        table = self._registry.describe()
        return [tool_spec({**about, "name": name}) for name, about in table.items()]

    async def call(self, tool: str, arguments: Mapping[str, Json], call: Call) -> Json:
        """Calls a tool, in a thread unless it is a coroutine."""
        del call
        if tool not in self._registry.describe():
            raise ToolFailed(f"Tool not found: {tool}")
        made = await in_thread(self._registry.call, tool, dict(arguments))
        result = await awaited(made)
        # SAGE's tools return any Python value; a journal holds plain data.
        return cast("Json", from_json(to_json(result, fallback=str, inf_nan_mode="strings")))


def _about(tool: Registered) -> dict[str, Any]:
    schema, effect = getattr(tool, "input_schema", None), getattr(tool, "effect", None)
    about: dict[str, Any] = {
        "description": str(getattr(tool, "description", "") or ""),
        "input_schema": cast("dict[str, Any]", schema) if isinstance(schema, dict) else {},
    }
    return about | ({"effect": effect} if isinstance(effect, str) else {})
