"""OpenManus' LLM, which also writes plans, its agents, and a flow over several of them."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, Self, cast

from pydantic import BaseModel, ConfigDict, Field, model_validator

from plansmith.errors import Misconfigured, ModelFailed, ModelRefused
from plansmith.plan.capability import ToolSpec
from plansmith.ports import ArgumentsDelta, ChatModel, Delta, ModelDone, Prompt, TextDelta, Usage
from plansmith.ports import Message as PromptMessage
from plansmith_compat.openmanus import schema as s
from plansmith_compat.openmanus.schema import AgentState, Memory, Message, Role, ToolCall
from plansmith_compat.reading import loads
from plansmith_planner.context.fence import fence
from plansmith_planner.make import model as make_model
from plansmith_planner.make import model_of
from plansmith_planner.model_calls import read_calls
from plansmith_planner.model_planner import RULES
from plansmith_planner.models.tokens import count_prompt_tokens, count_tokens
from plansmith_planner.models.wrappers import closing

Messages = Sequence["dict[str, Any] | Message"]
_PROVIDERS: Final = {"azure": "azure", "aws": "bedrock"}
_PLANNING: Final = "planning"
# The names under which a model may hand over the plan: the function, and a form to fill.
_HANDED_OVER: Final = (_PLANNING, "answer", "")


class TokenLimitExceeded(s.OpenManusError, ModelFailed):
    """The call would exceed the token limit of all calls together."""


class LLM:
    """A model with OpenManus' calls, which counts its tokens and refuses calls beyond a limit.

    `model` is a model or its name; without one, `llm_config` says which (a table with `model`,
    `base_url`, `api_key` and `max_input_tokens`, or tables by config name), else the automatic
    choice is made.
    """

    def __init__(
        self,
        config_name: str = "default",
        llm_config: Any = None,
        *,
        model: ChatModel | str | None = None,
        max_input_tokens: int | None = None,
    ) -> None:
        config = _config(llm_config, config_name)
        most = max_input_tokens if max_input_tokens is not None else config.get("max_input_tokens")
        name = str(config.get("model") or "") if model is None else ""
        if name and ":" not in name:
            name = f"{_PROVIDERS.get(str(config.get('api_type') or '').lower(), 'openai')}:{name}"
        url, key = config.get("base_url") or None, config.get("api_key") or None
        self._model = make_model(name, base_url=url, api_key=key) if name else model_of(model)
        self.max_input_tokens: int | None = most
        self.total_input_tokens = 0
        self.total_completion_tokens = 0

    @property
    def name(self) -> str:
        return self._model.name

    model = name

    async def stream(self, prompt: Prompt) -> AsyncIterator[Delta]:
        """Streams the model's answer; raises `TokenLimitExceeded` beyond the limit."""
        needed = count_prompt_tokens(prompt.messages, schema=prompt.schema, tools=prompt.tools)
        if not self.check_token_limit(needed):
            used = f"{self.total_input_tokens} of {self.max_input_tokens} are used up"
            hint = f"{used}: raise max_input_tokens, or give the model less"
            raise TokenLimitExceeded(self.get_limit_error_message(needed), hint=hint)
        texts: list[str] = []
        pieces = self._model.stream(prompt)
        async with closing(pieces):
            async for delta in pieces:
                if self._model.name == RULES:
                    # They match words with tools, and the steps here are for agents.
                    hint = "give llm=… or model=…"
                    raise ModelRefused("there is no language model", hint=hint)
                if isinstance(delta, (TextDelta, ArgumentsDelta)):
                    texts.append(delta.text)
                if isinstance(delta, ModelDone):
                    # If the provider reports no usage, our own count is used.
                    read = delta.usage.input_tokens or needed
                    written = delta.usage.output_tokens or count_tokens("".join(texts))
                    self.update_token_count(read, written)
                yield delta

    def update_token_count(self, input_tokens: int, completion_tokens: int = 0) -> None:
        self.total_input_tokens += input_tokens
        self.total_completion_tokens += completion_tokens

    def check_token_limit(self, input_tokens: int) -> bool:
        most = self.max_input_tokens
        return most is None or self.total_input_tokens + input_tokens <= most

    def get_limit_error_message(self, input_tokens: int) -> str:
        if self.check_token_limit(input_tokens):
            return "Token limit exceeded"
        numbers = f"Current: {self.total_input_tokens}, Needed: {input_tokens}"
        return f"Request may exceed input token limit ({numbers}, Max: {self.max_input_tokens})"

    def count_tokens(self, text: str) -> int:
        return count_tokens(text)

    def count_message_tokens(self, messages: Messages) -> int:
        return count_prompt_tokens([_to_prompt(each) for each in self.format_messages(messages)])

    @staticmethod
    def format_messages(messages: Messages, supports_images: bool = False) -> list[dict[str, Any]]:  # noqa: FBT001, FBT002 - as OpenManus calls it
        """Returns messages as dictionaries; refuses unknown roles, leaves empty messages out."""
        formatted: list[dict[str, Any]] = []
        for given in messages:
            if not isinstance(given, Mapping) and not hasattr(given, "to_dict"):
                raise TypeError(f"Unsupported message type: {type(given)}")
            message = dict(given if isinstance(given, Mapping) else given.to_dict())
            if "role" not in message:
                raise ValueError("Message dict must contain 'role' field")
            image = message.pop("base64_image", None)
            if image and supports_images:
                url = {"url": f"data:image/jpeg;base64,{image}"}
                part = {"type": "image_url", "image_url": url}
                message["content"] = [*_parts(message.get("content")), part]
            if "content" not in message and "tool_calls" not in message:
                continue
            if message["role"] not in s.ROLE_VALUES:
                raise ValueError(f"Invalid role: {message['role']}")
            formatted.append(message)
        return formatted

    async def ask(
        self,
        messages: Messages,
        system_msgs: Messages | None = None,
        stream: bool = True,  # noqa: FBT001, FBT002 - as OpenManus calls it
        temperature: float | None = None,
    ) -> str:
        """Returns the model's answer; raises `TokenLimitExceeded` beyond the limit."""
        del stream, temperature  # the model's own settings say how it answers
        text, _ = await self._answer(messages, system_msgs)
        if not text.strip():
            raise ValueError("Empty response from LLM")
        return text.strip()

    async def ask_tool(
        self,
        messages: Messages,
        system_msgs: Messages | None = None,
        timeout: int = 300,  # noqa: ASYNC109 - as OpenManus calls it; the model has its own limit
        tools: Sequence[Mapping[str, Any]] | None = None,
        tool_choice: str = s.ToolChoice.AUTO,
        temperature: float | None = None,
        **more: Any,
    ) -> Message | None:
        """Returns the model's answer with its tool calls; None if it says nothing."""
        del timeout, temperature, more
        if tool_choice not in s.TOOL_CHOICE_VALUES:
            raise ValueError(f"Invalid tool_choice: {tool_choice}")
        if any("type" not in each for each in tools or ()):
            raise ValueError("Each tool must be a dict with 'type' field")
        offered: list[ToolSpec] = []
        for tool in tools if tools and tool_choice != s.ToolChoice.NONE else ():
            function: Mapping[str, Any] = tool.get("function") or {}
            name, about = str(function.get("name")), str(function.get("description") or "")
            schema = function.get("parameters") or {"type": "object"}
            offered.append(ToolSpec(name=name, description=about, input_schema=schema))
        text, calls = await self._answer(messages, system_msgs, offered)
        if not calls and tool_choice == s.ToolChoice.REQUIRED:
            raise ModelFailed(f"{self.name} called no tool, although it had to")
        if not text and not calls:
            return None
        return Message(role=Role.ASSISTANT, content=text or None, tool_calls=calls or None)

    async def _answer(
        self, messages: Messages, system_msgs: Messages | None, tools: Sequence[ToolSpec] = ()
    ) -> tuple[str, list[ToolCall]]:
        formatted = self.format_messages([*(system_msgs or ()), *messages])
        prompt = Prompt([_to_prompt(each) for each in formatted], tools=tools)
        answer = await read_calls(self.stream(prompt))
        found = [s.Function(name=tool, arguments=given) for tool, given in answer.calls]
        calls = [ToolCall(id=f"call_{n}", function=each) for n, each in enumerate(found, start=1)]
        return answer.text, calls


