"""Answerable: which questions a program may answer, and which are a person's, decided purely."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypedDict

from plansmith.plan.capability import AgentSpec, Effect, ToolSpec
from plansmith.plan.events import QuestionAsked
from plansmith.plan.fold import FOR_PROGRAMS
from plansmith.plan.graph import downstream, needs
from plansmith.plan.plan import Plan
from plansmith.plan.run import Run
from plansmith.plan.steps import AnyStep, MapStep, PlanStep
from plansmith.review.policy import active_steps, effects

ONLY_PERSONS: Final = (
    "A person has to decide this: on the page of plansmith serve, or with plansmith approve "
    "or plansmith answer"
)


class Known(TypedDict):
    """What a plan's steps can call, and the templates they run."""

    tools: Mapping[str, ToolSpec]
    agents: Mapping[str, AgentSpec]
    templates: Mapping[str, Plan]


def answerable(run: Run, known: Known) -> dict[str, QuestionAsked]:
    """The open questions that a program may answer, by name."""
    return {name: each for name, each in run.questions.items() if not why_not(run, each, known)}


def why_not(run: Run, asked: QuestionAsked, known: Known) -> str:
    """Why a program may not answer a question, or nothing."""
    if asked.asks not in FOR_PROGRAMS:
        return "it asks for a permission, a decision or something that only a person knows"
    acting = sorted(guarded(run.plan, asked.step, known)) if run.plan and asked.step else []
    return f"its answer decides about {', '.join(acting)}, which acts" if acting else ""


def guarded(plan: Plan, step: str, known: Known) -> set[str]:
    """The steps that act and wait for a question of this step, at every level around it."""
    found: set[str] = set()
    scope, parts = "", step.split("/")
    while parts:
        part = parts.pop(0)
        if part not in plan.by_id:
            return {step}  # nobody knows what waits for it
        after = downstream(needs(plan), [part]) - {part}
        found |= {f"{scope}{name}" for name in after if _acts(plan.by_id[name], known)}
        scope, inner = f"{scope}{part}/", plan.by_id[part]
        while isinstance(inner, MapStep) and parts:
            scope, inner = f"{scope}{parts.pop(0)}/", inner.each
        template = inner.template if isinstance(inner, PlanStep) else ""
        plan = known["templates"].get(template, Plan())
    return found


def _acts(step: AnyStep, known: Known) -> bool:
    """Whether a step, or anything in it, changes something; what nobody knows does."""
    for inner in active_steps(Plan(steps=(step,)), known["templates"]):
        if isinstance(inner, PlanStep) and inner.template not in known["templates"]:
            return True
        calls = effects(inner, tools=known["tools"], agents=known["agents"])
        if any(effect is not Effect.READ for _, effect in calls):
            return True
    return False
