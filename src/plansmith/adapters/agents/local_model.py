"""Plansmith's own model port behind pydantic-ai's agent: messages as text, calls both ways.

The port knows text messages only, so calls and results are written into them; a model without
tool calls may write a call in the same words and is understood.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing
from typing import Any, Final, NamedTuple, cast

from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    ModelResponsePart,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.tools import ToolDefinition

from plansmith.plan.capability import Effect, ToolSpec
from plansmith.planner.old_models import takes_prompt
from plansmith.ports import (
    ArgumentsDelta,
    ChatModel,
    Delta,
    Message,
    ModelDone,
    Prompt,
    TextDelta,
    Usage,
)

FINISH: Final = "finish"
_CALL: Final = re.compile(r'<call tool="([^"\n]{1,200})">\s*(.*?)\s*</call>', re.DOTALL)
_LAST: Final = f"This is your last turn: call {FINISH} now, with what you have."


class Answer(NamedTuple):
    """What a model said: words, and calls as name and arguments in text."""

    text: str
    calls: list[tuple[str, str]]
    usage: Usage


def port_model(
    chat: ChatModel,
    specs: Sequence[ToolSpec],
    *,
    before: Callable[[], int],
    after: Callable[[Usage], None],
    history_chars: int,
) -> FunctionModel:
    """A chat model as an agent's model; `before` tells how many turns are left after this one."""
    known = {spec.name: spec for spec in specs}
    model = takes_prompt(chat)

    async def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        left = before()
        prompt = _rendered(messages, history_chars)
        if left == 0:
            prompt.append(Message("user", _LAST))
        offered = [*info.function_tools, *info.output_tools]
        tools = [known.get(each.name) or _spec(each) for each in offered]
        said = await _heard(model.stream(Prompt(_joined(prompt), tools=tools)))
        after(said.usage)
        return ModelResponse(parts=_parts(said, messages))

    return FunctionModel(answer, model_name=chat.name)


def _spec(tool: ToolDefinition) -> ToolSpec:
    return ToolSpec(
        name=tool.name,
        description=tool.description or "",
        input_schema=tool.parameters_json_schema,
        effect=Effect.READ,
        open_world=False,
    )


async def _heard(stream: AsyncIterator[Delta]) -> Answer:
    words: list[str] = []
    calls: list[tuple[str, list[str]]] = []
    usage = Usage()
    async with aclosing(cast("AsyncGenerator[Delta]", stream)) as deltas:
        async for delta in deltas:
            match delta:
                case TextDelta(text):
                    words.append(text)
                case ArgumentsDelta(tool, text):
                    if not calls or calls[-1][0] != tool:
                        calls.append((tool, []))
                    calls[-1][1].append(text)
                case ModelDone(usage=usage):
                    pass
    made = [(tool, text) for tool, pieces in calls for text in _values("".join(pieces))]
    return Answer("".join(words).strip(), made, usage)


def _values(text: str) -> list[str]:
    """The values in a text of several calls of one tool, which come without anything between."""
    found: list[str] = []
    decoder, at = json.JSONDecoder(), 0
    try:
        while at < len(text.rstrip()):
            start = at + len(text[at:]) - len(text[at:].lstrip())
            _, at = decoder.raw_decode(text, start)
            found.append(text[start:at])
    except ValueError:
        return [text]
    return found or ["{}"]


def _parts(said: Answer, messages: Sequence[ModelMessage]) -> list[ModelResponsePart]:
    calls, text = said.calls, said.text
    if not calls:
        calls = [(found[1], found[2]) for found in _CALL.finditer(text)]
        text = _CALL.sub("", text).strip()
    if not calls and text and _was_reminded(messages):
        # Told once to call something, it speaks again: its words are its result.
        calls, text = [(FINISH, json.dumps({"text": text}))], ""
    parts: list[ModelResponsePart] = [TextPart(text)] if text else []
    return [*parts, *(ToolCallPart(name, given) for name, given in calls)] or [TextPart("")]


def _was_reminded(messages: Sequence[ModelMessage]) -> bool:
    last = next((each for each in reversed(messages) if isinstance(each, ModelResponse)), None)
    return last is not None and not any(isinstance(part, ToolCallPart) for part in last.parts)


def _rendered(messages: Sequence[ModelMessage], history_chars: int) -> list[Message]:
    """All messages as text; the oldest results give way when there are too many."""
    room = history_chars
    rendered: list[Message] = []
    for message in reversed(messages):
        if isinstance(message, ModelResponse):
            rendered.append(Message("assistant", "\n".join(map(_of_response, message.parts))))
            continue
        for part in reversed(message.parts):
            text = _of_request(part)
            if isinstance(part, ToolReturnPart):
                room -= len(text)
                if room < 0:
                    text = f"(The result of {part.tool_name} is left out here to save room.)"
            first = isinstance(part, SystemPromptPart)
            rendered.append(Message("system" if first else "user", text))
    return rendered[::-1]


def _of_response(part: Any) -> str:
    if isinstance(part, ToolCallPart):
        return f'<call tool="{part.tool_name}">\n{part.args_as_json_str()}\n</call>'
    return str(getattr(part, "content", ""))


def _of_request(part: Any) -> str:
    if isinstance(part, ToolReturnPart):
        return part.model_response_str()
    return str(part.content)


def _joined(messages: Sequence[Message]) -> list[Message]:
    """Neighbours of one role as one message: some servers insist on taking turns."""
    joined: list[Message] = []
    for message in messages:
        if joined and joined[-1].role == message.role:
            last = joined.pop()
            joined.append(Message(last.role, f"{last.text}\n\n{message.text}"))
        else:
            joined.append(message)
    return joined
