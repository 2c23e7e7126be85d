"""Policy: when a person is asked before a plan runs, by what its steps do to the world."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Final, Literal, NamedTuple

from pydantic import Field

from plansmith.plan.capability import AgentSpec, Effect, ToolSpec
from plansmith.plan.data import Record, Whole
from plansmith.plan.plan import Plan
from plansmith.plan.refs import find
from plansmith.plan.steps import (
    MAX_NESTING,
    AgentStep,
    AnyStep,
    AskStep,
    MapStep,
    PlanStep,
    StepFields,
    ToolStep,
)
from plansmith.review.render import value_line

MOST_ITEMS: Final = 20


class ReviewPolicy(Record):
    """Reads run at once, writes and finals ask; `never_for` names tools that never do.

    A map step that acts on a list out of tools asks again beyond `most_items`, unless the step
    names another number. What a replan adds is asked about whatever `never_for` says.
    """

    ask: Literal["always", "writes"] = "writes"
    never_for: tuple[str, ...] = ()
    most_items: Whole = Field(default=MOST_ITEMS, ge=1)


class ActiveStep(NamedTuple):
    """A step that would run, the plan it stands in, and the map steps around it, inmost last."""

    step: AnyStep
    plan: Plan
    maps: tuple[tuple[MapStep, Plan], ...] = ()


def reasons_to_ask(
    plan: Plan,
    policy: ReviewPolicy,
    *,
    tools: Mapping[str, ToolSpec],
    agents: Mapping[str, AgentSpec],
    templates: Mapping[str, Plan] | None = None,
) -> tuple[str, ...]:
    """Why a person has to look at a plan; nothing when it may run at once."""
    reasons = [
        f"{active.step.id} {_VERBS[effect]} with {name}"
        f"{_from_data(active.step, active.plan)}{_how_often(active, policy)}"
        for active in _active(plan, templates or {})
        for name, effect in effects(active.step, tools=tools, agents=agents)
        if effect is not Effect.READ
        and not any(fnmatchcase(name, each) for each in policy.never_for)
    ]
    if plan.degraded:
        reasons.append("no usable plan was made: this one only stands in")
    if policy.ask == "always" and not reasons:
        reasons = ["every plan is reviewed"]
    return tuple(reasons)


def _from_data(step: StepFields, plan: Plan) -> str:
    """A word on values that will only be known when the plan runs, and come out of tools."""
    sources = dict.fromkeys(ref.step for ref in step.refs())
    data = [name for name in sources if not isinstance(plan.by_id.get(name), AskStep)]
    return f", given what {', '.join(data)} will bring" if data else ""


def _how_often(active: ActiveStep, policy: ReviewPolicy) -> str:
    """A word on the lists whose every item leads to a call."""
    words: list[str] = []
    for step, plan in active.maps:
        if isinstance(step.over, list):
            words.append(f"once for each of {len(step.over)} items")
            continue
        most = step.most or policy.most_items
        bound = f", at most {most}" if is_found_out(step, plan) else ""
        words.append(f"once for each item of {value_line(step.over)}{bound}")
    return "".join(f", {each}" for each in words)


def is_found_out(step: MapStep, plan: Plan) -> bool:
    """Whether a map step's list may come out of tools, and not only from the plan or a person."""
    names = {found.ref.step for found in find(step.over) if found.ref is not None}
    return any(not isinstance(plan.by_id.get(name), AskStep) for name in names)


_VERBS = {
    Effect.READ: "reads",
    Effect.WRITE: "changes something",
    Effect.FINAL: "does what cannot be undone",
}


def active_steps(plan: Plan, templates: Mapping[str, Plan]) -> Iterator[AnyStep]:
    """Every step that would run, those of templates and map steps too."""
    return (active.step for active in _active(plan, templates))


def _active(
    plan: Plan,
    templates: Mapping[str, Plan],
    maps: tuple[tuple[MapStep, Plan], ...] = (),
    depth: int = 0,
) -> Iterator[ActiveStep]:
    for step in plan.steps:
        if step.disabled:
            continue
        around = (*maps, (step, plan)) if isinstance(step, MapStep) else maps
        inner: AnyStep = step.each if isinstance(step, MapStep) else step
        yield ActiveStep(inner, plan, around)
        if isinstance(inner, PlanStep) and inner.template in templates and depth < MAX_NESTING:
            yield from _active(templates[inner.template], templates, around, depth + 1)


def acting_steps(
    plan: Plan,
    *,
    tools: Mapping[str, ToolSpec],
    agents: Mapping[str, AgentSpec],
    templates: Mapping[str, Plan],
) -> tuple[str, ...]:
    """The steps of a plan that change something, be it in a part of theirs."""
    return tuple(
        step.id
        for step in plan.steps
        if any(
            effect is not Effect.READ
            for inner in active_steps(Plan(steps=(step,)), templates)
            for _, effect in effects(inner, tools=tools, agents=agents)
        )
    )


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
