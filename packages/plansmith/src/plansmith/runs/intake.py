"""Checks plans against the tools and agents, estimates them, and asks for review."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, NamedTuple, ParamSpec, TypeVar

from plansmith.check.check_plan import check_plan, used_results
from plansmith.check.estimate import Workload
from plansmith.check.lint import lint_plan
from plansmith.check.names import Catalogue
from plansmith.engine.call import Callees, secret_problems, secret_uses
from plansmith.engine.journal import SYSTEM, Entry, Journal
from plansmith.engine.timings import RUNS, CallTimings
from plansmith.engine.units import Known
from plansmith.errors import JournalDamaged, Misconfigured, PlanInvalid
from plansmith.lazy import lazy_modules
from plansmith.plan import events as e
from plansmith.plan.capability import AgentSpec
from plansmith.plan.earlier import EarlierResult, UsableResults, pinned_results, uses_of
from plansmith.plan.plan import Plan, owned
from plansmith.plan.problem import Problem, has_errors
from plansmith.plan.run_options import NO_OPTIONS
from plansmith.plan.sentence import Sentence
from plansmith.plan.summary import OVER_STATUSES, Headline, RunSummary
from plansmith.ports import Agent, Clock, PlanStore, Records, Secrets, SummaryStore, ToolSource
from plansmith.review.coverage import PlanCalls, definitions
from plansmith.review.policy import acting_steps, reasons_to_ask
from plansmith.review.settings import ReviewPolicy
from plansmith.templates.book import every_template, usable_templates
from plansmith.templates.template import (
    Template,
    contents,
    given_template,
    pinned,
    runs_templates,
    template_problems,
)

if TYPE_CHECKING:
    from plansmith.check import rehearsal
    from plansmith.plan.capability import ToolSpec
    from plansmith.plan.data import Json
    from plansmith.plan.run import Run
    from plansmith.plan.run_options import RunOptions
else:
    lazy_modules(
        globals(),
        rehearsal="plansmith.check.rehearsal",
    )


# Returns the results that a plan for a message (its number) of a thread (its id) may use.
EarlierResults = Callable[[str, int | None], Awaitable[Sequence[EarlierResult]]]


async def no_earlier_results(_: str, __: int | None) -> Sequence[EarlierResult]:
    """Says that a plan may use nothing of earlier runs."""
    return ()


class TakenIn(NamedTuple):
    """A plan that was checked, what is to be said of it, and the earlier results it may use."""

    plan: Plan
    problems: tuple[Problem, ...] = ()
    earlier: UsableResults | None = None


class _Used(NamedTuple):
    """The contents of earlier runs that a plan uses, by reference, and notes on them."""

    pins: dict[str, str]
    notes: tuple[Problem, ...] = ()


_NOTHING_USED: Final = _Used({})
SEEN_FIRST: Final = Sentence("review.seen_first")


def review_on_request(plan: Plan) -> e.ReviewAsked:
    """Returns a review request for a person who wants to see every plan before it runs."""
    return e.ReviewAsked(hash=plan.hash, reasons=(SEEN_FIRST,))


class PlanIntake:
    """Knows the tools, agents and templates; checks plans, proposes them and asks for review.

    `ask_also` returns reasons to review a plan for which the policy has none. `find_earlier`
    returns the results of earlier runs that a plan of a conversation may use.
    """

    def __init__(  # noqa: PLR0913 - all by name
        self,
        *,
        store: PlanStore,
        clock: Clock,
        sources: Sequence[ToolSource] = (),
        agents: Sequence[Agent] = (),
        templates: Mapping[str, Plan] | None = None,
        policy: ReviewPolicy | None = None,
        price_per_million: Decimal | None = None,
        past: CallTimings | None = None,
        secrets: Secrets | None = None,
        ask_also: Callable[[Plan], Sequence[str]] = lambda _: (),
        find_earlier: EarlierResults = no_earlier_results,
    ) -> None:
        self.store = store
        self.clock = clock
        self.templates = dict(templates or {})
        self.policy = policy or ReviewPolicy()
        self.price_per_million = price_per_million
        self.sources = list(sources)
        self._past = past
        self._secrets = secrets
        self._ask_also = ask_also
        self.find_earlier = find_earlier
        self._agents = {agent.spec.name: agent for agent in agents}
        self._callees: Callees | None = None
        self._listed: list[list[ToolSpec]] = []
        self._catalogue: tuple[Callees, Catalogue] | None = None
        self._plans = PlansKnown()
        self._rehearses = any(hasattr(each, "rehearse") for each in self.sources)

    async def take_in(
        self,
        plan: Plan,
        options: RunOptions | None,
        pins: Mapping[str, str] | None = None,
        *,
        notes: Sequence[Problem] = (),
        checked: bool = True,
    ) -> TakenIn:
        """Checks a plan that somebody gives, if wanted; raises `PlanInvalid` if it has errors.

        The plan comes back with its templates, and names of earlier results, written out. `notes`
        is what reading the plan told.
        """
        plan = owned(plan)
        if not checked:
            return TakenIn(plan, tuple(notes))
        earlier = await self.usable_results(options or NO_OPTIONS, pins)
        plan = earlier.named(await self.pinned(plan))
        return TakenIn(plan, (*notes, *await self.usable(plan, earlier)), earlier)

    async def usable(self, plan: Plan, earlier: UsableResults | None = None) -> list[Problem]:
        """Returns the warnings of a plan; raises `PlanInvalid` if it has errors."""
        problems = await self.check(plan, earlier)
        if has_errors(problems):
            raise PlanInvalid([each for each in problems if each.severity == "error"])
        return problems

    async def check(self, plan: Plan, earlier: UsableResults | None = None) -> list[Problem]:
        """Returns every problem of a plan, given the present tools, agents and templates.

        `earlier` are the results of earlier runs that the plan may use, by default none.
        """
        callees, agents = await self.callees(), self.agents()
        tools, facts = self._catalogue_of(callees), self._facts_of(plan, callees, agents)
        known = await self.load_templates() if facts.runs_templates else dict[str, Template]()
        found: Sequence[Problem]
        if earlier is not None and earlier.results:
            used = await used_results(plan, earlier)
            found = check_plan(plan, tools, agents=agents, templates=known, earlier=used)
        else:
            found = facts.once(check_plan, plan, tools, agents=agents, templates=known)
        of_templates = template_problems(plan, known) if facts.runs_templates else ()
        # Which secrets are set may change at any time.
        of_secrets = secret_problems(facts.once(secret_uses, plan), self._secrets)
        problems = [*found, *of_templates, *of_secrets, *facts.once(lint_plan, plan, tools)]
        if self._rehearses and not has_errors(problems):
            rehearse = rehearsal.rehearsal_with(callees.tools)
            problems += await rehearsal.rehearsal_problems(plan, callees.specs, rehearse)
        return problems

    async def usable_results(
        self, options: RunOptions, pins: Mapping[str, str] | None = None
    ) -> UsableResults:
        """Returns the results of earlier runs that plans of a request may use.

        `pins` are the contents that the run, or the one that it repeats, uses already.
        """
        found = await self.find_earlier(options.thread, options.message) if options.thread else ()
        return UsableResults(self.store.get, pinned_results(found, pins or {}))

    def _facts_of(self, plan: Plan, callees: Callees, agents: Sequence[AgentSpec]) -> PlanFacts:
        """Returns what is known of a plan with the present tools, agents and policy."""
        return self._plans.of(plan, callees=callees, agents=agents, policy=self.policy)

    def _catalogue_of(self, callees: Callees) -> Catalogue:
        """Returns the catalogue of tools for checks, built again when the tools have changed."""
        if self._catalogue is None or self._catalogue[0] is not callees:
            self._catalogue = callees, Catalogue(list(callees.specs.values()))
        return self._catalogue[1]

    async def load_templates(self) -> Mapping[str, Template]:
        """Returns the present templates; keeps removed ones for runs that still use them."""
        if not isinstance(self.store, Records):
            return {name: given_template(name, plan) for name, plan in self.templates.items()}
        every = await every_template(self.store, self.templates)
        self.templates |= {name: each.plan for name, each in every.items()}
        return await usable_templates(self.store, self.templates)

    async def pinned(self, plan: Plan) -> Plan:
        """Returns the plan with the version and the parameters of each template written into it."""
        return pinned(plan, await self.load_templates()) if runs_templates(plan) else plan

    async def propose(  # noqa: PLR0913 - all but the first by name
        self,
        journal: Journal,
        plan: Plan,
        problems: Sequence[Problem] = (),
        earlier: UsableResults | None = None,
        *,
        start: Sequence[Entry] = (),
        then: Sequence[Entry] = (),
        reviewed: Sequence[Entry] | None = None,
        about: Mapping[str, Any] | None = None,
        values: Sequence[Json] = (),
        by: e.Actor = SYSTEM,
    ) -> None:
        """Writes a plan into a run, with a request for review if its effects or its run require it.

        All in one append, so that no crash leaves a plan without its review. `about` are more
        fields of the event; `reviewed` replaces the review that would be asked for here. `earlier`
        are the results of earlier runs that it may use, if the caller has them.
        """
        plan = owned(plan)
        facts, known = await self._facts_and_known(plan)
        begun = [entry[0] if isinstance(entry, tuple) else entry for entry in start]
        created = journal.events[0].body if journal.events else begun[0]
        options = created.options if isinstance(created, e.RunCreated) else NO_OPTIONS
        used = await self._used(plan, facts.uses, journal, options, earlier)
        found = (*problems, *(each for each in used.notes if each not in problems))
        workload = facts.once(Workload, plan, known["tools"], known["agents"])
        past = (await self.past()).measured(workload.names)
        fields: dict[str, Any] = {
            "acts": facts.once(acting_steps, plan, **known),
            "problems": found,
            "estimate": workload.estimate(past, self.price_per_million),
            "earlier": used.pins,
        }
        if now := known["templates"]:  # finished steps keep the templates they ran with
            fields["templates"] = {**journal.run.templates, **now}
        body = e.PlanProposed(plan=plan, **fields | dict(about or {}))
        if reviewed is None:
            reviewed = self._review(plan, journal.run, facts, known)
            if not reviewed and options.mode == "review":
                reviewed = [review_on_request(plan)]
        await journal.append(*start, (body, by), *then, *reviewed, values=values)

    async def _used(
        self,
        plan: Plan,
        uses: Sequence[str],
        journal: Journal,
        options: RunOptions,
        given: UsableResults | None,
    ) -> _Used:
        """Returns the contents of earlier runs that a plan uses, and what is said of them."""
        if not uses:
            return _NOTHING_USED
        if given is None:
            given = await self.usable_results(options, journal.run.earlier)
        pins = {ref: given.results[ref].hash for ref in uses if ref in given.results}
        return _Used(pins, tuple(given.notes(plan)))

    async def acting(
        self, plan: Plan, templates: Mapping[str, Plan] | None = None
    ) -> tuple[str, ...]:
        """Returns the steps of a plan that change something, themselves or in a part."""
        facts, known = await self._facts_and_known(plan, templates)
        return facts.once(acting_steps, plan, **known)

    async def review(
        self,
        plan: Plan,
        run: Run | None = None,
        *,
        more: Sequence[str] = (),
        templates: Mapping[str, Plan] | None = None,
    ) -> list[e.ReviewAsked]:
        """Returns the request for a review, or nothing if the plan may run at once.

        `more` are reasons beyond those of the policy. The request also names calls that earlier
        revisions dropped, unless this plan makes them.
        """
        facts, known = await self._facts_and_known(plan, templates)
        return self._review(plan, run, facts, known, more)

    def _review(
        self,
        plan: Plan,
        run: Run | None,
        facts: PlanFacts,
        known: Known,
        more: Sequence[str] = (),
    ) -> list[e.ReviewAsked]:
        found = facts.once(reasons_to_ask, plan, self.policy, **known)
        reasons = tuple(dict.fromkeys((*more, *found)))
        reasons = reasons or tuple(self._ask_also(plan))
        if not reasons:
            return []
        lost = run.dropped if run else ()
        made = {call.text for call in PlanCalls(plan, **known).acting} if lost else set[str]()
        drops = tuple(text for text in lost if text not in made)
        return [e.ReviewAsked(hash=plan.hash, reasons=reasons, drops=drops)]

    async def contents(self, plan: Plan | None) -> Mapping[str, Plan]:
        """Returns the plans of the templates that a plan runs, at every depth."""
        if plan is None or not runs_templates(plan):
            return {}
        return contents(plan, await self.load_templates())

    async def calls(self, plan: Plan, templates: Mapping[str, Plan] | None = None) -> PlanCalls:
        """Returns the calls that a plan could make, with the present or the given templates."""
        return PlanCalls(plan, **await self.known(plan, templates))

    async def known(self, plan: Plan | None, templates: Mapping[str, Plan] | None = None) -> Known:
        """Returns the tools, the agents, and a plan's present or given templates."""
        callees, found = await self.callees(), templates or await self.contents(plan)
        agents = {spec.name: spec for spec in self.agents()}
        return Known(tools=callees.specs, agents=agents, templates=found)

    async def _facts_and_known(
        self, plan: Plan, templates: Mapping[str, Plan] | None = None
    ) -> tuple[PlanFacts, Known]:
        """Returns what was computed about a plan, and what `known` returns to compute the rest."""
        callees, agents = await self.callees(), self.agents()
        facts = self._facts_of(plan, callees, agents)
        if facts.runs_templates:
            return facts, await self.known(plan, templates)
        named = {spec.name: spec for spec in agents}
        return facts, Known(tools=callees.specs, agents=named, templates={})

    async def past(self) -> CallTimings:
        """Returns how long calls took: read once from the last runs, then updated by each run."""
        if self._past is None:
            past = CallTimings()
            for each in reversed(await self._ended()):
                # A damaged run must not keep others from being planned.
                with suppress(JournalDamaged):
                    past.learn((each.summary or await self._read(each.run)).calls)
            # Another task may have read them meanwhile, and learnt from a run.
            if self._past is None:
                self._past = past
        return self._past

    async def _ended(self) -> Sequence[Headline]:
        """Returns the last runs that are over; the last runs, if the store does not tell."""
        if isinstance(self.store, SummaryStore):
            return await self.store.headlines(statuses=OVER_STATUSES, limit=RUNS)
        ids = (await self.store.runs())[-RUNS:]
        return [Headline(each, 0, "", None) for each in reversed(ids)]

    async def _read(self, run_id: str) -> RunSummary:
        journal = await Journal.load(run_id, store=self.store, clock=self.clock)
        return await journal.summary()

    def agents(self) -> list[AgentSpec]:
        """Returns the cards of all agents."""
        return [agent.spec for agent in self._agents.values()]

    async def callees(self) -> Callees:
        """Returns what can be called now; asks each source whether its tools have changed."""
        listed = [list(await source.tools()) for source in self.sources]
        if self._callees is None or listed != self._listed:
            self._callees, self._listed = self._table(listed), listed
        return self._callees

    def _table(self, listed: Sequence[Sequence[ToolSpec]]) -> Callees:
        tools: dict[str, ToolSource] = {}
        specs: dict[str, ToolSpec] = {}
        pairs = zip(self.sources, listed, strict=True)
        # Tools that others have named come last: they never take the name of another one.
        for source, found in sorted(pairs, key=lambda pair: hasattr(pair[0], "leave_out")):
            for spec in found:
                if spec.name not in specs:
                    tools[spec.name], specs[spec.name] = source, spec
                elif leave_out := getattr(source, "leave_out", None):
                    leave_out(spec.name)
                else:
                    raise Misconfigured(Sentence("two tools are called '{name}'", name=spec.name))
        return Callees(self.clock, tools, specs, self._agents, secrets=self._secrets)

    async def definitions(
        self, plan: Plan, templates: Mapping[str, Plan] | None = None
    ) -> dict[str, str]:
        """Returns the present hash of each tool and agent that a plan calls."""
        # Of the present content, not kept: a source may change its specs in place.
        return definitions(plan, **await self.known(plan, templates))


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
        mark = sha256(plan.stored_text()).digest()
        found = self._facts.get(mark)
        if found is not None:
            self._facts.move_to_end(mark)
            return found
        facts = PlanFacts(runs_templates=runs_templates(plan), uses=uses_of(plan))
        others = facts.runs_templates or plan.schedule or plan.schedules or facts.uses
        if others:
            return facts
        self._facts[mark] = facts
        if len(self._facts) > PLANS_KEPT:
            self._facts.popitem(last=False)
        return facts
