"""What models are told and what they use, as data: messages, briefs, tokens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, ClassVar, Literal

if TYPE_CHECKING:
    from plansmith.plan.capability import AgentSpec, ToolSpec
    from plansmith.plan.data import Json
    from plansmith.plan.plan import Plan
    from plansmith.plan.steps import ReplyStyle


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a prompt.

    Attributes:
        role: Who says it.
        text: What is said.
    """

    # Records that hold messages check them again: programs make messages unchecked.
    __pydantic_config__: ClassVar = {"revalidate_instances": "always"}
    role: Literal["system", "user", "assistant"]
    text: str


@dataclass(frozen=True, slots=True)
class Usage:
    """The tokens of a model call.

    Attributes:
        input_tokens: The tokens of the prompt.
        output_tokens: The tokens of the answer.
        cached_tokens: Those of the prompt that the provider had in its cache.
        cost: The price in US dollars; None if it is unknown.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cost: Decimal | None = None


def total(*usages: Usage) -> Usage:
    """Adds usages up; the cost is unknown if one of them is."""
    costs = [each.cost for each in usages if each.input_tokens or each.output_tokens]
    known = [cost for cost in costs if cost is not None]
    return Usage(
        sum(each.input_tokens for each in usages),
        sum(each.output_tokens for each in usages),
        sum(each.cached_tokens for each in usages),
        sum(known[1:], known[0]) if known and len(known) == len(costs) else None,
    )


@dataclass(frozen=True, slots=True)
class ContextBlock:
    """Information for a planner: data, never instructions."""

    title: str
    text: str
    source: str = ""


@dataclass(frozen=True, slots=True)
class TriageBrief:
    """The task to decide whether a request is answered, planned, asked about or refused."""

    request: str


@dataclass(frozen=True, slots=True)
class MessageBrief:
    """The task to say what a message in a thread is for."""

    text: str


@dataclass(frozen=True, slots=True)
class PlanBrief:
    """The task to make a plan for a request with these tools and agents.

    `problems` are the problems of the model's previous plan. `enabled` are all tools, of which
    `tools` is the shortlist. `before` is the last request of the same conversation, and its plan.
    """

    request: str
    locale: str = "en"
    tools: tuple[ToolSpec, ...] = ()
    agents: tuple[AgentSpec, ...] = ()
    known: tuple[ContextBlock, ...] = ()
    now: str = ""
    previous: Plan | None = None
    feedback: str = ""
    problems: tuple[str, ...] = ()
    enabled: tuple[ToolSpec, ...] = ()
    before: tuple[str, Plan] | None = None


@dataclass(frozen=True, slots=True)
class ReplyBrief:
    """The task to write a reply; `results` holds the values of the instruction's references."""

    instruction: str
    results: Mapping[str, Json]
    style: ReplyStyle = "worded"
    locale: str = "en"


Brief = TriageBrief | MessageBrief | PlanBrief | ReplyBrief
