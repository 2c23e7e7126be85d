"""OpenManus' agents: the base class of one, and a flow over several, found by key or name."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, Self, cast

from pydantic import BaseModel, ConfigDict, Field, model_validator

from plansmith_compat.openmanus.llm import llm_of
from plansmith_compat.openmanus.schema import AgentState, Memory, Message, Role

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
        wanted = str(data.pop("primary_agent_key", None) or "").lower()
        key = aliases(found).get(wanted, next(iter(found), None))
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
        said: list[str] = []
        async with self.state_context(AgentState.RUNNING):
            while self.current_step < self.max_steps and not self._is_finished:
                self.current_step += 1
                said.append(f"Step {self.current_step}: {await self.step()}")
                if self.is_stuck():
                    self.handle_stuck_state()
            if self.current_step >= self.max_steps and not self._is_finished:
                said.append(f"Terminated: Reached max steps ({self.max_steps})")
            self.current_step = 0
        return "\n".join(said) or "No steps executed"

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
        """Whether the agent has said the same text too often."""
        if len(self.messages) < 2 or not self.messages[-1].content:
            return False
        last, before = self.messages[-1], self.messages[:-1]
        same = [each for each in before if each.role is Role.ASSISTANT]
        return sum(each.content == last.content for each in same) >= self.duplicate_threshold

    def handle_stuck_state(self) -> None:
        self.next_step_prompt = f"{_STUCK}\n{self.next_step_prompt or ''}"
