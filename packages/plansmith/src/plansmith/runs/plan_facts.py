"""Keeps what follows from a plan and the present tools alone, so that it is computed once."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, Final, ParamSpec, TypeVar

from plansmith.engine.call import Callees
from plansmith.plan.capability import AgentSpec
from plansmith.plan.earlier import uses_of
from plansmith.plan.plan import Plan
from plansmith.review.settings import ReviewPolicy
from plansmith.templates.template import runs_templates

PLANS_KEPT: Final = 256
_P = ParamSpec("_P")
_T = TypeVar("_T")


class PlanFacts:
    """What was computed about one plan; each function is called once, with the same plan."""

    def __init__(self, *, runs_templates: bool, uses: Sequence[str]) -> None:
        self.runs_templates = runs_templates
        # The results of earlier runs that the plan refers to.
        self.uses = uses
        self._known: dict[Callable[..., Any], Any] = {}

    def once(self, make: Callable[_P, _T], *args: _P.args, **named: _P.kwargs) -> _T:
        """Returns what a function makes of the plan; calls it only the first time."""
        if make not in self._known:
            self._known[make] = make(*args, **named)
        known: _T = self._known[make]
        return known


class PlansKnown:
    """The facts of the plans seen last, by their whole content.

    None outlives a change of a tool, an agent or the policy. Facts of a plan that runs templates,
    uses results of earlier runs or has a schedule are not kept: they also depend on the store, the
    conversation and the machine.
    """

    def __init__(self) -> None:
        self._callees: Callees | None = None
        self._policy: ReviewPolicy | None = None
        self._agents: Sequence[AgentSpec] = ()
        self._facts: OrderedDict[bytes, PlanFacts] = OrderedDict()

    def of(
        self, plan: Plan, *, callees: Callees, agents: Sequence[AgentSpec], policy: ReviewPolicy
    ) -> PlanFacts:
        """Returns the facts of a plan with these tools and agents, and under this policy."""
        same = self._callees is callees and self._policy is policy and self._agents == agents
        if not same:
            self._facts.clear()
            self._callees, self._policy, self._agents = callees, policy, agents
        mark = plan.fingerprint
        found = self._facts.get(mark) if mark is not None else None
        if found is not None and mark is not None:
            self._facts.move_to_end(mark)
            return found
        facts = PlanFacts(runs_templates=runs_templates(plan), uses=uses_of(plan))
        others = facts.runs_templates or plan.schedule or plan.schedules or facts.uses
        if mark is None or others:
            return facts
        self._facts[mark] = facts
        if len(self._facts) > PLANS_KEPT:
            self._facts.popitem(last=False)
        return facts
