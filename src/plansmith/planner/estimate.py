"""Estimates the time, calls and cost of a plan before it is approved."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Final

from plansmith.plan.capability import AgentSpec, Effect, ToolSpec
from plansmith.plan.estimate import Cost, Estimate, Measured
from plansmith.plan.graph import critical_path, needs
from plansmith.plan.plan import Plan
from plansmith.plan.sentence import Sentence
from plansmith.plan.steps import AgentStep, AskStep, MapStep, ReplyStep, StepFields, ToolStep

_GUESS: Final[dict[str, Cost]] = {
    "tool": Cost(1.5, 0),
    "agent": Cost(25.0, 6000),
    "ask": Cost(0.0, 0),
    "plan": Cost(20.0, 2000),
    "reply": Cost(4.0, 1200),
}
_ITEMS_GUESS: Final = 5


def estimate(
    plan: Plan,
    tools: Sequence[ToolSpec],
    *,
    agents: Sequence[AgentSpec] = (),
    past: Mapping[str, Sequence[Cost]] | None = None,
    price_per_million: Decimal | None = None,
) -> Estimate:
    """Estimates a plan: time along its critical path, tokens and effects over all steps.

    `past` holds what tools, agents and kinds of steps took before, by name.
    """
    active = [step for step in plan.steps if not step.disabled]
    known = {name: _middle(past[name]) for name in _names(active) if past and past.get(name)}
    costs = {step.id: _step_cost(step, known) for step in active}
    graph = {name: before & costs.keys() for name, before in needs(plan).items() if name in costs}
    path, seconds = critical_path(graph, {name: cost.seconds for name, cost in costs.items()})
    tokens = sum(cost.tokens for cost in costs.values())
    price = None
    if price_per_million is not None:
        price = (Decimal(tokens) * price_per_million / 1_000_000).quantize(Decimal("0.0001"))
    return Estimate(
        seconds=round(seconds, 1),
        tokens=tokens,
        cost_usd=None if price is None else str(price),
        effects=_effects(active, tools, agents),
        critical_path=tuple(path),
        basis=_basis(active, known, price),
        measured=known,
    )


def _step_cost(step: StepFields, past: Mapping[str, Measured]) -> Cost:
    if isinstance(step, MapStep):
        inner = _step_cost(step.each, past)
        items = len(step.over) if isinstance(step.over, list) else _ITEMS_GUESS
        rounds = -(-items // step.width)
        return Cost(inner.seconds * rounds, inner.tokens * items)
    seen = past.get(_name(step))
    return _GUESS[_kind(step)] if seen is None else Cost(seen.seconds, seen.tokens)


def _middle(seen: Sequence[Cost]) -> Measured:
    return Measured(
        seconds=round(statistics.median(each.seconds for each in seen), 4),
        tokens=int(statistics.median(each.tokens for each in seen)),
    )


def _names(steps: Sequence[StepFields]) -> list[str]:
    inner = (step.each if isinstance(step, MapStep) else step for step in steps)
    return sorted({_name(step) for step in inner})


def _name(step: StepFields) -> str:
    match step:
        case ToolStep():
            return step.tool
        case AgentStep():
            return step.agent
        case _:
            return _kind(step)


def _kind(step: StepFields) -> str:
    return str(type(step).model_fields["kind"].default)


def _effects(
    steps: Sequence[StepFields], tools: Sequence[ToolSpec], agents: Sequence[AgentSpec]
) -> dict[str, int]:
    table = {tool.name: tool.effect for tool in tools} | {each.name: each.effect for each in agents}
    counts = {"read": 0, "write": 0, "final": 0, "ask": 0, "reply": 0}
    for step in steps:
        inner = step.each if isinstance(step, MapStep) else step
        match inner:
            case AskStep():
                counts["ask"] += 1
            case ReplyStep():
                counts["reply"] += 1
            case _:
                counts[table.get(_name(inner), Effect.WRITE)] += 1
    return counts


def _basis(
    steps: Sequence[StepFields], past: Mapping[str, Measured], price: Decimal | None
) -> tuple[str, ...]:
    inner = [step.each if isinstance(step, MapStep) else step for step in steps]
    measured = sum(_name(step) in past for step in inner)
    lines = [Sentence("estimate.measured", count=measured, total=len(inner))]
    guessed = [s for s in steps if isinstance(s, MapStep) and not isinstance(s.over, list)]
    if guessed:
        lines.append(Sentence("estimate.items", count=_ITEMS_GUESS))
    if price is None:
        lines.append(Sentence("estimate.no_price"))
    if any(isinstance(step, AskStep) for step in steps):
        lines.append(Sentence("estimate.no_waiting"))
    return tuple(lines)
