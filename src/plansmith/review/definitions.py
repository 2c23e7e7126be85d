"""Definitions: what the tools and agents of an approved plan were, and whether they still are."""

from __future__ import annotations

from collections.abc import Mapping

from plansmith.plan.capability import AgentSpec, ToolSpec
from plansmith.plan.data import Record, content_hash
from plansmith.plan.plan import Plan
from plansmith.plan.sentence import Sentence
from plansmith.plan.steps import AgentStep, ToolStep
from plansmith.review.policy import active_steps

# What an agent's card is shown and offered by says nothing about what it does.
_NOT_MEANT = {"enabled", "hidden"}


def definitions(
    plan: Plan,
    *,
    tools: Mapping[str, ToolSpec],
    agents: Mapping[str, AgentSpec],
    templates: Mapping[str, Plan],
) -> dict[str, str]:
    """The hash of the definition of each tool and agent that a plan calls, where it is known."""
    found: dict[str, Record | None] = {}
    for step in active_steps(plan, templates):
        match step:
            case ToolStep(tool=name):
                found[name] = tools.get(name)
            case AgentStep(agent=name):
                found[f"agent {name}"] = agents.get(name)
            case _:
                pass
    return {
        name: content_hash(spec.model_dump(mode="json", exclude=_NOT_MEANT))
        for name, spec in sorted(found.items())
        if spec is not None
    }


def redefined(approved: Mapping[str, str], now: Mapping[str, str]) -> tuple[str, ...]:
    """Why an approval has to be given again; nothing when all is defined as it was then."""
    return tuple(
        Sentence("review.redefined", name=name)
        for name, digest in now.items()
        if approved.get(name, digest) != digest
    )
