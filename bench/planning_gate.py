"""The gate of small models: how often it holds back where no tool fits, and where one does."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from plansmith.adapters.models.local.brief import DraftTask
from plansmith.adapters.models.local.gate import has_evidence, is_reply
from plansmith.adapters.models.local.model import LocalModel
from plansmith.adapters.models.local.prompt import draft_prompt
from plansmith.plan.capability import ToolSpec
from plansmith.ports import PlanBrief

NOW = "2026-01-05T09:00:00+00:00 (Monday, UTC)"
# BFCL writes types as Python calls them.
TYPES = {"dict": "object", "float": "number", "tuple": "array", "any": "string"}


def requests(path: Path, count: int) -> Iterator[tuple[str, list[ToolSpec]]]:
    """A fixed sample of a BFCL file: requests with the tools on offer."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    random.Random(3).shuffle(rows)
    for row in rows[:count]:
        tools = [
            ToolSpec(
                name=each["name"],
                description=each["description"],
                input_schema=_typed(each["parameters"]),
            )
            for each in row["function"]
        ]
        yield row["question"][0][-1]["content"], tools


def _typed(schema: Any) -> Any:
    if isinstance(schema, dict):
        return {
            key: TYPES.get(each, each) if key == "type" and isinstance(each, str) else _typed(each)
            for key, each in schema.items()
        }
    return [_typed(each) for each in schema] if isinstance(schema, list) else schema


async def held_back(model: LocalModel, path: Path, count: int) -> int:
    """Of so many requests of a file, how many only get a reply."""
    found = 0
    for text, tools in requests(path, count):
        task = DraftTask.of(PlanBrief(text, tools=tuple(tools), now=NOW))
        odds, _ = await model.odds(draft_prompt(task), '{"', ("reply", "calls"))
        replies = is_reply(odds, evidence=has_evidence(task.request, task.tools))
        found += replies
        print(f"{odds:+.2f} {'reply' if replies else 'calls'} {text[:70]}", flush=True)
    return found


async def measure_gate(model: LocalModel, unfit: Path, fit: Path, count: int) -> str:
    """The figures of both kinds, as a sentence."""
    right = await held_back(model, unfit, count)
    lost = await held_back(model, fit, count)
    return (
        f"Gate: of {count} requests no tool fits, {right} were only replied to; "
        f"of {count} that one fits, {lost} were lost."
    )
