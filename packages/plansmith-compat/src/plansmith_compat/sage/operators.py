"""SAGE's operators: the base class of its pipelines, the profile, and the registry of tools."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import asdict, dataclass, field, fields
from importlib import import_module
from typing import Any, Final, Self, TypeVar, cast

from pydantic_core import from_json, to_json

from plansmith.errors import ToolFailed
from plansmith.plan.capability import ToolSpec, tool_spec
from plansmith.plan.data import Json
from plansmith.plan.run_options import Profile
from plansmith.ports import Call
from plansmith_compat.calling import await_value, in_thread

_T = TypeVar("_T")
# Where SAGE's own base class stands in its releases, the newest first.
_HOMES: Final = (
    "sage.common.core.functions",
    "sage.kernel.api.function.map_function",
    "sage.core.api.function.map_function",
)
_GUIDANCE: Final = """Guidance:
- Stay aligned with the role and goals.
- Prefer structured, verifiable outputs.
"""
_LISTS: Final = ("goals", "tasks", "hard_constraints", "soft_constraints")
# SAGE's own fields are always written, ours only where they are used.
_OURS: Final = ("hard_constraints", "soft_constraints")
_log: Final = logging.getLogger(__name__)


class MapFunction(ABC):
    """A function of a SAGE pipeline: `stream.map(LLMPlanner, generator)`.

    Where SAGE is installed, subclasses count as subclasses of its own `MapFunction` too. The
    pipeline sets `ctx`.
    """

    ctx: Any = None

    @abstractmethod
    def execute(self, data: Any) -> Any: ...

    @property
    def logger(self) -> Any:
        own = logging.getLogger(f"{__name__}.{type(self).__name__}")
        return getattr(self.ctx, "logger", None) or own


for _home in _HOMES:
    try:
        import_module(_home).MapFunction.register(MapFunction)
    except Exception as _error:  # noqa: BLE001 - whatever an installation of SAGE lacks
        _log.debug("no SAGE at %s: %s", _home, _error)


@contextmanager
def with_settings(operator: _T, **settings: Any) -> Generator[_T]:
    """Yields an operator with other settings for one call, which no other thread sees."""
    other = copy(operator)
    vars(other).update(settings)
    yield other
    left = {name: each for name, each in vars(other).items() if name not in settings}
    vars(operator).update(left)


class SystemPrompt(str):
    """The text of a profile, which still knows the profile and so its constraints."""

    __slots__ = ("profile",)
    profile: BaseProfile


@dataclass
class BaseProfile(MapFunction):
    """A profile with SAGE's fields, and with constraints, which plans are checked against."""

    name: str = "BaseAgent"
    role: str = "general assistant"
    goals: list[str] = field(default_factory=list[str])
    tasks: list[str] = field(default_factory=list[str])
    backstory: str = ""
    language: str = "zh"
    tone: str = "concise"
    hard_constraints: list[str] = field(default_factory=list[str])
    soft_constraints: list[str] = field(default_factory=list[str])

    def __post_init__(self) -> None:
        for name in _LISTS:
            given: Any = getattr(self, name)
            setattr(self, name, [given] if isinstance(given, str) else [*(given or ())])

    def render_system_prompt(self) -> SystemPrompt:
        introduction = f"You are **{self.name}**, acting as **{self.role}**."
        parts = [
            f"{introduction}\nLanguage: {self.language}\nTone: {self.tone}",
            f"Backstory:\n{self.backstory or '(none)'}",
            f"Goals:\n{_items(self.goals)}",
            f"Typical Tasks:\n{_items(self.tasks)}",
            _GUIDANCE,
        ]
        if self.hard_constraints:
            parts.append(f"Hard constraints:\n{_items(self.hard_constraints)}\n")
        if self.soft_constraints:
            parts.append(f"Soft constraints:\n{_items(self.soft_constraints)}\n")
        prompt = SystemPrompt("\n\n".join(parts))
        prompt.profile = self
        return prompt

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields as plain values; constraints only if there are any."""
        return {name: each for name, each in asdict(self).items() if each or name not in _OURS}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Makes a profile from its fields; what a profile does not have is logged and left out."""
        known = [each.name for each in fields(cls)]
        unknown = [name for name in data if name not in known]
        if unknown:
            _log.warning("a profile has no %s; it has %s", ", ".join(unknown), ", ".join(known))
        return cls(**{name: each for name, each in data.items() if name in known})

    def merged(self, **overrides: Any) -> Self:
        """Returns a copy with other values in some fields; None leaves a field unchanged."""
        own = {each.name: getattr(self, each.name) for each in fields(self)}
        changes = {name: each for name, each in overrides.items() if each is not None}
        return type(self).from_dict(own | changes)

    def execute(self, data: Any = None) -> str:
        """Returns the text; a mapping changes fields for this call only."""
        changes: dict[str, Any] = {**data} if isinstance(data, dict) else {}
        return self.merged(**changes).render_system_prompt()


