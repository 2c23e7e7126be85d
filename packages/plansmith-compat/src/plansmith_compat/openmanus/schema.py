"""OpenManus' messages, tool calls and states, as programs build and compare them."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Any, Final, Literal, Self

from pydantic import BaseModel, Field


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
        """Returns the fields that are set."""
        return {"role": self.role.value, **self.model_dump(exclude={"role"}, exclude_none=True)}

    @classmethod
    def user_message(cls, content: str, base64_image: str | None = None) -> Self:
        """Makes a message of the user."""
        return cls(role=Role.USER, content=content, base64_image=base64_image)

    @classmethod
    def system_message(cls, content: str) -> Self:
        """Makes a message of the system."""
        return cls(role=Role.SYSTEM, content=content)

    @classmethod
    def assistant_message(cls, content: str | None = None, base64_image: str | None = None) -> Self:
        """Makes a message of the model."""
        return cls(role=Role.ASSISTANT, content=content, base64_image=base64_image)

    @classmethod
    def tool_message(
        cls, content: str, name: str, tool_call_id: str, base64_image: str | None = None
    ) -> Self:
        """Makes a message with the result of a tool call."""
        return cls(
            role=Role.TOOL,
            content=content,
            name=name,
            tool_call_id=tool_call_id,
            base64_image=base64_image,
        )

    @classmethod
    def from_tool_calls(
        cls,
        tool_calls: Sequence[Any],
        content: str | Sequence[str] = "",
        base64_image: str | None = None,
        **more: Any,
    ) -> Self:
        """Makes a message of the model that calls tools."""
        calls = [ToolCall(id=each.id, function=_function(each.function)) for each in tool_calls]
        text = content if isinstance(content, str) else "\n".join(content)
        given: dict[str, Any] = {"content": text, "tool_calls": calls, **more}
        return cls(role=Role.ASSISTANT, base64_image=base64_image, **given)


def _function(given: Any) -> Function:
    return given if isinstance(given, Function) else Function.model_validate(given.model_dump())


class Memory(BaseModel):
    """The messages of an agent, the newest `max_messages` of them."""

    messages: list[Message] = Field(default_factory=list[Message])
    max_messages: int = 100

    def add_message(self, message: Message) -> None:
        """Adds a message; the oldest one goes when there are too many."""
        self.add_messages([message])

    def add_messages(self, messages: Sequence[Message]) -> None:
        """Adds messages; the oldest ones go when there are too many."""
        self.messages.extend(messages)
        self.messages = self.messages[-self.max_messages :]

    def clear(self) -> None:
        """Forgets all messages."""
        self.messages.clear()

    def get_recent_messages(self, n: int) -> list[Message]:
        """Returns the newest messages."""
        return self.messages[-n:] if n > 0 else []

    def to_dict_list(self) -> list[dict[str, Any]]:
        """Returns the messages as dictionaries."""
        return [each.to_dict() for each in self.messages]
