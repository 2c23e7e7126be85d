"""Policy: when a person is asked before a plan runs, by what its steps do to the world."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Literal

from plansmith.plan.capability import AgentSpec, Effect, ToolSpec
from plansmith.plan.data import Record, content_hash
from plansmith.plan.plan import Plan
from plansmith.plan.steps import AgentStep, AnyStep, MapStep, PlanStep, StepFields, ToolStep


class ReviewPolicy(Record):
    """Reads run at once, writes and finals ask; `never_for` names tools that never do."""

    ask: Literal["always", "writes"] = "writes"
    never_for: tuple[str, ...] = ()


def reasons_to_ask(
    plan: Plan,
    policy: ReviewPolicy,
    *,
    tools: Mapping[str, ToolSpec],
    agents: Mapping[str, AgentSpec],
    templates: Mapping[str, Plan] | None = None,
) -> tuple[str, ...]:
    """Why a person has to look at a plan; nothing when it may run at once."""
    known = templates or {}
    reasons = [
        f"{step.id} {_VERBS[effect]} with {name}"
        for step in active_steps(plan, known)
        for name, effect in effects(step, tools=tools, agents=agents)
        if effect is not Effect.READ
        and not any(fnmatchcase(name, each) for each in policy.never_for)
    ]
    if policy.ask == "always" and not reasons:
        reasons = ["every plan is reviewed"]
    return tuple(reasons)


_VERBS = {
    Effect.READ: "reads",
    Effect.WRITE: "changes something",
    Effect.FINAL: "does what cannot be undone",
}


def active_steps(plan: Plan, templates: Mapping[str, Plan], depth: int = 0) -> Iterator[StepFields]:
    """Every step that would run, those of templates and map steps too."""
    for step in plan.steps:
        if step.disabled:
            continue
        yield step.each if isinstance(step, MapStep) else step
        inner: AnyStep = step.each if isinstance(step, MapStep) else step
        if isinstance(inner, PlanStep) and inner.template in templates and depth < 5:
            yield from active_steps(templates[inner.template], templates, depth + 1)


def effects(
    step: StepFields, *, tools: Mapping[str, ToolSpec], agents: Mapping[str, AgentSpec]
) -> Iterator[tuple[str, Effect]]:
    """What a step calls, and what that does; what nobody knows counts as a write."""
    match step:
        case ToolStep(tool=name):
            yield name, tools[name].effect if name in tools else Effect.WRITE
        case AgentStep(agent=name):
            yield name, agents[name].effect if name in agents else Effect.WRITE
        case _:
            return


def widens(
    before: Plan,
    after: Plan,
    *,
    tools: Mapping[str, ToolSpec],
    agents: Mapping[str, AgentSpec],
    templates: Mapping[str, Plan] | None = None,
) -> tuple[str, ...]:
    """What a revised plan would do to the world that the approved one would not.

    A step that changes something and is new, or has other arguments, counts; dropping one and
    whatever only reads do not.
    """
    known = templates or {}

    def reach(plan: Plan) -> Counter[str]:
        return Counter(
            f"{name}({content_hash(step.to_json().get('inputs'))})"
            for step in active_steps(plan, known)
            for name, effect in effects(step, tools=tools, agents=agents)
            if effect is not Effect.READ
        )

    more = reach(after) - reach(before)
    return tuple(f"{call.partition('(')[0]} is called in a new way" for call in more)
