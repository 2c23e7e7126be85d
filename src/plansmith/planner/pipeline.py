"""The line of stages from a request to a checked plan: draft > parse > check."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from plansmith.dialects.native import read_plan
from plansmith.plan.capability import ToolSpec
from plansmith.plan.plan import Plan
from plansmith.plan.problem import Problem
from plansmith.planner.check import check_plan
from plansmith.planner.draft import draft
from plansmith.ports import ArgumentsDelta, ChatModel, ModelDone, TextDelta, Usage

Tell = Callable[[str], None]


class Planned(NamedTuple):
    """What came of a request: a plan or none, its problems, the model's text, its cost."""

    plan: Plan | None
    problems: list[Problem]
    text: str
    usage: Usage


async def make_plan(
    request: str,
    *,
    model: ChatModel,
    tools: Sequence[ToolSpec],
    tell: Tell = lambda _: None,
) -> Planned:
    """A checked plan for a request; `tell` hears of each stage as it begins."""
    tell(f"draft: {model.name} writes a plan over {len(tools)} tools")
    text, usage = "", Usage()
    async for delta in draft(request, model=model, tools=tools):
        match delta:
            case TextDelta(piece) | ArgumentsDelta(text=piece):
                text += piece
            case ModelDone(usage=spent):
                usage = spent
    tell(f"parse: {len(text):,} characters")
    plan = read_plan(text)
    if not isinstance(plan, Plan):
        return Planned(None, plan, text, usage)
    plan = plan if plan.goal else plan.replace(goal=request)
    tell(f"check: {len(plan.steps)} steps")
    return Planned(plan, check_plan(plan, tools), text, usage)
