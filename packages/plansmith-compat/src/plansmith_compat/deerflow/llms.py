"""Messages and models of DeerFlow's nodes, as its code calls them, over any model of Plansmith."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files
from typing import Any, ClassVar, Final, Generic, TypeVar, cast

from pydantic import BaseModel

from plansmith.plan.capability import ToolSpec
from plansmith.plan.data import Json
from plansmith.ports import ChatModel, Message, Prompt
from plansmith_compat.calling import in_own_loop
from plansmith_compat.deerflow.configuration import Configuration, configured
from plansmith_compat.reading import json_in
from plansmith_planner.context.fence import fence
from plansmith_planner.make import model_of
from plansmith_planner.model_calls import read_calls
from plansmith_planner.parse.read import read_json

_M = TypeVar("_M", bound=BaseModel)
END: Final = "__end__"
_NODES: Final = ("coordinator", "planner", "researcher", "coder", "analyst", "reporter")
AGENT_LLM_MAP: Final[dict[str, str]] = dict.fromkeys(_NODES, "basic")
_SPEAKERS: Final = frozenset({"coordinator", "planner"})
_MEMBERS: Final = frozenset(
    {"researcher", "coder", "analyst", "reporter", "background_investigator", "observation"}
)


class GraphMessage(dict[str, Any]):
    """A message as an object and as a dict, so that a graph of langgraph takes it too."""

    role: ClassVar[str] = "user"

    def __init__(
        self, content: str, name: str = "", tool_calls: Sequence[Mapping[str, Any]] = ()
    ) -> None:
        super().__init__(role=self.role, content=content)
        if name:
            self["name"] = name
        self.tool_calls = list(tool_calls)

    @property
    def content(self) -> str:
        return str(self["content"])

    @property
    def name(self) -> str:
        """Who says it; empty for the person or the model itself."""
        return str(self.get("name", ""))


class HumanMessage(GraphMessage):
    """What a person says, or a node says to a model."""


class AIMessage(GraphMessage):
    """What a model says, and the tools it calls."""

    role: ClassVar[str] = "assistant"


@dataclass(frozen=True, slots=True)
class Command:
    """The next node, and what changes in the state."""

    goto: str = ""
    update: Mapping[str, Any] = field(default_factory=dict[str, Any])


class GraphInterrupt(Exception):
    """A node waits for a person: call it again with `interrupt_feedback` in the state."""

    def __init__(self, value: object) -> None:
        super().__init__(str(value))
        self.value = value


def command(goto: str, update: Mapping[str, Any]) -> Any:
    """Makes a command; langgraph's own in a program that has loaded langgraph."""
    kind: Any = getattr(sys.modules.get("langgraph.types"), "Command", Command)
    return kind(goto=goto, update=dict(update))


def interrupt(value: object) -> Any:
    """Waits for a person: langgraph's own interrupt in such a graph, else an exception."""
    loaded: Any = sys.modules.get("langgraph.types")
    if loaded is None:
        raise GraphInterrupt(value)
    return loaded.interrupt(value)


def get_message_content(message: object) -> str:
    """Returns the text of a message, an object or a dict, with the text of all its blocks."""
    content = _field(message, "content")
    return str(text_of_blocks(content) or content or "")


def text_of_blocks(content: object) -> str:
    """Returns the text of a content that is a list of blocks; empty if it is anything else."""
    blocks = cast("Sequence[Any]", content) if isinstance(content, list) else ()
    texts = [each if isinstance(each, str) else str(_field(each, "text") or "") for each in blocks]
    return "".join(texts)


def is_user_message(message: object) -> bool:
    """Whether a person wrote a message; what a node says in a person's role is not theirs."""
    return _name(message) not in _SPEAKERS | _MEMBERS and _role(message) in ("user", "human")


