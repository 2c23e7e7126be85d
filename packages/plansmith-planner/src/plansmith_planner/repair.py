"""Tells a model what is wrong with its plan, and puts what it changed into the plan."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from plansmith.check.rehearsal import WOULD_FAIL
from plansmith.plan.plan import Plan
from plansmith.plan.problem import Problem
from plansmith.plan.steps import MapStep
from plansmith.ports import Message, PlanBrief, Prompt
from plansmith_planner.context.fence import fence
from plansmith_planner.model_calls import render

_MOST_PROBLEMS: Final = 20


def repair_prompt(
    prompt: Prompt,
    text: str,
    errors: Sequence[Problem],
    broken: Sequence[str],
    *,
    prompts: Path | None = None,
) -> Prompt:
    """Returns a prompt with the errors of a plan; without `broken` it asks for the whole plan."""
    names = json.dumps(broken, ensure_ascii=False)
    what = "Write the whole plan again."
    if broken:
        what = f'Write only these steps again, under their ids: {names}, as {{"steps": […]}}.'
    shown = errors[:_MOST_PROBLEMS]
    lines = [_line(each) for each in shown if each.code != WOULD_FAIL]
    # What a tool says may hold words of files: it is data.
    told = [_line(each) for each in shown if each.code == WOULD_FAIL]
    lines += [fence("what the tools say about these calls", "\n".join(told))] if told else []
    if len(errors) > len(shown):
        lines.append(json.dumps({"problem": f"and {len(errors) - len(shown)} more"}))
    instruction = render("repair", folder=prompts, problems="\n".join(lines), what=what)
    messages = [*prompt.messages, Message("assistant", text), Message("user", instruction)]
    brief = prompt.brief
    if isinstance(brief, PlanBrief):
        brief = replace(brief, problems=tuple(each.message for each in shown))
    return Prompt(messages, brief=brief)


def _line(each: Problem) -> str:
    line = {
        "code": each.code,
        "step": each.step,
        "field": ".".join(map(str, each.path)),
        "problem": each.message,
        "hint": each.hint,
    }
    return json.dumps(line, ensure_ascii=False)


def broken_steps(plan: Plan | None, errors: Sequence[Problem]) -> list[str]:
    """Returns the steps to ask for again; empty when the whole plan is needed."""
    if plan is None or not errors:
        return []
    inner = {step.each.id: step.id for step in plan.steps if isinstance(step, MapStep)}
    named = {inner.get(each.step or "", each.step) for each in errors}
    if not all(name in plan.by_id for name in named) or len(named) * 2 > len(plan.steps):
        return []
    return [step.id for step in plan.steps if step.id in named]


def spliced(plan: Plan, answer: Plan, broken: Sequence[str]) -> Plan:
    """Returns the plan with the broken steps replaced; an answer with a whole plan replaces it."""
    if len(answer.steps) >= len(plan.steps):
        return answer
    fresh = dict(answer.by_id)
    steps = [fresh.pop(step.id, step) if step.id in broken else step for step in plan.steps]
    new = [step for name, step in fresh.items() if name not in plan.by_id]
    return plan.replace(steps=(*new, *steps))
