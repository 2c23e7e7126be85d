"""OpenManus' tools: their base class, results and errors, and a collection that calls them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, Self

from pydantic import BaseModel, ConfigDict

from plansmith.errors import PlansmithError


class OpenManusError(PlansmithError):
    """Any error of OpenManus' interface."""


class ToolError(OpenManusError):
    """A command failed; the text is for the agent that gave it."""


class ToolResult(BaseModel):
    """The result of a tool: `output`, or `error` if it failed."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    output: Any = None
    error: str | None = None
    base64_image: str | None = None
    system: str | None = None

    def __bool__(self) -> bool:
        return any(getattr(self, name) for name in type(self).model_fields)

    def __add__(self, other: ToolResult) -> ToolResult:
        joined = {
            name: _joined(name, getattr(self, name), getattr(other, name))
            for name in ToolResult.model_fields
        }
        return ToolResult(**joined)

    def __str__(self) -> str:
        return f"Error: {self.error}" if self.error else str(self.output)

    def replace(self, **fields: Any) -> Self:
        """Returns a copy with other fields."""
        return type(self)(**{**self.model_dump(), **fields})


def _joined(name: str, first: Any, second: Any) -> Any:
    if first and second:
        if name == "base64_image":
            raise ValueError("Cannot combine tool results")
        return first + second
    return first or second


class CLIResult(ToolResult):
    """The result of a command line."""


class ToolFailure(ToolResult):
    """The result of a tool that failed."""


class BaseTool(ABC, BaseModel):
    """A tool that a model can call; `parameters` is the JSON Schema of its arguments."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    name: str
    description: str
    parameters: dict[str, Any] | None = None

    async def __call__(self, **kwargs: Any) -> Any:
        """Calls `execute`."""
        return await self.execute(**kwargs)

    @abstractmethod
    async def execute(self, **kwargs: Any) -> Any:
        """Does what the tool is for."""

    def to_param(self) -> dict[str, Any]:
        """Returns the tool in the form of function calling."""
        function = {
            "name": self.name,
            "description": self.description,
            "parameters": self.parameters,
        }
        return {"type": "function", "function": function}


class ToolCollection:
    """Tools by name; failures come back as results."""

    def __init__(self, *tools: Any) -> None:
        self.tools: tuple[Any, ...] = tools
        self.tool_map: dict[str, Any] = {tool.name: tool for tool in tools}

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tools)

    def to_params(self) -> list[dict[str, Any]]:
        """Returns the tools in the form of function calling."""
        return [tool.to_param() for tool in self.tools]

    async def execute(
        self, *, name: str, tool_input: Mapping[str, Any] | None = None
    ) -> ToolResult:
        """Calls the tool with a name."""
        tool = self.tool_map.get(name)
        if tool is None:
            return ToolFailure(error=f"Tool {name} is invalid")
        try:
            result: ToolResult = await tool(**(tool_input or {}))
        except ToolError as error:
            return ToolFailure(error=error.message)
        return result

    async def execute_all(self) -> list[ToolResult]:
        """Calls every tool without arguments, one after the other."""
        return [await self.execute(name=tool.name) for tool in self.tools]

    def get_tool(self, name: str) -> Any:
        """Returns the tool with a name, or None."""
        return self.tool_map.get(name)

    def add_tool(self, tool: Any) -> Self:
        """Adds a tool, unless there is one of that name."""
        if tool.name not in self.tool_map:
            self.tools += (tool,)
            self.tool_map[tool.name] = tool
        return self

    def add_tools(self, *tools: Any) -> Self:
        """Adds tools."""
        for tool in tools:
            self.add_tool(tool)
        return self
