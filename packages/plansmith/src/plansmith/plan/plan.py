"""The plan: goal, steps, and the hash of what would run."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from graphlib import TopologicalSorter
from operator import itemgetter
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
from pydantic import AfterValidator, Field

from plansmith.lazy import lazy_modules
from plansmith.plan.data import (
    Flag,
    FrozenDict,
    Json,
    Record,
    StrictInt,
    Text,
    canonical_hash,
    canonical_json,
    same,
    stored_json,
)
from plansmith.plan.steps import AnyStep, MapStep, Step, StepFields, has_rules
from plansmith.plan.timing import Timing

if TYPE_CHECKING:
    from plansmith.plan import notebook
else:
    lazy_modules(globals(), notebook="plansmith.plan.notebook")

SCHEMA_VERSION: Final = 1
MAX_STEPS: Final = 10_000
_NOT_HASHED: Final = frozenset({"title", "why", "after"})


class Plan(Record):
    """The steps for a goal, as a graph; an immutable value.

    Attributes:
        schema_version: The version of the plan language.
        id: An id that its writer gave it.
        revision: Counts the changes of a plan.
        goal: What the plan is for.
        locale: The language of its texts.
        thought: Why its planner made it so.
        assumptions: What the planner took for granted.
        steps: The steps; what each needs decides the order.
        enough_context: Whether the planner knows enough to run it at once.
        degraded: Why the planner could not do better, if it could not.
        schedule: When to run it.
        schedules: When to run single steps, by id, where they differ.

    Examples:
        >>> from plansmith import read_plan
        >>> plan = read_plan({"goal": "Greet", "steps": [{"id": "hello", "say": "Hello"}]})
        >>> plan.by_id["hello"].instruction
        'Hello'
    """

    schema_version: StrictInt = Field(default=SCHEMA_VERSION, ge=1)
    id: Text | None = None
    revision: StrictInt = Field(default=1, ge=1)
    goal: Text = ""
    locale: Text = "en"
    thought: Text = ""
    assumptions: tuple[Text, ...] = ()
    steps: Annotated[tuple[Step, ...], Field(max_length=MAX_STEPS)] = ()
    enough_context: Flag = False
    degraded: Text | None = None
    schedule: Timing | None = None
    schedules: Annotated[dict[Text, Timing], AfterValidator(FrozenDict)] = Field(
        default_factory=FrozenDict[Timing]
    )

    def __repr__(self) -> str:
        return notebook.plan_line(self.goal, self.steps, self.hash)

    def __str__(self) -> str:
        return notebook.plan_text(self.goal, self.steps)

    def _repr_html_(self) -> str:
        return notebook.plan_html(self.goal, self.steps, self.hash)

    @cached_property
    def hash(self) -> str:
        """The hash that approvals refer to."""
        return plan_hash(self)

    @cached_property
    def stored_text(self) -> bytes:
        """The canonical text in which the plan is stored, without default values."""
        own: dict[str, Any] = self.model_dump(mode="json", exclude_defaults=True, exclude={"steps"})
        if self.steps:
            own["steps"] = [_in_order(step) for step in self.steps]
        return canonical_json(own)

    @cached_property
    def by_id(self) -> dict[str, AnyStep]:
        """The steps by id; when two have the same id, the first."""
        table: dict[str, AnyStep] = {step.id: step for step in self.steps}
        if len(table) < len(self.steps):
            table |= {step.id: step for step in reversed(self.steps)}
        return table

    @cached_property
    def features(self) -> frozenset[str]:
        """The kinds of its steps, with those inside of maps, and `rules` if a step has any."""
        steps = [*self.steps, *(step.each for step in self.steps if step.kind == "map")]
        kinds: set[str] = {step.kind for step in steps}
        return frozenset(kinds | {"rules"} if any(map(has_rules, steps)) else kinds)

    @cached_property
    def needs(self) -> Mapping[str, frozenset[str]]:
        """What each step waits for; ids that are no step of the plan are left out."""
        known = {step.id for step in self.steps}
        graph: dict[str, frozenset[str]] = {}
        for step in self.steps:
            before = step.needed & known
            # Two steps with the same id are a problem that the checks report.
            graph[step.id] = graph[step.id] | before if step.id in graph else before
        return graph

    @cached_property
    def through_disabled(self) -> Mapping[str, frozenset[str]]:
        """Each disabled step with the active steps before it, for which others wait instead."""
        disabled = {step.id for step in self.steps if step.disabled}
        found: dict[str, frozenset[str]] = {}
        inner = {name: self.needs[name] & disabled for name in disabled}
        for name in TopologicalSorter(inner).static_order():
            through = {each for need in inner[name] for each in found[need]}
            found[name] = self.needs[name] - disabled | through
        return found

    @cached_property
    def waits_for(self) -> Mapping[str, frozenset[str]]:
        """Each active step with those it waits for: instead of a disabled one, those before it."""
        skipped = self.through_disabled
        return {
            name: before.difference(skipped).union(*(skipped.get(each, ()) for each in before))
            for name, before in self.needs.items()
            if name not in skipped
        }

    @cached_property
    def needed_by(self) -> dict[str, list[str]]:
        """Which steps wait for each step, in the order of the plan."""
        return dependents(self.needs)

    def to_json(self) -> dict[str, Json]:
        """Returns the plan as JSON, version and goal first, without default values.

        Examples:
            >>> plan.to_json()
            {'schema_version': 1, 'goal': 'Greet', 'steps': [{'id': 'hello', 'kind': 'reply', …}]}
        """
        value: dict[str, Json] = {"schema_version": self.schema_version, "goal": self.goal}
        value |= self.model_dump(mode="json", exclude_defaults=True, exclude={"steps"})
        value["steps"] = [step.to_json() for step in self.steps]
        return value


def dependents(graph: Mapping[str, frozenset[str]]) -> dict[str, list[str]]:
    """Returns which nodes wait for each node, in the graph's order."""
    reverse: dict[str, list[str]] = {node: [] for node in graph}
    for node, before in graph.items():
        for need in before:
            reverse[need].append(node)
    return reverse


