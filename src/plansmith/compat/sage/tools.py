"""SAGE's tool registry: objects with a name, a schema and `call(arguments)`, by name."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, cast

from plansmith.errors import ToolFailed
from plansmith.plan.capability import ToolSpec, tool_spec
from plansmith.plan.data import Json
from plansmith.ports import Call


class Registered(Protocol):
    """A tool of SAGE; `description`, `input_schema` and `effect` are used where it has them."""

    name: str

    def call(self, arguments: dict[str, Any]) -> Any:
        """The result."""
        ...


class ToolRegistry:
    """Tools by name, described to planners and called by runtimes."""

    def __init__(self) -> None:
        self._tools: dict[str, Registered] = {}

    def register(self, tool_obj: Any) -> None:
        """Take a tool in; one of the same name is replaced."""
        named = isinstance(getattr(tool_obj, "name", None), str) and bool(tool_obj.name)
        if not named or not callable(getattr(tool_obj, "call", None)):
            raise TypeError("a tool has a name and call(arguments)")
        self._tools[tool_obj.name] = tool_obj

    def describe(self) -> dict[str, dict[str, Any]]:
        """Every tool as a planner reads it: description, input schema, effect where it is said."""
        return {name: _about(tool) for name, tool in self._tools.items()}

    def call(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """Call a tool."""
        if name not in self._tools:
            raise KeyError(f"there is no tool {name!r}; known: {', '.join(self._tools) or 'none'}")
        return self._tools[name].call(dict(arguments))

    def execute(self, data: Any = None) -> Any:
        """Describe the tools, or call the one that `{"name", "arguments"}` names."""
        if data is None or data == "describe" or (isinstance(data, dict) and "name" not in data):
            return self.describe()
        if not isinstance(data, dict):
            raise TypeError("give nothing, 'describe', or a table with name and arguments")
        wanted = cast("dict[str, Any]", data)
        arguments = wanted.get("arguments", {})
        if not isinstance(wanted["name"], str) or not isinstance(arguments, dict):
            raise TypeError("'name' is a text and 'arguments' a table")
        return self.call(wanted["name"], cast("dict[str, Any]", arguments))


MCPRegistry = ToolRegistry


class RegistryTools:
    """A registry as a source of tools: one that says no effect counts as writing."""

    def __init__(self, registry: ToolRegistry) -> None:
        self._registry = registry

    async def tools(self) -> Sequence[ToolSpec]:
        """The tools that are registered now."""
        table = self._registry.describe()
        return [tool_spec({**about, "name": name}) for name, about in table.items()]

    async def call(self, tool: str, arguments: Mapping[str, Json], call: Call) -> Json:
        """Call one, in a thread unless it is a coroutine."""
        del call
        try:
            made = await asyncio.to_thread(self._registry.call, tool, arguments)
            return cast("Json", await made if inspect.isawaitable(made) else made)
        except KeyError as missing:
            raise ToolFailed(str(missing.args[0])) from None


def _about(tool: Registered) -> dict[str, Any]:
    about: dict[str, Any] = {
        "description": str(getattr(tool, "description", "") or ""),
        "input_schema": getattr(tool, "input_schema", None) or {},
    }
    effect = getattr(tool, "effect", None)
    return about | ({"effect": effect} if effect else {})
