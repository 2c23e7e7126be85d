"""Shows plans and runs: on one line, and as tables for notebooks, with all text escaped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Final

from plansmith.plan.conditions import rule_sentences
from plansmith.plan.data import Json
from plansmith.plan.refs import value_text
from plansmith.plan.sentence import joined
from plansmith.plan.steps import AnyStep, has_rules
from plansmith.text import clip, safe

_MAX_ROWS: Final = 100


def plan_line(goal: str, steps: Sequence[AnyStep], digest: str) -> str:
    """Returns a plan on one line, with the beginning of its hash."""
    return f"<Plan {clip(goal, 60)!r}, {_count(len(steps), 'step')}, {digest[:12]}>"


def plan_text(goal: str, steps: Sequence[AnyStep]) -> str:
    """Returns a plan as its goal and one line for each step, whatever its values hold."""
    lines = [f"{number}. {step.id}: {what_it_does(step)}" for number, step in enumerate(steps, 1)]
    return "\n".join(map(safe, (goal, *lines)))


def plan_html(goal: str, steps: Sequence[AnyStep], digest: str) -> str:
    """Returns a plan as a table of its steps."""
    rows = [(step.id, what_it_does(step), ", ".join(sorted(step.needed))) for step in steps]
    return _table(f"{goal} ({digest[:12]})", ("step", "does", "after"), rows)


def run_line(name: str, status: str, steps: Sequence[bool], request: str) -> str:
    """Returns a run on one line: its status, which steps are done, and what was asked."""
    far = f", {sum(steps)} of {_count(len(steps), 'step')} done" if steps else ""
    return f"<Run {name} {status}{far}, {clip(request, 60)!r}>"


def run_html(head: str, rows: Sequence[Sequence[str]], answer: str) -> str:
    """Returns a run as a table of its steps, with their results; its answer comes last."""
    answer_html = f"<pre>{escape(answer)}</pre>" if answer else ""
    return _table(head, ("step", "does", "status", "result"), rows) + answer_html


def what_it_does(step: AnyStep) -> str:
    """Returns what a step does and by which rules, with its references as they are written."""
    # Rules first, so that a long value never cuts them off.
    rules = f"[{joined(rule_sentences(step))}] " if has_rules(step) else ""
    match step.kind:
        case "tool":
            return f"{rules}{step.tool}({_given(step.inputs)})"
        case "agent":
            given = f"({_given(step.inputs)})" if step.inputs else ""
            return f"{rules}{step.agent}{given}: {step.task}"
        case "ask":
            return f"{rules}asks: {step.question}"
        case "reply":
            return f"{rules}replies: {step.instruction}"
        case "plan":
            template = f"{step.template}@{step.version}" if step.version else step.template
            return f"{rules}runs the template {template}({_given(step.inputs)})"
        case "map":
            return f"{rules}for each of {value_text(step.over)}: {what_it_does(step.each)}"


def _given(inputs: Mapping[str, Json]) -> str:
    return ", ".join(f"{name}={value_text(each)}" for name, each in inputs.items())


def _table(head: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    names = "".join(f"<th>{name}</th>" for name in columns)
    lines = [
        "".join(f"<td>{escape(clip(cell, 300))}</td>" for cell in row) for row in rows[:_MAX_ROWS]
    ]
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    left = len(rows) - _MAX_ROWS
    more = f"<p>… and {_count(left, 'more step')}</p>" if left > 0 else ""
    caption = f"<caption>{escape(clip(head, 300))}</caption>"
    return f"<table>{caption}<thead><tr>{names}</tr></thead><tbody>{body}</tbody></table>{more}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
