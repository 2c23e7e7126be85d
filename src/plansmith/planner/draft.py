"""Draft: a model writes the first text of a plan."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence

from plansmith.dialects.native import schema
from plansmith.plan.capability import ToolSpec
from plansmith.planner.prompting import render
from plansmith.ports import ChatModel, Delta, Message


def draft(request: str, *, model: ChatModel, tools: Sequence[ToolSpec]) -> AsyncIterator[Delta]:
    """The plan's text, piece by piece, as the model writes it."""
    described = "\n".join(tool_line(tool) for tool in tools) or "(none)"
    messages = [
        Message("system", render("draft", tools=described)),
        Message("user", request),
    ]
    return model.stream(messages, schema=schema())


def tool_line(tool: ToolSpec) -> str:
    """A tool as the model reads it, on one line of JSON: data, whatever it says."""
    fields = {
        "name": tool.name,
        "does": tool.description,
        "effect": tool.effect,
        "inputs": tool.input_schema,
    }
    return json.dumps(fields, ensure_ascii=False)
