"""Briefs: what a model call is about, as data for small models, rules and the demonstration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from plansmith.plan.capability import AgentSpec, ToolSpec
    from plansmith.plan.data import Json
    from plansmith.plan.plan import Plan
    from plansmith.plan.steps import ReplyStyle


@dataclass(frozen=True, slots=True)
class ContextBlock:
    """Information for a planner: data, never instructions."""

    title: str
    text: str
    source: str = ""


@dataclass(frozen=True, slots=True)
class TriageBrief:
    """The task to decide whether a request is answered, planned, asked about or refused.

    `before` is what the person asked for earlier in the same conversation.
    """

    request: str
    before: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MessageBrief:
    """The task to say what a message in a thread is for."""

    text: str


@dataclass(frozen=True, slots=True)
class PlanBrief:
    """The task to make a plan for a request with these tools and agents.

    `problems` are the problems of the model's previous plan. `enabled` are all tools, of which
    `tools` is the shortlist.
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


@dataclass(frozen=True, slots=True)
class ReplyBrief:
    """The task to write a reply; `results` holds the values of the instruction's references."""

    instruction: str
    results: Mapping[str, Json]
    style: ReplyStyle = "worded"
    locale: str = "en"


Brief = TriageBrief | MessageBrief | PlanBrief | ReplyBrief
