"""Repair: the model mends its plan, told exactly what is wrong with it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

from plansmith.plan.data import Json
from plansmith.plan.plan import Plan
from plansmith.plan.problem import Problem, Severity
from plansmith.plan.steps import MapStep
from plansmith.planner.listen import listen
from plansmith.planner.parse import Parsed, parse
from plansmith.planner.prompting import render
from plansmith.ports import Brief, ChatModel, Message, PlanBrief, Prompt, Usage

_MOST_PROBLEMS: Final = 20
_WHOLE: Final = "Write the whole plan again."


class Repaired(NamedTuple):
    """The mended plan with its reading, and what asking took."""

    parsed: Parsed
    text: str
    usage: Usage


async def repair(  # noqa: PLR0913 - all that tells how by name
    prompt: Prompt,
    text: str,
    plan: Plan | None,
    problems: Sequence[Problem],
    *,
    model: ChatModel,
    goal: str,
    locale: str,
    prompts: Path | None = None,
    shape: str = "",
) -> Repaired:
    """One round: request, tools, text and problems go to the model; its answer is read.

    When only some steps are broken, only they are asked for, and put in their places; a plan in
    another system's shape is asked for whole, since steps have no ids there.
    """
    errors = [each for each in problems if each.severity is Severity.ERROR]
    broken = _broken_steps(plan, errors) if not shape else []
    what = _what(broken) if broken else _WHOLE
    told = render("repair", folder=prompts, problems=_problem_lines(errors), what=what)
    messages = [*prompt.messages, Message("assistant", text), Message("user", told)]
    heard = await listen(model.stream(Prompt(messages, brief=_brief(prompt.brief, errors))))
    parsed = parse(heard.text, goal=goal, locale=locale, shape=shape)
    if broken and plan is not None and parsed.plan is not None:
        parsed = Parsed(_spliced(plan, parsed.plan, broken), parsed.problems)
    return Repaired(parsed, heard.text, heard.usage)


def _brief(brief: Brief | None, errors: Sequence[Problem]) -> Brief | None:
    if not isinstance(brief, PlanBrief):
        return brief
    return replace(brief, problems=tuple(each.message for each in errors[:_MOST_PROBLEMS]))


def _broken_steps(plan: Plan | None, errors: Sequence[Problem]) -> list[str]:
    """The steps to ask for again, or none when the whole plan is needed."""
    if plan is None or not errors:
        return []
    names = {each.step for each in errors}
    inner = {step.each.id: step.id for step in plan.steps if isinstance(step, MapStep)}
    named = {inner.get(name or "", name) for name in names}
    if not all(name in plan.by_id for name in named) or len(named) * 2 > len(plan.steps):
        return []
    return [step.id for step in plan.steps if step.id in named]


def _what(broken: Sequence[str]) -> str:
    names = json.dumps(broken, ensure_ascii=False)
    return f'Write only these steps again, under their ids: {names}, as {{"steps": […]}}.'


def _problem_lines(problems: Sequence[Problem]) -> str:
    lines: list[str] = []
    for each in problems[:_MOST_PROBLEMS]:
        line: dict[str, Json] = {
            "code": each.code,
            "step": each.step,
            "field": ".".join(map(str, each.path)),
            "problem": each.message,
            "hint": each.hint,
        }
        lines.append(json.dumps(line, ensure_ascii=False))
    if len(problems) > _MOST_PROBLEMS:
        lines.append(json.dumps({"problem": f"and {len(problems) - _MOST_PROBLEMS} more"}))
    return "\n".join(lines)


def _spliced(plan: Plan, answer: Plan, broken: Sequence[str]) -> Plan:
    """The plan with the broken steps replaced; a whole plan in answer replaces it whole."""
    if len(answer.steps) >= len(plan.steps):
        return answer
    fresh = dict(answer.by_id)
    steps = [fresh.pop(step.id, step) if step.id in broken else step for step in plan.steps]
    new = [step for name, step in fresh.items() if name not in plan.by_id]
    return plan.replace(steps=(*new, *steps))
