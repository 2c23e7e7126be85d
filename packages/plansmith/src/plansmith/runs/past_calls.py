"""The calls that a run has made, and those that a plan would make, to find repeats."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Final

from plansmith.engine import units as u
from plansmith.errors import ReferenceFailed
from plansmith.plan import events as e
from plansmith.plan.data import Json, call_mark
from plansmith.plan.plan import Plan
from plansmith.plan.run import Run, StepStatus
from plansmith.plan.sentence import Sentence
from plansmith.plan.steps import MAX_NESTING, AgentStep, MapStep, PlanStep, ToolStep

_MAX_REPEATS: Final = 2
_MAX_ITEMS: Final = 1000
CallKey = tuple[str, str]  # what is called, and the mark of its arguments


def calls_made(
    events: Iterable[e.Event],
) -> Iterator[tuple[int, CallKey, e.StepDone | e.StepFailed | None]]:
    """Yields every call of a run: under which of its plans, what it was, and how it ended.

    Those that did not end come last, with None: nobody knows whether they took effect.
    """
    revision = 0
    under_way: dict[str, CallKey] = {}
    for event in events:
        match event.body:
            case e.PlanProposed():
                revision += 1
            case e.StepStarted(step=name) as started if started.inputs:
                under_way[name] = started.callee, started.call_mark
            case e.StepDone(step=name) | e.StepFailed(step=name) as end if name in under_way:
                yield revision, under_way.pop(name), end
            case _:
                pass
    for call in under_way.values():
        yield revision, call, None


def loop_in(events: Iterable[e.Event], plan: Plan, run: Run, results: Mapping[str, Json]) -> str:
    """Says why a new plan only repeats what was tried before; empty if it does not.

    It does if a call with the same arguments has ended in the same way twice. A map's parts count
    once a plan.
    """
    tried: dict[CallKey, Counter[str]] = defaultdict(Counter)
    seen: set[tuple[int, CallKey]] = set()
    for revision, call, end in calls_made(events):
        if end is None or (isinstance(end, e.StepFailed) and end.again):
            continue
        if (revision, call) not in seen:
            seen.add((revision, call))
            tried[call][end.result if isinstance(end, e.StepDone) else end.error] += 1
    for name, unit in u.plan_units(plan).items():
        if name in run.steps and run.steps[name].status is StepStatus.DONE:
            continue
        try:
            call = unit.callee, call_mark(u.resolved(unit, results))
        except ReferenceFailed:
            continue
        times = max(tried[call].values(), default=0)
        if times >= _MAX_REPEATS:
            return Sentence(
                "{callee} gave the same outcome {count} times for the same arguments",
                callee=unit.callee,
                count=times,
            )
    return ""


def resolved_calls(
    plan: Plan, results: Mapping[str, Json], templates: Mapping[str, Plan]
) -> dict[str, set[CallKey]]:
    """Returns the calls of a plan whose arguments are known by now, by place."""
    calls: dict[str, set[CallKey]] = defaultdict(set)
    pending = [(unit, unit.name) for unit in u.plan_units(plan).values()]
    while pending:
        unit, place = pending.pop()
        parts: Iterable[u.Unit] = ()
        try:
            inputs = u.resolved(unit, results)
            match unit.step:
                case ToolStep() | AgentStep():
                    calls[place].add((unit.callee, call_mark(inputs)))
                case MapStep() if unit.depth < MAX_NESTING:
                    parts = u.map_units(unit, inputs["over"], {}).values()
                case PlanStep(template=name) if name in templates and unit.depth < MAX_NESTING:
                    parts = u.template_units(unit, templates[name], inputs).values()
                case _:
                    pass
        except ReferenceFailed:
            continue
        pending += [(part, f"{place}/{part.step.id}") for part in islice(parts, _MAX_ITEMS)]
    return calls
