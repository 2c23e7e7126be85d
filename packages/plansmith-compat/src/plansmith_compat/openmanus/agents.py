"""The agents of an OpenManus flow: one, a list or a table, found by key, name or number."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol, cast, runtime_checkable

from pydantic import BaseModel, ConfigDict

_NUMBERED: Final = re.compile(r"agent_\d+|default")


@runtime_checkable
class Worker(Protocol):
    """An agent of OpenManus; `name` and `description` are used if it has them."""

    async def run(self, request: str) -> str:
        """Does what is asked, and returns what was done."""
        ...


Workers = Any  # one agent, a list of agents, or a table of agents by key


class BaseFlow(BaseModel, ABC):
    """A flow over agents; a subclass says how it executes a request."""

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    agents: dict[str, Any]
    tools: list[Any] | None = None
    primary_agent_key: str | None = None

    def __init__(self, agents: Workers, **data: Any) -> None:
        found = _by_key(agents)
        wanted = str(data.pop("primary_agent_key", None) or "").lower()
        key = aliases(found).get(wanted, next(iter(found), None))
        super().__init__(agents=found, primary_agent_key=key, **data)

    @property
    def primary_agent(self) -> Any:
        """The agent with `primary_agent_key`, else the first."""
        return self.agents.get(str(self.primary_agent_key))

    def get_agent(self, key: str) -> Any:
        """Returns the agent with a key, or None."""
        return self.agents.get(aliases(self.agents).get(key.lower(), key))

    def add_agent(self, key: str, agent: Any) -> None:
        """Adds an agent."""
        self.agents[key] = agent

    @abstractmethod
    async def execute(self, input_text: str) -> str:
        """Does what is asked."""


def _by_key(agents: Workers) -> dict[str, Any]:
    if isinstance(agents, Mapping):
        found = dict(cast("Mapping[str, Any]", agents))
    elif isinstance(agents, Sequence) and not isinstance(agents, str):
        listed = cast("Sequence[object]", agents)
        found = {f"agent_{place}": agent for place, agent in enumerate(listed)}
    else:
        found = {"default": agents}
    return found


def aliases(agents: Mapping[str, Any]) -> dict[str, str]:
    """Returns the keys of agents by what they answer to, in lower case: key, and name in a list."""
    names = spec_names(agents)
    by_name = {name.lower(): key for key, name in names.items()}
    return by_name | {key.lower(): key for key in agents}


def spec_names(agents: Mapping[str, Any]) -> dict[str, str]:
    """Returns the name of each agent for the planner: its own if its key is only a number."""
    own = {key: str(getattr(agent, "name", "") or key) for key, agent in agents.items()}
    lowered = [name.lower() for name in own.values()]
    numbered = all(_NUMBERED.fullmatch(key) for key in agents)
    unique = len({*lowered}) == len(lowered)
    usable = all(re.fullmatch(r"[^\W\d][\w-]*", name) for name in own.values())
    return own if numbered and unique and usable else {key: key for key in agents}
