"""How often the planner leaves a request alone: where no tool fits, and where one does."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from lab.bench.planning_score import steps_of
from plansmith.clock import SystemClock
from plansmith.plan.capability import ToolSpec
from plansmith.plan.planning import PlanRequest
from plansmith.ports import ChatModel
from plansmith_planner.pipeline import make_plan
from plansmith_planner.settings import PlannerSettings
from plansmith_planner.stages import PlannerDeps

HERE = Path(__file__).parent
# BFCL writes types as Python calls them.
TYPES = {"dict": "object", "float": "number", "tuple": "array", "any": "string"}


class Offer(NamedTuple):
    """A request with the tools on offer; `name` is what is told of it."""

    name: str
    text: str
    tools: tuple[ToolSpec, ...]


def bfcl_offers(path: Path, count: int) -> list[Offer]:
    """A fixed sample of a BFCL file."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    random.Random(3).shuffle(rows)
    return [
        Offer(row["id"], row["question"][0][-1]["content"], tuple(map(_bfcl_tool, row["function"])))
        for row in rows[:count]
    ]


def _bfcl_tool(row: dict[str, Any]) -> ToolSpec:
    schema = _typed(row["parameters"])
    return ToolSpec(name=row["name"], description=row["description"], input_schema=schema)


def _typed(schema: Any) -> Any:
    if isinstance(schema, dict):
        return {
            key: TYPES.get(each, each) if key == "type" and isinstance(each, str) else _typed(each)
            for key, each in schema.items()
        }
    return [_typed(each) for each in schema] if isinstance(schema, list) else schema


def own_offers(kind: str, tools: Iterable[ToolSpec]) -> list[Offer]:
    """The requests written for this bench: `unfit` or `fit`, with three tools each."""
    known = {each.name: each for each in tools}
    text = (HERE / "planning_gate.jsonl").read_text(encoding="utf-8")
    rows = [json.loads(line) for line in text.splitlines()]
    return [
        Offer(row["id"], row["query"], tuple(known[name] for name in row["tools"]))
        for row in rows
        if row["kind"] == kind
    ]


async def left_alone(model: ChatModel, offers: Sequence[Offer]) -> int:
    """How many of these requests get no call of a tool."""
    found = 0
    for offer in offers:
        settings = PlannerSettings(repairs=1)
        deps = PlannerDeps(
            plan_model=model, clock=SystemClock(), tools=offer.tools, settings=settings
        )
        planned = await make_plan(PlanRequest(offer.text), deps=deps)
        calls = steps_of(planned.plan)
        found += not calls
        print(f"{offer.name} {'call' if calls else 'no call'}", flush=True)
    return found


async def measure_gate(model: ChatModel, unfit: Sequence[Offer], fit: Sequence[Offer]) -> str:
    """The figures of both kinds, as a sentence."""
    right = await left_alone(model, unfit)
    lost = await left_alone(model, fit)
    return (
        f"Of {len(unfit)} requests that no tool fits, {right} were left alone; "
        f"of {len(fit)} that one fits, {lost} were lost."
    )
