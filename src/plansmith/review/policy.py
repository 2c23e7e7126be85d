"""Policy: when a person is asked before a plan runs, by what its steps do to the world."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Final, Literal

from plansmith.plan.capability import AgentSpec, Effect, ToolSpec
from plansmith.plan.data import Record, content_hash
from plansmith.plan.plan import Plan
from plansmith.plan.steps import (
    AgentStep,
    AnyStep,
    AskStep,
    MapStep,
    PlanStep,
    StepFields,
    ToolStep,
)


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
        f"{step.id} {_VERBS[effect]} with {name}{_from_data(step, plan)}"
        for step in active_steps(plan, known)
        for name, effect in effects(step, tools=tools, agents=agents)
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

    A tool, an agent or a host that is new counts, also when it is only read from; so does a step
    that changes something and is new or has other arguments. Dropping never does.
    """
    known = templates or {}

    def reach(plan: Plan) -> tuple[Counter[str], set[str], set[str]]:
        calls, names, hosts = Counter[str](), set[str](), set[str]()
        for step in active_steps(plan, known):
            given = step.to_json()
            text = json.dumps(given, ensure_ascii=False).lower()
            hosts |= {found[1] or found[2] for found in _HOST.finditer(text)}
            for name, effect in effects(step, tools=tools, agents=agents):
                names.add(name)
                if effect is not Effect.READ:
                    calls[f"{name}({content_hash([given.get('task'), given.get('inputs')])})"] += 1
        return calls, names, hosts

    (old_calls, old_names, old_hosts), (calls, names, hosts) = reach(before), reach(after)
    return (
        *(f"{name} was not in the plan before" for name in sorted(names - old_names)),
        *(f"{host} was not in the plan before" for host in sorted(hosts - old_hosts)),
        *(f"{call.partition('(')[0]} is called in a new way" for call in calls - old_calls),
    )


_HOST: Final = re.compile(
    r"\b[a-z][a-z0-9+.-]*://([^/\s\"'\\?#]+)|\b[\w.+-]+@([\w-]+(?:\.[\w-]+)+)"
)