def _config(given: Any, name: str) -> dict[str, Any]:
    """Returns the settings of a model: given by themselves, or by the name of a config."""
    if given is None:
        return {}
    table: Mapping[str, Any] = given
    if not isinstance(given, Mapping):
        dumps = hasattr(given, "model_dump")
        table = cast("Mapping[str, Any]", given.model_dump() if dumps else vars(given))
    found = table.get(name, table.get("default"))
    if found is not None and not isinstance(found, str):
        return _config(found, name)
    return dict(table)


def _parts(content: Any) -> list[Any]:
    parts: list[Any] = [content] if isinstance(content, str) and content else list(content or ())
    return [{"type": "text", "text": each} if isinstance(each, str) else each for each in parts]


def _to_prompt(message: Mapping[str, Any]) -> PromptMessage:
    """Returns a message as a part of a prompt: a tool's result as data between marks."""
    role, parts = str(message["role"]), _parts(message.get("content"))
    if any(each.get("type") != "text" for each in parts):
        raise ValueError("this model reads text only: leave the images out")
    text = "\n".join(str(each["text"]) for each in parts)
    if role == Role.TOOL:
        return PromptMessage("user", fence(f"what the tool {message.get('name') or ''} gave", text))
    if calls := message.get("tool_calls"):
        text = f"{text}\n{json.dumps({'tool_calls': calls}, ensure_ascii=False)}".strip()
    return PromptMessage(cast("Any", role), text)


