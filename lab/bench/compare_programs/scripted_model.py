"""A model that always makes the calls of the report, for pydantic-ai: no network, no key."""

from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel

SOURCES = ("alpha", "beta", "gamma")


def _answer(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
    said = {
        part.tool_call_id: str(part.content)
        for message in messages
        if isinstance(message, ModelRequest)
        for part in message.parts
        if isinstance(part, ToolReturnPart)
    }
    if "write" in said:
        return ModelResponse(parts=[TextPart("written")])
    if len(said) == len(SOURCES):
        text = ", ".join(said[source] for source in SOURCES)
        return ModelResponse(parts=[ToolCallPart("write", {"text": text}, tool_call_id="write")])
    calls = [ToolCallPart("read", {"source": each}, tool_call_id=each) for each in SOURCES]
    return ModelResponse(parts=calls)


SCRIPTED = FunctionModel(_answer)
