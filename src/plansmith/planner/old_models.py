"""Adapts models that were written for the first release."""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol, TypeVar, cast

from plansmith.plan.capability import ToolSpec
from plansmith.plan.data import Json
from plansmith.ports import ChatModel, Delta, Message, Prompt

_OLD_NAMES = frozenset({"messages", "schema", "tools"})
_Stream = TypeVar("_Stream", bound=Callable[..., AsyncIterator[Delta]])


class OldChatModel(Protocol):
    """A model with the `stream` parameters of the first release."""

    @property
    def name(self) -> str:
        """The model's name."""
        ...

    def stream(
        self,
        messages: Sequence[Message],
        *,
        schema: Mapping[str, Json] | None = None,
        tools: Sequence[ToolSpec] = (),
    ) -> AsyncIterator[Delta]:
        """Streams the answer piece by piece."""
        ...


class _TakesPrompt:
    """Calls an old model with the parts of a prompt that it accepts."""

    def __init__(self, model: OldChatModel) -> None:
        self._model = model

    @property
    def name(self) -> str:
        return self._model.name

    def stream(self, prompt: Prompt) -> AsyncIterator[Delta]:
        return self._model.stream(prompt.messages, schema=prompt.schema, tools=prompt.tools)


def takes_prompt(model: ChatModel | OldChatModel) -> ChatModel:
    """Returns the model, behind an adapter if its `stream` has the old parameters."""
    parts: Mapping[str, inspect.Parameter] = {}
    with suppress(AttributeError, TypeError, ValueError):
        parts = inspect.signature(cast("Any", model).stream).parameters
    # Whoever takes any keyword expects a schema and tools among them.
    takes_any = any(each.kind is each.VAR_KEYWORD for each in parts.values())
    is_old = not _OLD_NAMES.isdisjoint(parts) or (takes_any and "prompt" not in parts)
    return _TakesPrompt(cast("OldChatModel", model)) if is_old else cast("ChatModel", model)


def takes_messages(stream: _Stream) -> _Stream:
    """Lets old code call a new `stream` with messages, a schema and tools."""

    @functools.wraps(stream)
    def asked(
        self: object, prompt: Prompt | Sequence[Message], **parts: Any
    ) -> AsyncIterator[Delta]:
        if isinstance(prompt, Prompt):
            return stream(self, prompt, **parts)
        return stream(self, Prompt(prompt, **parts))

    return cast("_Stream", asked)