def briefing_of(profile: str | BaseProfile) -> Profile:
    """Returns our planner's form of a profile that is given by itself or as text."""
    known = getattr(profile, "profile", profile)
    if not isinstance(known, BaseProfile):
        return Profile(backstory=str(profile), tone="")
    return Profile.model_validate(
        {each.name: getattr(known, each.name) for each in fields(BaseProfile)}
    )


def _items(texts: list[str]) -> str:
    return "\n".join(f"- {text}" for text in texts) or "- （未指定）"


class ToolRegistry(MapFunction):
    """Tools by name: objects with `name`, `call(arguments)`, and what describes them."""

    def __init__(self) -> None:
        self._tools: dict[str, Any] = {}

    def register(self, tool_obj: Any) -> None:
        """Adds a tool; replaces one with the same name."""
        named = isinstance(getattr(tool_obj, "name", None), str) and bool(tool_obj.name)
        if not named or not callable(getattr(tool_obj, "call", None)):
            raise TypeError("a tool must have a name and call(arguments)")
        self._tools[tool_obj.name] = tool_obj

    def describe(self) -> dict[str, dict[str, Any]]:
        """Returns every tool with description, input schema and, if stated, effect."""
        described: dict[str, dict[str, Any]] = {}
        for name, tool in self._tools.items():
            schema, effect = getattr(tool, "input_schema", None), getattr(tool, "effect", None)
            described[name] = {
                "description": str(getattr(tool, "description", "") or ""),
                "input_schema": cast("dict[str, Any]", schema) if isinstance(schema, dict) else {},
            }
            described[name] |= {"effect": effect} if isinstance(effect, str) else {}
        return described

    def call(self, name: str, arguments: Any) -> Any:
        """Calls a tool; the tool itself judges its arguments."""
        if name not in self._tools:
            known = ", ".join(self._tools) or "none"
            raise KeyError(f"Tool not found: {name}; known: {known}")
        return self._tools[name].call(arguments)

    def execute(self, data: Any = None) -> Any:
        """Describes the tools, or calls the one that `{"name", "arguments"}` names."""
        if data is None or data == "describe":
            return self.describe()
        if not isinstance(data, dict):
            raise TypeError(
                "MCPRegistry.execute expects None/'describe' or a dict with 'name' and 'arguments'"
            )
        request = cast("dict[str, Any]", data)
        op = request.get("op")
        if op not in (None, "call", "describe"):
            raise ValueError(f"Unsupported op: {op}; use 'describe' or 'call'")
        if "name" not in request and op != "call":
            return self.describe()
        name, arguments = request.get("name"), request.get("arguments", {})
        if not isinstance(name, str) or not name:
            raise ValueError("Missing or invalid 'name': give the name of a registered tool")
        if not isinstance(arguments, dict):
            raise TypeError("'arguments' must be a dict")
        return self.call(name, arguments)


MCPRegistry = ToolRegistry


class RegistryTools:
    """A registry as a source of tools; a tool without an effect counts as writing."""

    def __init__(self, registry: ToolRegistry) -> None:
        self._registry = registry

    async def tools(self) -> Sequence[ToolSpec]:
        table = self._registry.describe()
        return [tool_spec({**about, "name": name}) for name, about in table.items()]

    async def call(self, tool: str, arguments: Mapping[str, Json], call: Call) -> Json:
        """Calls a tool, in a thread unless it is a coroutine."""
        del call
        if tool not in self._registry.describe():
            raise ToolFailed(f"Tool not found: {tool}")
        return plain(await await_value(await in_thread(self._registry.call, tool, dict(arguments))))


def plain(value: object) -> Json:
    """Returns any Python value of a program as plain data, as a journal holds it."""
    return cast("Json", from_json(to_json(value, fallback=str, inf_nan_mode="strings")))
