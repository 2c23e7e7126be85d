"""OpenManus' messages, tools, results and errors, as programs build and compare them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field

from plansmith.errors import PlansmithError


class Role(StrEnum):
    """Who says a message."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


class ToolChoice(StrEnum):
    """Whether a model may, must or must not call a tool."""

    NONE = "none"
    AUTO = "auto"
    REQUIRED = "required"


class AgentState(StrEnum):
    """The state of an agent; one that is FINISHED ends the flow."""

    IDLE = "IDLE"
    RUNNING = "RUNNING"
    FINISHED = "FINISHED"
    ERROR = "ERROR"


ROLE_VALUES: Final = tuple(each.value for each in Role)
TOOL_CHOICE_VALUES: Final = tuple(each.value for each in ToolChoice)
ROLE_TYPE = Role | Literal["system", "user", "assistant", "tool"]
TOOL_CHOICE_TYPE = ToolChoice | Literal["none", "auto", "required"]


class Function(BaseModel):
    """The function of a tool call; `arguments` is JSON as text."""

    name: str
    arguments: str


class ToolCall(BaseModel):
    """A call of a tool by a model."""

    id: str
    type: str = "function"
    function: Function


class Message(BaseModel):
    """A message of a conversation; messages add up to lists."""

    role: Role
    content: str | None = None
    tool_calls: list[ToolCall] | None = None
    name: str | None = None
    tool_call_id: str | None = None
    base64_image: str | None = None

    def __add__(self, other: Message | list[Message]) -> list[Message]:
        return [self, *(other if isinstance(other, list) else [other])]

    def __radd__(self, other: list[Message]) -> list[Message]:
        return [*other, self]

    def to_dict(self) -> dict[str, Any]:
        return {"role": self.role.value, **self.model_dump(exclude={"role"}, exclude_none=True)}

    @classmethod
    def user_message(cls, content: str, base64_image: str | None = None) -> Self:
        return cls(role=Role.USER, content=content, base64_image=base64_image)

    @classmethod
    def system_message(cls, content: str) -> Self:
        return cls(role=Role.SYSTEM, content=content)

    @classmethod
    def assistant_message(cls, content: str | None = None, base64_image: str | None = None) -> Self:
        return cls(role=Role.ASSISTANT, content=content, base64_image=base64_image)

    @classmethod
    def tool_message(
        cls, content: str, name: str, tool_call_id: str, base64_image: str | None = None
    ) -> Self:
        call: dict[str, Any] = {"name": name, "tool_call_id": tool_call_id}
        return cls(role=Role.TOOL, content=content, base64_image=base64_image, **call)

    @classmethod
    def from_tool_calls(
        cls,
        tool_calls: Sequence[Any],
        content: str | Sequence[str] = "",
        base64_image: str | None = None,
        **more: Any,
    ) -> Self:
        calls = [
            ToolCall(id=each.id, function=Function(**each.function.model_dump()))
            for each in tool_calls
        ]
        text = content if isinstance(content, str) else "\n".join(content)
        given: dict[str, Any] = {"content": text, "tool_calls": calls, **more}
        return cls(role=Role.ASSISTANT, base64_image=base64_image, **given)


class Memory(BaseModel):
    """The messages of an agent, the newest `max_messages` of them."""

    messages: list[Message] = Field(default_factory=list[Message])
    max_messages: int = 100

    def add_message(self, message: Message) -> None:
        self.add_messages([message])

    def add_messages(self, messages: Sequence[Message]) -> None:
        self.messages.extend(messages)
        self.messages = self.messages[-self.max_messages :]

    def clear(self) -> None:
        self.messages.clear()

    def get_recent_messages(self, n: int) -> list[Message]:
        return self.messages[-n:] if n > 0 else []

    def to_dict_list(self) -> list[dict[str, Any]]:
        return [each.to_dict() for each in self.messages]


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
        if self.base64_image and other.base64_image:
            raise ValueError("Cannot combine tool results")
        pairs = {name: (getattr(self, name), getattr(other, name)) for name in _RESULT}
        return ToolResult(**{name: a + b if a and b else a or b for name, (a, b) in pairs.items()})

    def __str__(self) -> str:
        return f"Error: {self.error}" if self.error else str(self.output)

    def replace(self, **fields: Any) -> Self:
        return type(self)(**{**self.model_dump(), **fields})


_RESULT: Final = tuple(ToolResult.model_fields)


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
        return await self.execute(**kwargs)

    @abstractmethod
    async def execute(self, **kwargs: Any) -> Any: ...

    def to_param(self) -> dict[str, Any]:
        about = {"name": self.name, "description": self.description}
        return {"type": "function", "function": {**about, "parameters": self.parameters}}


class ToolCollection:
    """Tools by name; failures come back as results."""

    def __init__(self, *tools: Any) -> None:
        self.tools: tuple[Any, ...] = tools
        self.tool_map: dict[str, Any] = {tool.name: tool for tool in tools}

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tools)

    def to_params(self) -> list[dict[str, Any]]:
        return [tool.to_param() for tool in self.tools]

    async def execute(
        self, *, name: str, tool_input: Mapping[str, Any] | None = None
    ) -> ToolResult:
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
        return self.tool_map.get(name)

    def add_tool(self, tool: Any) -> Self:
        """Adds a tool, unless there is one of that name."""
        if tool.name not in self.tool_map:
            self.tools += (tool,)
            self.tool_map[tool.name] = tool
        return self

    def add_tools(self, *tools: Any) -> Self:
        for tool in tools:
            self.add_tool(tool)
        return self