def llm_of(given: Any, *, model: ChatModel | str | None, max_input_tokens: int | None) -> Any:
    """Returns the model of a flow: OpenManus' own kind is kept, any other is wrapped."""
    if given is not None and model is not None:
        raise Misconfigured("a flow has one model", hint="give llm=… or model=…, not both")
    if given is None or isinstance(given, str) or not hasattr(given, "ask_tool"):
        return LLM(model=given if given is not None else model, max_input_tokens=max_input_tokens)
    if max_input_tokens is not None:
        hint = "give it to the LLM: LLM(max_input_tokens=…)"
        raise Misconfigured("max_input_tokens does not go with llm=", hint=hint)
    return given


class PlanningModel:
    """Makes a flow's `llm` write plans; a call of another function than `planning` is no plan.

    An `llm` with its own `ask_tool` is asked by it, as OpenManus does. `stopped` is called with
    the error of a token limit that stopped the planning.
    """

    def __init__(
        self, llm: Any, tool: Mapping[str, Any], *, stopped: Callable[[TokenLimitExceeded], None]
    ) -> None:
        self._llm = llm
        self._tool = tool
        self._stopped = stopped

    @property
    def name(self) -> str:
        return str(getattr(self._llm, "name", "") or getattr(self._llm, "model", "") or "llm")

    async def stream(self, prompt: Prompt) -> AsyncIterator[Delta]:
        llm = self._llm
        # The plain LLM is given the schema of plans; one that a program changed is asked its way.
        plain = isinstance(llm, LLM) and getattr(llm.ask_tool, "__func__", None) is LLM.ask_tool
        pieces = llm.stream(prompt) if plain else self._ask_tool(prompt)
        others = set[str]()
        try:
            async for delta in pieces:
                if not isinstance(delta, ArgumentsDelta) or delta.tool in _HANDED_OVER:
                    yield delta
                elif delta.tool not in others:
                    others.add(delta.tool)
                    yield TextDelta(f"The function {delta.tool} was called, not planning. ")
        except TokenLimitExceeded as error:
            self._stopped(error)
            raise

    async def _ask_tool(self, prompt: Prompt) -> AsyncIterator[Delta]:
        system = [each for each in prompt.messages if each.role == "system"]
        others = [each for each in prompt.messages if each.role != "system"]
        try:
            answer = await self._llm.ask_tool(
                messages=[Message(role=Role(each.role), content=each.text) for each in others],
                system_msgs=[Message.system_message(each.text) for each in system],
                tools=[self._tool],
                tool_choice=s.ToolChoice.AUTO,
            )
        except ModelFailed:
            raise
        except Exception as error:
            # The LLM of another program has an error class of its own for the limit.
            exceeded = type(error).__name__ == TokenLimitExceeded.__name__
            raise (TokenLimitExceeded if exceeded else ModelFailed)(str(error)) from error
        calls: Sequence[Any] = getattr(answer, "tool_calls", None) or ()
        given = [each.function.arguments for each in calls if each.function.name == _PLANNING]
        texts = [each if isinstance(each, str) else json.dumps(each) for each in given]
        if texts:
            # As in OpenManus, a call with broken arguments is passed over.
            read = [each for each in texts if loads(each) is not None]
            yield ArgumentsDelta(_PLANNING, [*read, *texts][0])
        else:
            yield TextDelta(str(getattr(answer, "content", "") or ""))
        yield ModelDone(Usage())


_NUMBERED: Final = re.compile(r"agent_\d+|default")
_STUCK: Final = (
    "You have said the same several times. Try another way, and leave out what did not work."
)


