"""Sends the problems of a plan back to the model, and puts what it changed into the plan."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

from plansmith.check.rehearsal import WOULD_FAIL
from plansmith.plan.data import Json
from plansmith.plan.plan import Plan
from plansmith.plan.problem import Problem, Severity
from plansmith.plan.steps import MapStep
from plansmith.ports import Brief, ChatModel, Message, PlanBrief, Prompt, Usage
from plansmith_planner.context.fence import fence
from plansmith_planner.model_calls import read_answer, render
from plansmith_planner.parse.reply import Parsed, parse_answer

_MOST_PROBLEMS: Final = 20
_WHOLE: Final = "Write the whole plan again."


class Repaired(NamedTuple):
    """The repaired plan, the model's text, and what the call cost."""

    parsed: Parsed
    text: str
    usage: Usage


async def repair(  # noqa: PLR0913 - the options are keyword-only
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
    """Sends the problems of a plan to the model, and reads its answer.

    If only some steps are broken, the model rewrites only these. A plan in another system's shape
    is always rewritten whole, since its steps have no ids.
    """
    errors = [each for each in problems if each.severity is Severity.ERROR]
    broken = _broken_steps(plan, errors) if not shape else []
    what = _what(broken) if broken else _WHOLE
    instruction = render("repair", folder=prompts, problems=_problem_lines(errors), what=what)
    messages = [*prompt.messages, Message("assistant", text), Message("user", instruction)]
    answer = await read_answer(model.stream(Prompt(messages, brief=_brief(prompt.brief, errors))))
    parsed = await parse_answer(answer.text, goal=goal, locale=locale, shape=shape)
    if broken and plan is not None and parsed.plan is not None:
        parsed = Parsed(_spliced(plan, parsed.plan, broken), parsed.problems)
    return Repaired(parsed, answer.text, answer.usage)


def _brief(brief: Brief | None, errors: Sequence[Problem]) -> Brief | None:
    if not isinstance(brief, PlanBrief):
        return brief
    return replace(brief, problems=tuple(each.message for each in errors[:_MOST_PROBLEMS]))


def _broken_steps(plan: Plan | None, errors: Sequence[Problem]) -> list[str]:
    """Returns the steps to ask for again; empty when the whole plan is needed."""
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
    shown = problems[:_MOST_PROBLEMS]
    lines = [_problem_line(each) for each in shown if each.code != WOULD_FAIL]
    # What a tool says may hold words of files: it is data.
    told = [_problem_line(each) for each in shown if each.code == WOULD_FAIL]
    lines += [fence("what the tools say about these calls", "\n".join(told))] if told else []
    if len(problems) > _MOST_PROBLEMS:
        lines.append(json.dumps({"problem": f"and {len(problems) - _MOST_PROBLEMS} more"}))
    return "\n".join(lines)


def _problem_line(each: Problem) -> str:
    line: dict[str, Json] = {
        "code": each.code,
        "step": each.step,
        "field": ".".join(map(str, each.path)),
        "problem": each.message,
        "hint": each.hint,
    }
    return json.dumps(line, ensure_ascii=False)


def _spliced(plan: Plan, answer: Plan, broken: Sequence[str]) -> Plan:
    """Returns the plan with the broken steps replaced; an answer with a whole plan replaces it."""
    if len(answer.steps) >= len(plan.steps):
        return answer
    fresh = dict(answer.by_id)
    steps = [fresh.pop(step.id, step) if step.id in broken else step for step in plan.steps]
    new = [step for name, step in fresh.items() if name not in plan.by_id]
    return plan.replace(steps=(*new, *steps))
