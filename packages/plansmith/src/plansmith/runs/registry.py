"""What there is to call and to use now: tools, agents, templates, and results of earlier runs."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Final

from plansmith import ports
from plansmith.check.check_plan import check_plan
from plansmith.check.estimate import Workload
from plansmith.check.lint import lint_plan
from plansmith.check.names import Catalogue
from plansmith.engine.call import Callees
from plansmith.errors import Misconfigured
from plansmith.plan.capability import AgentSpec, Capabilities
from plansmith.plan.earlier import EarlierResult, UsableResults, pinned_results, uses_of
from plansmith.plan.plan import Plan
from plansmith.plan.problem import Problem
from plansmith.plan.run_options import RunOptions
from plansmith.plan.sentence import Sentence
from plansmith.review.coverage import PlanCalls, definitions
from plansmith.review.policy import ActingCall, acting_calls, acting_steps
from plansmith.templates import template
from plansmith.templates.stored import usable_templates

if TYPE_CHECKING:
    from plansmith.plan.capability import ToolSpec

PLANS_KEPT: Final = 256


class PlanFacts:
    """What follows from a plan and what there is to call; each is computed when first wanted."""

    def __init__(self, plan: Plan, snapshot: Snapshot, capabilities: Capabilities) -> None:
        self.plan, self._snapshot, self.capabilities = plan, snapshot, capabilities
        # The results of earlier runs that the plan refers to.
        self.uses = uses_of(plan)

    @cached_property
    def problems(self) -> list[Problem]:
        """What is wrong with a plan that uses no templates and no results of earlier runs."""
        tools, agents = self._snapshot.catalogue, self._snapshot.agents
        return check_plan(self.plan, tools, agents=agents, templates=())

    @cached_property
    def lint(self) -> list[Problem]:
        return lint_plan(self.plan, self._snapshot.catalogue)

    @cached_property
    def workload(self) -> Workload:
        return Workload(self.plan, self.capabilities.tools, self.capabilities.agents)

    @cached_property
    def changes(self) -> tuple[ActingCall, ...]:
        return acting_calls(self.plan, self.capabilities)

    @cached_property
    def calls(self) -> PlanCalls:
        """The calls that the plan could make."""
        return PlanCalls(self.plan, self.capabilities)


class Snapshot:
    """The tools and the agents of now, and the facts of the plans seen last with them.

    The tools are there three times: `Callees` to make calls, `Capabilities` for reviews, and
    `Catalogue` to check plans.
    Facts of a plan that uses results of earlier runs or has a schedule, and those that follow from
    its templates, are not kept: they also depend on the conversation, the machine and the store.
    """

    def __init__(self, callees: Callees, agents: list[AgentSpec]) -> None:
        self.callees, self.agents = callees, agents
        self.catalogue = Catalogue(callees.specs)
        self.capabilities = Capabilities(callees.specs, {spec.name: spec for spec in agents})
        self._facts: OrderedDict[bytes, PlanFacts] = OrderedDict()

    def facts_of(self, plan: Plan) -> PlanFacts:
        """Returns the facts of a plan without its templates, known by its whole content."""
        text = plan.stored_text
        if text in self._facts:
            self._facts.move_to_end(text)
            return self._facts[text]
        facts = PlanFacts(plan, self, self.capabilities)
        if not (facts.uses or plan.schedule or plan.schedules):
            self._facts[text] = facts
            if len(self._facts) > PLANS_KEPT:
                self._facts.popitem(last=False)
        return facts


class Registry:
    """The tools, agents and templates of a Plansmith, and what follows for plans from them.

    Plans of a conversation may use the results of its earlier runs.
    """

    def __init__(
        self,
        *,
        store: ports.Store,
        clock: ports.Clock,
        sources: Sequence[ports.ToolSource] = (),
        agents: Sequence[ports.Agent] = (),
        templates: Mapping[str, Plan] | None = None,
        secrets: ports.Secrets | None = None,
        conversations: ports.Conversations | None = None,
    ) -> None:
        self.store, self.clock, self.secrets = store, clock, secrets
        self.sources = list(sources)
        self.templates = dict(templates or {})
        self.conversations = conversations
        self._agents = {agent.spec.name: agent for agent in agents}
        self._callees: Callees | None = None
        self._listed: list[list[ToolSpec]] = []
        self._last_snapshot: Snapshot | None = None

    def agents(self) -> list[AgentSpec]:
        """Returns the cards of all agents."""
        return [agent.spec for agent in self._agents.values()]

    async def callees(self) -> Callees:
        """Returns what can be called now; asks each source whether its tools have changed."""
        listed = [list(await source.tools()) for source in self.sources]
        if self._callees is not None and listed == self._listed:
            return self._callees
        tools: dict[str, ports.ToolSource] = {}
        specs: dict[str, ToolSpec] = {}
        pairs = zip(self.sources, listed, strict=True)
        # Tools that others have named come last: they never take the name of another one.
        for source, found in sorted(
            pairs, key=lambda pair: isinstance(pair[0], ports.YieldingSource)
        ):
            for spec in found:
                if spec.name not in specs:
                    tools[spec.name], specs[spec.name] = source, spec
                elif isinstance(source, ports.YieldingSource):
                    source.leave_out(spec.name)
                else:
                    raise Misconfigured(Sentence("two tools are called '{name}'", name=spec.name))
        self._callees = Callees(self.clock, tools, specs, self._agents, secrets=self.secrets)
        self._listed = listed
        return self._callees

    async def snapshot(self) -> Snapshot:
        """Returns what there is now, with the facts of the plans seen last."""
        callees, agents, last = await self.callees(), self.agents(), self._last_snapshot
        if last is None or last.callees is not callees or last.agents != agents:
            last = self._last_snapshot = Snapshot(callees, agents)
        return last

    async def load_templates(self) -> Mapping[str, template.Template]:
        """Returns the present templates."""
        return await usable_templates(self.store, self.templates)

    async def with_fixed_templates(self, plan: Plan) -> Plan:
        """Returns the plan with the version and the parameters of each template written into it."""
        if not template.runs_templates(plan):
            return plan
        return template.with_fixed_templates(plan, await self.load_templates())

    async def template_plans(self, plan: Plan | None) -> Mapping[str, Plan]:
        """Returns the plans of the templates that a plan runs, at every depth."""
        if plan is None or not template.runs_templates(plan):
            return {}
        return template.template_plans(plan, await self.load_templates())

    async def capabilities(
        self, plan: Plan | None, templates: Mapping[str, Plan] | None = None
    ) -> Capabilities:
        """Returns the tools, the agents, and a plan's present or given templates."""
        capabilities = (await self.snapshot()).capabilities
        found = templates or await self.template_plans(plan)
        return replace(capabilities, templates=found) if found else capabilities

    async def facts(self, plan: Plan, templates: Mapping[str, Plan] | None = None) -> PlanFacts:
        """Returns what follows from a plan, with the present or the given templates."""
        snapshot = await self.snapshot()
        if template.runs_templates(plan):
            return PlanFacts(plan, snapshot, await self.capabilities(plan, templates))
        return snapshot.facts_of(plan)

    async def definitions(
        self, plan: Plan, templates: Mapping[str, Plan] | None = None
    ) -> dict[str, str]:
        """Returns the present hash of each tool and agent that a plan calls."""
        # Of the present content, not kept: a source may change its specs in place.
        return definitions(plan, await self.capabilities(plan, templates))

    async def acting(
        self, plan: Plan, templates: Mapping[str, Plan] | None = None
    ) -> tuple[str, ...]:
        """Returns the steps of a plan that change something, themselves or in a part."""
        return acting_steps((await self.facts(plan, templates)).changes)

    async def usable_results(
        self, options: RunOptions, pins: Mapping[str, str] | None = None
    ) -> UsableResults:
        """Returns the results of earlier runs that plans of a request may use.

        `pins` are the contents that the run, or the one that it repeats, uses already.
        """
        found: Sequence[EarlierResult] = ()
        if options.thread and self.conversations is not None:
            found = await self.conversations.results(options.thread, options.message)
        return UsableResults(self.store.get, pinned_results(found, pins or {}))
