"""Decides whether a plan can run unattended."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from plansmith.plan.capability import AgentSpec, Effect, ToolSpec, is_freed
from plansmith.plan.limits import Limits
from plansmith.plan.plan import Plan
from plansmith.plan.refs import RESERVED
from plansmith.plan.sentence import Sentence
from plansmith.plan.steps import (
    MAX_NESTING,
    AgentStep,
    AnyStep,
    AskStep,
    MapStep,
    PlanStep,
    ToolStep,
)
from plansmith.review.policy import effects


def reasons_attended(
    plan: Plan,
    *,
    tools: Mapping[str, ToolSpec],
    agents: Mapping[str, AgentSpec],
    templates: Mapping[str, Plan],
    limits: Limits,
) -> tuple[str, ...]:
    """Returns the reasons why a plan cannot run unattended; empty if it can."""
    calls = list(_calls(plan, templates))
    reasons: list[str] = []
    # For example a plan that only replies that it cannot be done.
    if not any(isinstance(step, ToolStep | AgentStep) for step, _ in calls):
        reasons.append(Sentence("it calls no tool and no agent, so nothing would be done"))
    for step, data in calls:
        match step:
            case AskStep():
                reasons.append(Sentence("{step} asks a person", step=step.id))
            case AgentStep(agent=name) if not may_run_unattended(agents.get(name)):
                reasons.append(
                    Sentence(
                        "{step} calls the agent {name}, which may change something and is not "
                        "said to work unattended",
                        step=step.id,
                        name=name,
                    )
                )
            case ToolStep() | AgentStep() if data and limits.data != "show":
                changes = [
                    name
                    for name, effect in effects(step, tools=tools, agents=agents)
                    if effect is not Effect.READ and not is_freed(name, effect, limits.data_free)
                ]
                code = "schedule.is_asked" if limits.data == "ask" else "schedule.is_refused"
                reasons += [
                    Sentence(code, step=step.id, name=name, sources=[*data]) for name in changes
                ]
            case _:
                pass
    return tuple(reasons)


def may_run_unattended(agent: AgentSpec | None) -> bool:
    """Tells whether an agent may be called unattended: it only reads, or a person said so."""
    return agent is not None and (agent.effect is Effect.READ or agent.unattended)


def _calls(
    plan: Plan, templates: Mapping[str, Plan], depth: int = 0
) -> Iterator[tuple[AnyStep, list[str]]]:
    """Yields every step that would run, with the steps whose output it gets."""
    asked = {step.id for step in plan.steps if isinstance(step, AskStep)}
    for step in plan.steps:
        if step.disabled:
            continue
        inner: AnyStep = step.each if isinstance(step, MapStep) else step
        # The inner step of a map gets the items of its list.
        names = dict.fromkeys(ref.step for ref in step.refs())
        data = [name for name in names if name not in asked | RESERVED]
        yield inner, data
        if isinstance(inner, PlanStep) and inner.template in templates and depth < MAX_NESTING:
            yield from _calls(templates[inner.template], templates, depth + 1)
