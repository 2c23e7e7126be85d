"""What a model is told to draft a plan, and its steps as soon as each is complete."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from plansmith.formats.dialect import dialect
from plansmith.formats.native import schema
from plansmith.plan.capability import AgentSpec, ToolSpec
from plansmith.plan.data import Json
from plansmith.plan.steps import AnyStep
from plansmith.ports import Message
from plansmith_planner.context.fence import fence
from plansmith_planner.model_calls import render
from plansmith_planner.parse.reply import parse_value
from plansmith_planner.parse.stream import JsonStream

OnStep = Callable[[AnyStep], None]
OnText = Callable[[str], None]


class Offer(NamedTuple):
    """The tools, agents and templates that a plan may use; `enabled` are all tools."""

    tools: Sequence[ToolSpec] = ()
    agents: Sequence[AgentSpec] = ()
    templates: Sequence[str] = ()
    enabled: Sequence[ToolSpec] = ()


def draft_messages(
    request: str,
    *,
    offer: Offer,
    context: str = "",
    max_steps: int = 12,
    locale: str = "en",
    prompts: Path | None = None,
    shape: str = "",
) -> list[Message]:
    """Makes the prompt: constant parts first, so that providers can cache them, the request last.

    `shape` is the dialect to draft in; empty means the plan language itself.
    """
    user = render(
        "request",
        folder=prompts,
        max_steps=str(max_steps),
        locale=locale,
        # Servers and agents of others describe themselves: their words are data too.
        tools=_fenced("tools", map(tool_line, offer.tools)),
        agents=_fenced("agents", map(agent_line, offer.agents)),
        templates=_fenced(
            "templates", (json.dumps(name, ensure_ascii=False) for name in offer.templates)
        ),
        context=context or "(no further context)",
        request=fence("request", request),
    )
    rules = render(shape or "draft", folder=prompts)
    return [Message("system", rules), Message("user", user)]


def draft_schema(shape: str = "") -> dict[str, Json]:
    """Returns the JSON Schema of a draft, in the plan language or in another system's shape."""
    return dialect(shape).schema() if shape else schema(for_models=True)


class StepStream:
    """Finds steps in a text that is still being written."""

    def __init__(self, on_step: OnStep) -> None:
        self._stream = JsonStream()
        self._on_step = on_step
        self._seen: set[str] = set()

    def feed(self, piece: str) -> None:
        """Adds the next piece of text."""
        for value in self._stream.feed(piece):
            # A step without an id gets one only when the whole plan is known.
            plan = parse_value([value]).plan if "id" in value else None
            if plan is not None and len(plan.steps) == 1 and plan.steps[0].id not in self._seen:
                self._seen.add(plan.steps[0].id)
                self._on_step(plan.steps[0])


def tool_line(tool: ToolSpec) -> str:
    """Describes a tool to the model as one line of JSON."""
    fields: dict[str, Json] = {
        "name": tool.name,
        "does": tool.description,
        "effect": tool.effect.value,
        "inputs": tool.input_schema,
    }
    if tool.output_schema is not None:
        fields["gives"] = tool.output_schema
    return json.dumps(fields, ensure_ascii=False)


def agent_line(agent: AgentSpec) -> str:
    """Describes an agent to the model as one line of JSON."""
    skills = [skill.to_json() for skill in agent.skills]
    fields = {"name": agent.name, "does": agent.description, "skills": skills}
    return json.dumps(fields, ensure_ascii=False)


def _fenced(title: str, lines: Iterable[str]) -> str:
    text = "\n".join(lines)
    return fence(title, text) if text else "(none)"