def prompt_messages(messages: Sequence[object]) -> list[dict[str, str]]:
    """Returns messages for a model; what the team found is fenced as data."""
    found: list[dict[str, str]] = []
    for message in messages:
        text, named = get_message_content(message), _name(message)
        role = "user" if is_user_message(message) else "assistant"
        if role == "assistant" and (named in _MEMBERS or _role(message) == "tool") and text:
            role, text = "user", fence(named or "tool", text)
        found += [{"role": role, "content": text}] if text else []
    return found


def _field(message: object, name: str) -> object:
    if isinstance(message, dict):
        return cast("dict[str, object]", message).get(name)
    return cast("object", getattr(message, name, None))


def _name(message: object) -> str:
    return str(_field(message, "name") or "").lower()


def _role(message: object) -> str:
    """Returns the role of a message: `user`, `system`, …, or langchain's `human`, `ai`, `tool`."""
    return str(_field(message, "role") or _field(message, "type") or "").lower()


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
        return replace(self, tools=tuple(tools))

    def invoke(self, messages: str | Sequence[Any]) -> AIMessage:
        """Returns the model's whole answer; works with and without a running event loop."""
        return in_own_loop(self.ainvoke(messages))

    def stream(self, messages: str | Sequence[Any]) -> Iterator[AIMessage]:
        """Yields the answer in one piece."""
        yield self.invoke(messages)

    async def ainvoke(self, messages: str | Sequence[Any]) -> AIMessage:
        tools = [tool.spec() for tool in self.tools]
        prompt = Prompt(_prompt(messages), schema=self.schema, tools=tools)
        answer = await read_calls(self.model.stream(prompt))
        made = [{"name": name, "args": _arguments(given)} for name, given in answer.calls]
        return AIMessage(answer.text, tool_calls=made)


@dataclass(frozen=True, slots=True)
class Structured(Generic[_M]):
    """A model that answers with an object of one class, or raises."""

    llm: Llm
    kind: type[_M]

    def invoke(self, messages: str | Sequence[Any]) -> _M:
        return in_own_loop(self.ainvoke(messages))

    async def ainvoke(self, messages: str | Sequence[Any]) -> _M:
        answer = await self.llm.ainvoke(messages)
        return self.kind.model_validate(read_json(answer.content))


def _prompt(given: str | Sequence[Any]) -> list[Message]:
    if isinstance(given, str):
        return [Message("user", given)]
    found: list[Message] = []
    for each in given:
        if _role(each) == "system":
            found.append(Message("system", get_message_content(each)))
        else:
            rows = prompt_messages([each])
            found += [Message(cast("Any", row["role"]), row["content"]) for row in rows]
    return found


def _arguments(text: str) -> dict[str, Json]:
    found = json_in(text)
    return found if isinstance(found, dict) else {}


def get_llm_by_type(kind: str, config: Mapping[str, Any] | None = None) -> Llm:
    """Returns the model for a kind: from the config's `models` or `model`, else the automatic one.

    Both stand under `configurable`, as objects or as names such as `openai:gpt-5`.
    """
    given = configured(config)
    kinds = cast("Mapping[str, ChatModel | str]", given.get("models") or {})
    return Llm(model_of(kinds.get(kind) or given.get("model")))


def apply_prompt_template(
    name: str,
    state: Mapping[str, Any],
    configurable: Configuration | None = None,
    locale: str = "en-US",
) -> list[dict[str, str]]:
    """Returns the messages for a node: its prompt, the conversation, and its limits."""
    shipped = files("plansmith_compat.deerflow") / "prompts" / f"{name}.md"
    text = shipped.read_text(encoding="utf-8").replace("<<locale>>", locale)
    messages = [{"role": "system", "content": text}, *prompt_messages(state.get("messages") or ())]
    if configurable is not None and name == "planner":
        most, steps = configurable.max_plan_iterations, configurable.max_step_num
        limits = f"At most {steps} steps. max_plan_iterations is {most}. Language: {locale}."
        messages.append({"role": "user", "content": limits})
    return messages
