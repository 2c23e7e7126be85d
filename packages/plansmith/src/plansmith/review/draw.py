"""Draws a plan as a tree or as a Mermaid graph."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from plansmith.plan.conditions import rule_sentences
from plansmith.plan.graph import Needs, levels, needs
from plansmith.plan.plan import Plan
from plansmith.plan.sentence import in_language, joined
from plansmith.plan.steps import StepFields
from plansmith.review.render import action
from plansmith.text import clip, safe

_SHAPES = {
    "tool": ("[", "]"),
    "agent": ("([", "])"),
    "ask": ("{{", "}}"),
    "map": ("[[", "]]"),
    "plan": ("[/", "/]"),
    "reply": (">", "]"),
}


def mermaid(plan: Plan) -> str:
    """Returns the plan as a Mermaid flow chart."""
    graph = needs(plan)
    place = {step_id: number for number, step_id in enumerate(graph)}
    names = {step_id: f"s{number}" for step_id, number in place.items()}
    lines = ["flowchart TD"]
    for step_id, name in names.items():
        step = plan.by_id[step_id]
        left, right = _SHAPES[step.kind]
        lines.append(f'  {name}{left}"{_label(step)}"{right}')
    for step_id, before in graph.items():
        lines += [
            f"  {names[need]} --> {names[step_id]}"
            for need in sorted(before, key=place.__getitem__)
        ]
    return "\n".join(lines) + "\n"


def _label(step: StepFields) -> str:
    text = f"{step.id}: {clip(step.title or action(step), 60)}{_condition(step)}"
    # These are markup in Mermaid; its entities are safe everywhere.
    return "".join(letter if letter not in _MARKUP else f"#{ord(letter)};" for letter in safe(text))


_DRAWN = ("rule.when", "rule.repeat")
_MARKUP = frozenset('"#;<>&`{}[]()|\\')


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
    """Says under which condition a step runs and how often, if it says so itself."""
    rules = [each for each in rule_sentences(step) if each.key.startswith(_DRAWN)]
    return f" ({clip(in_language(joined(rules), locale), 80)})" if rules else ""


def branches(plan: Plan) -> list[Branch]:
    """Returns the lines of the tree."""
    graph = needs(plan)
    place = {step_id: number for number, step_id in enumerate(graph)}
    level = {step_id: depth for depth, row in enumerate(levels(graph)) for step_id in row}
    parent = {
        step_id: max(before, key=lambda need: (level[need], -place[need]))
        for step_id, before in graph.items()
        if before
    }
    children: dict[str, list[str]] = {step_id: [] for step_id in graph}
    for step_id, above in parent.items():
        children[above].append(step_id)
    roots = [step_id for step_id in graph if step_id not in parent]
    return list(_branches(graph, children, parent, roots))


def _branches(
    graph: Needs, children: dict[str, list[str]], parent: dict[str, str], roots: list[str]
) -> Iterator[Branch]:
    stack = [(root, "", "", "") for root in reversed(roots)]
    while stack:
        step_id, lead, mark, below = stack.pop()
        also = sorted(safe(need) for need in graph[step_id] if need != parent.get(step_id))
        yield Branch(step_id, lead + mark, tuple(also), step_id in parent and not mark)
        followers = children[step_id]
        # A chain stays in its column, so that a long one does not leave the screen.
        if len(followers) == 1:
            stack.append((followers[0], lead + below, "", ""))
            continue
        for position, follower in reversed(list(enumerate(followers))):
            last = position == len(followers) - 1
            stack.append((follower, lead + below, "╰─" if last else "├─", "  " if last else "│ "))