def plan_hash(plan: Plan) -> str:
    """Hashes what would run: steps, arguments, order and schedule, but not descriptions.

    Fields at their default are left out, so that a field added to the language later does
    not change the hash of a plan approved earlier.

    Args:
        plan: The plan; `plan.hash` is the same, computed once.

    Examples:
        >>> from plansmith import plan_hash, read_plan
        >>> plan = read_plan({"goal": "Greet", "steps": [{"id": "hello", "say": "Hello"}]})
        >>> plan_hash(plan) == plan_hash(plan.replace(goal="Greet everyone"))
        True
    """
    hashed: dict[str, Any] = {
        "plansmith": plan.schema_version,
        "steps": sorted(map(substance, plan.steps), key=itemgetter("id")),
    }
    if plan.schedule:
        hashed["schedule"] = plan.schedule.to_json()
    if plan.schedules:
        hashed["schedules"] = {name: each.to_json() for name, each in plan.schedules.items()}
    return canonical_hash(hashed)


def _in_order(step: StepFields) -> dict[str, Any]:
    """Returns a step as it is stored; the keys inside its values keep their order."""
    own = step.stored()
    for name in ("inputs", "over", "otherwise"):
        if name in own:
            own[name] = msgspec.Raw(stored_json(own[name]))
    return own | {"each": _in_order(step.each)} if type(step) is MapStep else own


def substance(step: StepFields) -> dict[str, Any]:
    """Returns what makes a step what it is: all but its title, reason and the like."""
    own = step.stored()
    for name in _NOT_HASHED:
        own.pop(name, None)
    own["needs"] = sorted(step.needed)
    return own | {"each": substance(step.each)} if type(step) is MapStep else own


def differ(before: StepFields, after: StepFields) -> bool:
    """Tells whether two steps do something else: their titles and reasons do not count."""
    return not same(substance(before), substance(after))
