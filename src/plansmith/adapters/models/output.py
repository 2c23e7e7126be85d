"""How a model is made to answer in the form of a schema, and which ways it has refused."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal, cast

from plansmith.plan.data import Json
from plansmith.ports import Message

Mode = Literal["json_schema", "tool", "text"]
MODES: Final[tuple[Mode, ...]] = ("json_schema", "tool", "text")

# What servers say when they cannot (OpenAI, vLLM, Ollama, llama.cpp, OpenRouter, LiteLLM, TGI),
# and pydantic-ai before it asks them.
_WORDS: Final[Mapping[Mode, tuple[str, ...]]] = {
    "json_schema": (
        *("response_format", "response format", "json_schema", "json schema", "json mode"),
        *("json_object", "structured output", "guided", "grammar", "invalid schema", "text.format"),
        "nativeoutput",
    ),
    "tool": ("tool", "function"),
    "text": (),
}
# llama.cpp and some proxies answer 500 or 404 to a parameter they do not know.
_STATUSES: Final = (400, 404, 405, 415, 422, 500, 501)
_NO_SCHEMAS: Final = ("const", "default", "enum", "examples", "required")


def is_mode_refusal(status: int | None, text: str, mode: Mode) -> bool:
    """Whether a server's error is about the way the answer was asked for."""
    said = text.lower()
    return status in _STATUSES and any(word in said for word in _WORDS[mode])


class OutputMemory:
    """Which output modes models have refused, so that nobody asks twice."""

    def __init__(self) -> None:
        self._refused: dict[str, set[Mode]] = {}

    def modes(self, model: str) -> tuple[Mode, ...]:
        """The modes worth trying, best first; text is always one."""
        return tuple(mode for mode in MODES if mode not in self._refused.get(model, ()))

    def refuse(self, model: str, mode: Mode) -> None:
        """Remember that a model refused a mode; nothing is below text."""
        if mode != "text":
            self._refused.setdefault(model, set()).add(mode)


def takes_object(schema: Mapping[str, Json]) -> bool:
    """Whether a schema's value is an object, as tools and some providers require."""
    return schema.get("type", "object") == "object"


def is_closed(schema: Mapping[str, Json]) -> bool:
    """Whether no object of a schema may have properties beyond those it names."""
    return all(each.get("additionalProperties") is False for each in _objects(schema))


def opened(schema: Mapping[str, Json]) -> dict[str, Json]:
    """The same schema, where objects of which it says nothing are open in so many words.

    Grammars made from schemas (llama.cpp, xgrammar) let such an object only be empty.
    """
    copy = cast("dict[str, Json]", json.loads(json.dumps(schema)))
    for each in _objects(copy):
        if not each.keys() & {"properties", "additionalProperties", "patternProperties", "$ref"}:
            each["additionalProperties"] = True
    return copy


def _objects(schema: object) -> Iterator[dict[str, Json]]:
    stack = [schema]
    while stack:
        node = stack.pop()
        if isinstance(node, Mapping):
            entry = cast("dict[str, Json]", node)
            if entry.get("type") == "object":
                yield entry
            stack += [value for key, value in entry.items() if key not in _NO_SCHEMAS]
        elif isinstance(node, list):
            stack += cast("list[object]", node)


def with_schema_text(messages: Sequence[Message], schema: Mapping[str, Json]) -> list[Message]:
    """The messages with the schema in words, for models that know no other way.

    It goes into the first message: the start of the prompt stays the same from call to call,
    and no two messages of one role follow each other, which some chat templates refuse.
    """
    words = json.dumps(schema, ensure_ascii=False, separators=(",", ":"))
    text = f"Answer with JSON only, in the form of this JSON Schema:\n{words}"
    if not messages or messages[0].role == "assistant":
        return [Message("user", text), *messages]
    first = messages[0]
    return [Message(first.role, f"{first.text}\n\n{text}"), *messages[1:]]
