"""Draws a plan as a tree."""

from __future__ import annotations

from typing import NamedTuple

from plansmith.plan.conditions import rule_sentences
from plansmith.plan.graph import Needs, order
from plansmith.plan.plan import Plan
from plansmith.plan.sentence import in_language, joined
from plansmith.plan.steps import StepFields
from plansmith.text import clip, safe
from plansmith_cli.ui.render import action

_DRAWN = ("rule.when", "rule.repeat")


class Branch(NamedTuple):
    """One line of the tree: the step, the drawing before it, and its further needs.

    `is_next`: it needs the step of the line above and nothing else is drawn between them.
    """

    step: str
    lead: str
    also: tuple[str, ...]
    is_next: bool = False


def tree(plan: Plan, locale: str = "en") -> str:
    """Returns the plan as a tree: each step once, under the need that comes latest."""
    lines: list[str] = []
    for branch in branches(plan):
        joins = f"  ⇠ {', '.join(branch.also)}" if branch.also else ""
        step, mark = plan.by_id[branch.step], "↓" if branch.is_next else "●"
        does = f"{clip(action(step, locale), 60)}{_condition(step, locale)}"
        lines.append(f"{branch.lead}{mark} {safe(branch.step)}  {does}{joins}")
    return "\n".join(lines) + "\n"


def _condition(step: StepFields, locale: str = "en") -> str:
    rules = [each for each in rule_sentences(step) if each.key.startswith(_DRAWN)]
    return f" ({clip(in_language(joined(rules), locale), 80)})" if rules else ""


def branches(plan: Plan) -> list[Branch]:
    """Returns the lines of the tree."""
    graph = plan.needs
    place = {step_id: number for number, step_id in enumerate(graph)}
    level = {step_id: depth for depth, row in enumerate(_levels(graph)) for step_id in row}
    parent = {
        step_id: max(before, key=lambda need: (level[need], -place[need]))
        for step_id, before in graph.items()
        if before
    }
    children: dict[str, list[str]] = {step_id: [] for step_id in graph}
    for step_id, above in parent.items():
        children[above].append(step_id)
    lines: list[Branch] = []
    stack = [(step_id, "", "", "") for step_id in reversed([*graph]) if step_id not in parent]
    while stack:
        step_id, lead, mark, below = stack.pop()
        also = sorted(safe(need) for need in graph[step_id] if need != parent.get(step_id))
        lines.append(Branch(step_id, lead + mark, tuple(also), step_id in parent and not mark))
        followers = children[step_id]
        # A chain stays in its column, so that a long one does not leave the screen.
        if len(followers) == 1:
            stack.append((followers[0], lead + below, "", ""))
            continue
        for follower in reversed(followers):
            last = follower == followers[-1]
            stack.append((follower, lead + below, "╰─" if last else "├─", "  " if last else "│ "))
    return lines


def _levels(graph: Needs) -> list[list[str]]:
    """Groups nodes by the length of the longest path that leads to them."""
    depth, result = dict[str, int](), list[list[str]]()
    for node in order(graph):
        depth[node] = max((depth[need] + 1 for need in graph[node]), default=0)
        result += [[]] if depth[node] == len(result) else []
        result[depth[node]].append(node)
    return result
