"""Has a model write a plan, and passes on each step as soon as it is complete."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from plansmith.formats.dialect import dialect
from plansmith.formats.native import schema
from plansmith.plan.capability import AgentSpec, ToolSpec
from plansmith.plan.data import Json
from plansmith.plan.plan import Plan
from plansmith.plan.steps import AnyStep
from plansmith.ports import ChatModel, Message, Prompt
from plansmith_planner.context.fence import fence
from plansmith_planner.model_calls import ModelAnswer, read_answer, render
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


async def draft(
    prompt: Prompt,
    *,
    model: ChatModel,
    on_step: OnStep = lambda _: None,
    on_text: OnText = lambda _: None,
    on_progress: OnText = lambda _: None,
) -> ModelAnswer:
    """Returns the model's text; passes each readable step to `on_step` when it is complete."""
    steps = StepStream(on_step)

    def on_piece(piece: str) -> None:
        on_text(piece)
        steps.feed(piece)

    return await read_answer(model.stream(prompt), on_piece, on_progress)


class StepStream:
    """Finds steps in a text that is still being written."""

    def __init__(self, on_step: OnStep) -> None:
        self._stream = JsonStream()
        self._on_step = on_step
        self._seen: set[str] = set()

    def feed(self, piece: str) -> None:
        """Adds the next piece of text."""
        for item in self._stream.feed(piece):
            step = _single_step(item.value)
            # A step without an id gets one only when the whole plan is known.
            if step is not None and "id" in item.value and step.id not in self._seen:
                self._seen.add(step.id)
                self._on_step(step)


def _single_step(value: Json) -> AnyStep | None:
    plan: Plan | None = parse_value([value]).plan
    return plan.steps[0] if plan is not None and len(plan.steps) == 1 else None


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
    fields: dict[str, Json] = {
        "name": agent.name,
        "does": agent.description,
        "skills": [skill.to_json() for skill in agent.skills],
    }
    return json.dumps(fields, ensure_ascii=False)


def _fenced(title: str, lines: Iterable[str]) -> str:
    text = "\n".join(lines)
    return fence(title, text) if text else "(none)"
