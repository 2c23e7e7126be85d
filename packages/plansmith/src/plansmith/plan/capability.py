"""What a plan may use: tools and agents, and what calling them does to the world."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final

from pydantic import Field, ValidationError

from plansmith.errors import Misconfigured
from plansmith.plan.data import Flag, Number, Record
from plansmith.plan.sentence import Sentence
from plansmith.plan.validation_errors import why_invalid

if TYPE_CHECKING:
    from plansmith.plan.plan import Plan
    from plansmith.plan.steps import AnyStep


class Effect(StrEnum):
    """What a call does: `read` changes nothing, `write` can be undone, `final` cannot.

    Examples:
        >>> from plansmith import Effect
        >>> max(Effect, key=lambda effect: effect.rank).value
        'final'
    """

    READ = "read"
    WRITE = "write"
    FINAL = "final"

    @property
    def rank(self) -> int:
        """How far-reaching the effect is: 0 for read, 2 for final."""
        return [*Effect].index(self)


def is_freed(name: str, effect: Effect, patterns: Sequence[str]) -> bool:
    """Tells whether settings free a call from questions, by patterns of names.

    What cannot be undone has to be named whole: a pattern also fits tools that come later.
    """
    if effect is Effect.FINAL:
        return name in patterns
    return any(fnmatchcase(name, each) for each in patterns)


# Lets callers write a schema as a plain dictionary, without our JSON type.
Schema = dict[str, Any]


class ToolSpec(Record):
    """A tool as a planner sees it; by default it writes, anywhere, and must not be repeated.

    Attributes:
        name: The name in plans.
        description: What it does, for the planner and for people.
        input_schema: The JSON Schema of its arguments.
        output_schema: The JSON Schema of its result, if it is known.
        effect: What a call does to the world.
        open_world: Whether it reads or changes things outside of this program.
        idempotent: Whether a call may be repeated under the same key.
        search: Whether it finds things by words, and may be used before planning.
        timeout_s: After how many seconds a call fails.
        tags: Words that help to find it.
        free: Whether a read costs nothing and may run before every approval, even where a person
            wants to see the plan first (True), or only if a person says so (False).

    Examples:
        >>> from plansmith import Effect, ToolSpec
        >>> ToolSpec(name="stock", effect=Effect.READ).to_json()
        {'name': 'stock', 'effect': 'read'}
    """

    name: str = Field(min_length=1, max_length=200)
    description: str = ""
    input_schema: Schema = {"type": "object"}
    output_schema: Schema | None = None
    effect: Effect = Effect.WRITE
    open_world: Flag = True
    idempotent: Flag = False
    search: Flag = False
    timeout_s: Number | None = Field(default=None, gt=0)
    tags: tuple[str, ...] = ()
    free: Flag | None = None


class Skill(Record):
    """One thing an agent's card says it can do."""

    name: str
    description: str = ""
    examples: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()


class AgentSpec(Record):
    """An agent as a planner sees it: its card, and how the planner may use it.

    Attributes:
        name: The name in plans.
        description: What it does, for the planner and for people.
        skills: What its card says it can do.
        examples: Tasks that it can carry out.
        tags: Words that help to find it.
        passthrough: Whether it takes whole requests, and never a step.
        hidden: Whether planners are not offered it.
        enabled: Whether it can be used at all.
        effect: What its work may do to the world.
        unattended: Whether schedules may call it although it changes something.

    Examples:
        >>> from plansmith import AgentSpec, Effect
        >>> AgentSpec(name="reader", description="Reads files", effect=Effect.READ).enabled
        True
    """

    name: str = Field(min_length=1, max_length=200)
    description: str = ""
    skills: tuple[Skill, ...] = ()
    examples: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    passthrough: Flag = False
    hidden: Flag = False
    enabled: Flag = True
    effect: Effect = Effect.WRITE
    unattended: Flag = False

    @property
    def takes_steps(self) -> bool:
        """Whether a plan may give it a step."""
        return self.enabled and not self.hidden and not self.passthrough


Tools = Sequence[ToolSpec] | Mapping[str, Mapping[str, object] | ToolSpec]
_SCHEMA_NAMES: Final = ("input_schema", "inputSchema", "parameters")


def tool_specs(tools: Tools) -> tuple[ToolSpec, ...]:
    """Returns specs for tools given as specs or as `{name: {"description", "input_schema"}}`."""
    if not isinstance(tools, Mapping):
        return tuple(tools)
    return tuple(
        entry if isinstance(entry, ToolSpec) else tool_spec({**entry, "name": name})
        for name, entry in tools.items()
    )


def tool_spec(entry: Mapping[str, object]) -> ToolSpec:
    """Reads a tool description in one of the usual shapes; ignores fields that no spec has."""
    known = {key: entry[key] for key in ToolSpec.model_fields if entry.get(key) is not None}
    schemas = (entry[name] for name in _SCHEMA_NAMES if isinstance(entry.get(name), dict))
    known["input_schema"] = next(schemas, dict[str, object]())
    try:
        return ToolSpec.model_validate(known)
    except ValidationError as error:
        about = {"name": entry.get("name", "?"), "error": why_invalid(error)}
        raise Misconfigured(Sentence("the tool '{name}' is not usable: {error}", **about)) from None


def effect_of(
    step: AnyStep, tools: Mapping[str, ToolSpec], agents: Mapping[str, AgentSpec]
) -> Effect:
    """Returns what the call of a step may do; an unknown tool or agent counts as a write."""
    if not (name := step.callee):
        return Effect.READ
    spec = agents.get(name) if step.kind == "agent" else tools.get(name)
    return spec.effect if spec is not None else Effect.WRITE


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What plans can call: tools and agents by name, and the plans of templates."""

    tools: Mapping[str, ToolSpec] = field(default_factory=dict[str, ToolSpec])
    agents: Mapping[str, AgentSpec] = field(default_factory=dict[str, AgentSpec])
    templates: Mapping[str, Plan] = field(default_factory=dict[str, "Plan"])

    def effect(self, step: AnyStep) -> Effect:
        """Returns what the call of a step may do; an unknown tool or agent counts as a write."""
        return effect_of(step, self.tools, self.agents)
