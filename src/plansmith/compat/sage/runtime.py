"""SAGE's tool registry and runtime: plans a query, runs the plan and writes the answer."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol, cast

from plansmith.app import Plansmith
from plansmith.compat.sage.model import Generator, model_of
from plansmith.compat.sage.planner import Profile
from plansmith.dialects.sage import read, write
from plansmith.errors import InvalidPlan, ToolFailed
from plansmith.plan.capability import ToolSpec, tool_spec
from plansmith.plan.data import Json
from plansmith.plan.limits import Limits
from plansmith.plan.next_move import AwaitReview, next_move
from plansmith.plan.run import Run
from plansmith.ports import Call, ChatModel, PlanStore

Review = Callable[[Run], bool]
_CALLER = "who called the runtime"


class Registered(Protocol):
    """A tool of SAGE; `description`, `input_schema` and `effect` are optional."""

    name: str

    def call(self, arguments: dict[str, Any]) -> Any:
        """Calls the tool and returns its result."""
        ...


class ToolRegistry:
    """Tools by name, for planners and runtimes."""

    def __init__(self) -> None:
        self._tools: dict[str, Registered] = {}

    def register(self, tool_obj: Any) -> None:
        """Adds a tool; replaces one with the same name."""
        named = isinstance(getattr(tool_obj, "name", None), str) and bool(tool_obj.name)
        if not named or not callable(getattr(tool_obj, "call", None)):
            raise TypeError("a tool must have a name and call(arguments)")
        self._tools[tool_obj.name] = tool_obj

    def describe(self) -> dict[str, dict[str, Any]]:
        """Returns every tool with description, input schema and, if stated, effect."""
        return {name: _about(tool) for name, tool in self._tools.items()}

    def call(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """Calls a tool."""
        if name not in self._tools:
            raise KeyError(f"there is no tool {name!r}; known: {', '.join(self._tools) or 'none'}")
        return self._tools[name].call(dict(arguments))

    def execute(self, data: Any = None) -> Any:
        """Describes the tools, or calls the one that `{"name", "arguments"}` names."""
        if data is None or data == "describe" or (isinstance(data, dict) and "name" not in data):
            return self.describe()
        if not isinstance(data, dict):
            raise TypeError("give nothing, 'describe', or a mapping with name and arguments")
        wanted = cast("dict[str, Any]", data)
        arguments = wanted.get("arguments", {})
        if not isinstance(wanted["name"], str) or not isinstance(arguments, dict):
            raise TypeError("'name' must be a text and 'arguments' a mapping")
        return self.call(wanted["name"], cast("dict[str, Any]", arguments))


MCPRegistry = ToolRegistry


class RegistryTools:
    """A registry as a source of tools; a tool without an effect counts as writing."""

    def __init__(self, registry: ToolRegistry) -> None:
        self._registry = registry

    async def tools(self) -> Sequence[ToolSpec]:
        """Returns the tools that are registered now."""
        table = self._registry.describe()
        return [tool_spec({**about, "name": name}) for name, about in table.items()]

    async def call(self, tool: str, arguments: Mapping[str, Json], call: Call) -> Json:
        """Calls a tool, in a thread unless it is a coroutine."""
        del call
        try:
            made = await asyncio.to_thread(self._registry.call, tool, arguments)
            return cast("Json", await made if inspect.isawaitable(made) else made)
        except KeyError as missing:
            raise ToolFailed(str(missing.args[0])) from None


def _about(tool: Registered) -> dict[str, Any]:
    about: dict[str, Any] = {
        "description": str(getattr(tool, "description", "") or ""),
        "input_schema": getattr(tool, "input_schema", None) or {},
    }
    effect = getattr(tool, "effect", None)
    return about | ({"effect": effect} if effect else {})


class Planner(Protocol):
    """What a runtime needs from its planner."""

    generator: Generator | ChatModel

    async def aplan(
        self, profile_system_prompt: Profile, user_query: str, tools: Any
    ) -> list[dict[str, Any]]:
        """Returns the steps."""
        ...


class AgentRuntime:
    """Plans with a planner and runs the plan with a registry, with a journal.

    As in SAGE, calling `execute` approves the plan; with `review` you decide on it first.
    `summarizer` writes the answer; by default the planner's generator does.
    """

    def __init__(
        self,
        profile: Profile,
        planner: Planner,
        tools: ToolRegistry,
        summarizer: Generator | ChatModel | None = None,
        *,
        store: str | PlanStore = "memory",
        review: Review = lambda _: True,
    ) -> None:
        self.profile = profile
        self.planner = planner
        self.tools = tools
        self.summarizer = summarizer
        self.run: Run | None = None
        self._store = store
        self._review = review

    @property
    def observations(self) -> list[dict[str, Any]]:
        """Returns the result of each tool step of the last query."""
        if self.run is None or self.run.plan is None:
            return []
        told = cast("dict[str, Any]", write(self.run.plan, self.run).value)
        return cast("list[dict[str, Any]]", told["observations"])

    def execute(self, data: Any) -> str:
        """Answers a query, given as text or as a mapping with `profile_overrides`."""
        table = cast("dict[str, Any]", data) if isinstance(data, dict) else {"query": data}
        query = table.get("user_query") or table.get("query")
        if not isinstance(query, str) or not query.strip():
            raise ValueError("give a query, or a mapping with 'user_query' (or 'query')")
        profile = self.profile.merged(**table.get("profile_overrides", {}))
        # A thread with its own event loop, so that it works inside a loop too.
        context = contextvars.copy_context()
        with ThreadPoolExecutor(1) as pool:
            work = pool.submit(context.run, asyncio.run, self.answer(query, profile))
            return work.result()

    async def answer(self, query: str, profile: Profile | None = None) -> str:
        """Does the same as `execute`, for async programs."""
        steps = await self.planner.aplan(profile or self.profile, query, self.tools.describe())
        reading = read(cast("Json", steps))
        if reading.plan is None:
            raise InvalidPlan(reading.problems)
        plan = reading.plan.replace(goal=query)
        smith = Plansmith(
            model=model_of(self.summarizer or self.planner.generator, query),
            tools=[RegistryTools(self.tools)],
            store=self._store,
            limits=Limits(max_replans=0, data="show"),
        )
        async with smith:
            run = await smith.submit(plan, request=query, by=_CALLER)
            move = next_move(run)
            if isinstance(move, AwaitReview):
                approved = self._review(run)
                decision = {"approve": move.hash} if approved else {}
                run = await smith.decide(run.id, reject=not approved, by=_CALLER, **decision)
            self.run = await smith.run(run.id)
            result = cast("dict[str, Any]", write(plan, self.run).value)
        return str(result["answer"])
