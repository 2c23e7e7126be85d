"""The models of DeerFlow's nodes, called as its code calls them, over any model of Plansmith."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import Any, Final, Generic, Literal, TypeVar, cast

from pydantic import BaseModel

from plansmith.errors import UnreadableText
from plansmith.plan.capability import ToolSpec
from plansmith.plan.data import Json
from plansmith.ports import ArgumentsDelta, ChatModel, Message, Prompt, TextDelta
from plansmith_compat.calling import in_own_loop
from plansmith_compat.deerflow.configuration import Configuration
from plansmith_compat.deerflow.messages import AIMessage, get_message_content, role_of, spoken
from plansmith_planner.make import model_of
from plansmith_planner.parse.read import read_json

_M = TypeVar("_M", bound=BaseModel)
_NODES: Final = ("coordinator", "planner", "researcher", "coder", "analyst", "reporter")
AGENT_LLM_MAP: Final[dict[str, str]] = dict.fromkeys(_NODES, "basic")
_ROLES: Final[Mapping[str, Literal["system", "user", "assistant"]]] = {
    "system": "system",
    "assistant": "assistant",
}


@dataclass(frozen=True, slots=True)
class Handoff:
    """A tool with which the coordinator says what is to happen next; it does nothing itself."""

    name: str
    description: str
    args: tuple[str, ...]

    def invoke(self, arguments: Mapping[str, Any]) -> None:
        """Does nothing: that it was called is all there is to it."""
        del arguments

    def spec(self) -> ToolSpec:
        """Returns the tool as models see it."""
        fields: dict[str, Json] = {name: {"type": "string"} for name in self.args}
        schema: dict[str, Json] = {"type": "object", "properties": fields, "required": [*self.args]}
        return ToolSpec(name=self.name, description=self.description, input_schema=schema)


@dataclass(frozen=True, slots=True)
class Llm:
    """A model with the calls that DeerFlow's nodes make."""

    model: ChatModel
    tools: tuple[Handoff, ...] = ()
    schema: Mapping[str, Json] | None = None

    def with_structured_output(self, kind: type[_M], method: str = "") -> Structured[_M]:
        """Returns the model as one that answers with such an object, whatever the method."""
        del method
        return Structured(replace(self, schema=kind.model_json_schema()), kind)

    def bind_tools(self, tools: Sequence[Handoff]) -> Llm:
        """Returns the model with tools that it may call."""
        return replace(self, tools=tuple(tools))

    def invoke(self, messages: str | Sequence[Any]) -> AIMessage:
        """Returns the model's whole answer; works with and without a running event loop."""
        return in_own_loop(self.ainvoke(messages))

    def stream(self, messages: str | Sequence[Any]) -> Iterator[AIMessage]:
        """Yields the answer in one piece."""
        yield self.invoke(messages)

    async def ainvoke(self, messages: str | Sequence[Any]) -> AIMessage:
        """Returns the model's whole answer, with the tools that it calls."""
        tools = [tool.spec() for tool in self.tools]
        prompt = Prompt(_messages(messages), schema=self.schema, tools=tools)
        said: list[str] = []
        calls: dict[str, str] = {}
        async with aclosing(cast("Any", self.model.stream(prompt))) as deltas:
            async for delta in deltas:
                if isinstance(delta, TextDelta):
                    said.append(delta.text)
                elif isinstance(delta, ArgumentsDelta):
                    calls[delta.tool] = calls.get(delta.tool, "") + delta.text
        made = [{"name": name, "args": _arguments(text)} for name, text in calls.items()]
        return AIMessage("".join(said), tool_calls=made)


@dataclass(frozen=True, slots=True)
class Structured(Generic[_M]):
    """A model that answers with an object of one class."""

    llm: Llm
    kind: type[_M]

    def invoke(self, messages: str | Sequence[Any]) -> _M:
        """Returns the answer as an object, or raises if it is none."""
        return in_own_loop(self.ainvoke(messages))

    async def ainvoke(self, messages: str | Sequence[Any]) -> _M:
        """Returns the answer as an object, or raises if it is none."""
        answer = await self.llm.ainvoke(messages)
        return self.kind.model_validate(read_json(answer.content))


def _messages(given: str | Sequence[Any]) -> list[Message]:
    """Returns a text, or messages as dicts or objects, for a model."""
    if isinstance(given, str):
        return [Message("user", given)]
    found: list[Message] = []
    for each in given:
        if role_of(each) == "system":
            found.append(Message("system", get_message_content(each)))
        else:
            said = spoken([each])
            found += [Message(_ROLES.get(one["role"], "user"), one["content"]) for one in said]
    return found


def _arguments(text: str) -> dict[str, Json]:
    try:
        found = read_json(text)
    except UnreadableText:
        return {}
    return found if isinstance(found, dict) else {}


def get_llm_by_type(kind: str, config: Mapping[str, Any] | None = None) -> Llm:
    """Returns the model for a kind: from the config's `models` or `model`, else the automatic one.

    Both stand under `configurable`, as objects or as names such as `openai:gpt-5`.
    """
    given = configured(config)
    kinds = cast("Mapping[str, ChatModel | str]", given.get("models") or {})
    return Llm(model_of(kinds.get(kind) or given.get("model")))


def configured(config: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Returns what stands under `configurable` in a graph's config."""
    found: Mapping[str, Any] = {}
    if config and "configurable" in config:
        found = config["configurable"]
    return found


def apply_prompt_template(
    name: str,
    state: Mapping[str, Any],
    configurable: Configuration | None = None,
    locale: str = "en-US",
) -> list[dict[str, str]]:
    """Returns the messages for a node: its prompt, the conversation, and its limits."""
    shipped = files("plansmith_compat.deerflow") / "prompts" / f"{name}.md"
    text = shipped.read_text(encoding="utf-8").replace("<<locale>>", locale)
    messages = [{"role": "system", "content": text}, *spoken(state.get("messages") or ())]
    if configurable is not None and name == "planner":
        most, steps = configurable.max_plan_iterations, configurable.max_step_num
        limits = f"At most {steps} steps. max_plan_iterations is {most}. Language: {locale}."
        messages.append({"role": "user", "content": limits})
    return messages