class BaseFlow(BaseModel, ABC):
    """A flow over agents: one, a list, or a table by key; a subclass says how it executes."""

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    agents: dict[str, Any]
    tools: list[Any] | None = None
    primary_agent_key: str | None = None

    def __init__(self, agents: Any, **data: Any) -> None:
        found = {"default": agents}
        if isinstance(agents, Mapping):
            found = dict(cast("Mapping[str, Any]", agents))
        elif isinstance(agents, Sequence) and not isinstance(agents, str):
            listed = cast("Sequence[object]", agents)
            found = {f"agent_{place}": agent for place, agent in enumerate(listed)}
        primary = str(data.pop("primary_agent_key", None) or "").lower()
        key = aliases(found).get(primary, next(iter(found), None))
        super().__init__(agents=found, primary_agent_key=key, **data)

    @property
    def primary_agent(self) -> Any:
        """The agent with `primary_agent_key`, else the first."""
        return self.agents.get(str(self.primary_agent_key))

    def get_agent(self, key: str) -> Any:
        return self.agents.get(aliases(self.agents).get(key.lower(), key))

    def add_agent(self, key: str, agent: Any) -> None:
        self.agents[key] = agent

    @abstractmethod
    async def execute(self, input_text: str) -> str: ...


def aliases(agents: Mapping[str, Any]) -> dict[str, str]:
    """Returns the keys of agents by what they answer to, in lower case: key, and name in a list."""
    by_name = {name.lower(): key for key, name in spec_names(agents).items()}
    return by_name | {key.lower(): key for key in agents}


def spec_names(agents: Mapping[str, Any]) -> dict[str, str]:
    """Returns the name of each agent for the planner: its own if its key is only a number."""
    own = {key: str(getattr(agent, "name", "") or key) for key, agent in agents.items()}
    numbered = all(_NUMBERED.fullmatch(key) for key in agents)
    unique = len({name.lower() for name in own.values()}) == len(own)
    usable = all(re.fullmatch(r"[^\W\d][\w-]*", name) for name in own.values())
    return own if numbered and unique and usable else {key: key for key in agents}


class BaseAgent(BaseModel, ABC):
    """An agent that takes steps until it is finished or has taken `max_steps`.

    Without an `llm` it has one with the automatic choice of a model.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="allow")

    name: str = "agent"
    description: str | None = None
    system_prompt: str | None = None
    next_step_prompt: str | None = None
    llm: Any = None
    memory: Memory = Field(default_factory=Memory)
    state: AgentState = AgentState.IDLE
    max_steps: int = 10
    current_step: int = 0
    duplicate_threshold: int = 2

    @model_validator(mode="after")
    def initialize_agent(self) -> Self:
        """Gives the agent its language model; a model of Plansmith may be given for it."""
        self.llm = llm_of(self.llm, model=None, max_input_tokens=None)
        return self

    @property
    def messages(self) -> list[Message]:
        return self.memory.messages

    @messages.setter
    def messages(self, messages: list[Message]) -> None:
        self.memory.messages = messages

    @abstractmethod
    async def step(self) -> str: ...

    async def run(self, request: str | None = None) -> str:
        """Takes steps for a request; says so if they were not enough."""
        if self.state is not AgentState.IDLE:
            raise RuntimeError(f"Cannot run agent from state: {self.state}")
        if request:
            self.update_memory("user", request)
        results: list[str] = []
        async with self.state_context(AgentState.RUNNING):
            while self.current_step < self.max_steps and not self._is_finished:
                self.current_step += 1
                results.append(f"Step {self.current_step}: {await self.step()}")
                if self.is_stuck():
                    self.handle_stuck_state()
            if self.current_step >= self.max_steps and not self._is_finished:
                results.append(f"Terminated: Reached max steps ({self.max_steps})")
            self.current_step = 0
        return "\n".join(results) or "No steps executed"

    @property
    def _is_finished(self) -> bool:
        return self.state is AgentState.FINISHED

    @asynccontextmanager
    async def state_context(self, new_state: AgentState) -> AsyncGenerator[None]:
        """Has the agent in another state for a while; an error leaves it in ERROR."""
        before, self.state = self.state, AgentState(new_state)
        try:
            yield
        except Exception:
            self.state = AgentState.ERROR
            raise
        finally:
            self.state = before

    def update_memory(
        self, role: str, content: str, base64_image: str | None = None, **more: Any
    ) -> None:
        if role not in list(Role):
            raise ValueError(f"Unsupported message role: {role}")
        given: dict[str, Any] = {"content": content, "base64_image": base64_image, **more}
        self.memory.add_message(Message(role=Role(role), **given))

    def is_stuck(self) -> bool:
        if len(self.messages) < 2 or not self.messages[-1].content:
            return False
        last, before = self.messages[-1], self.messages[:-1]
        same = [each for each in before if each.role is Role.ASSISTANT]
        return sum(each.content == last.content for each in same) >= self.duplicate_threshold

    def handle_stuck_state(self) -> None:
        self.next_step_prompt = f"{_STUCK}\n{self.next_step_prompt or ''}"
