"""Takes plans into runs: checks and estimates them, and asks for review."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Final

from plansmith import ports
from plansmith.check.check_plan import check_plan, secret_problems, used_results
from plansmith.check.estimate import RUNS_READ, CallTimings
from plansmith.check.lint import lint_plan
from plansmith.engine.journal import Journal
from plansmith.errors import PlanInvalid
from plansmith.lazy import lazy_modules
from plansmith.plan import events as e
from plansmith.plan.earlier import NO_RESULTS, UsableResults
from plansmith.plan.plan import Plan
from plansmith.plan.problem import Problem, has_errors
from plansmith.plan.run_options import NO_OPTIONS, OWN_REQUEST, Origin, RunOptions
from plansmith.plan.second_person import stricter
from plansmith.plan.sentence import Sentence
from plansmith.plan.summary import OVER_STATUSES
from plansmith.review.policy import acting_steps, reasons_to_ask
from plansmith.review.settings import ReviewPolicy
from plansmith.templates import template

if TYPE_CHECKING:
    from plansmith.check import rehearsal
    from plansmith.plan.data import Json
    from plansmith.plan.planning import PlanOrigin
    from plansmith.plan.run import Run
    from plansmith.runs.journals import Journals
    from plansmith.runs.registry import PlanFacts, Registry
else:
    lazy_modules(globals(), rehearsal="plansmith.check.rehearsal")

SEEN_FIRST: Final = Sentence("review.seen_first")


@dataclass(frozen=True, slots=True)
class NewRun:
    """What a run begins with; one without a plan is planned later.

    `plan_origin` is who made the plan, by default what `origin` says of it. `notes` is what reading
    the plan told, `reused` are old results, `reasons` are more reasons for a review, in place of
    which `review_events` are written, and `pins` are the contents of earlier runs that the repeated
    run uses. Without `needs_check` the plan is taken as it is: whoever gives it has checked it.
    """

    request: str = ""
    plan: Plan | None = None
    _: KW_ONLY
    by: e.Who
    run_id: str = ""
    locale: str = ""
    options: RunOptions = NO_OPTIONS
    origin: Origin = OWN_REQUEST
    folder: str = ""
    plan_origin: PlanOrigin | None = None
    needs_check: bool = True
    notes: Sequence[Problem] = ()
    reused: Sequence[e.StepReused] = ()
    reasons: Sequence[str] = ()
    review_events: Sequence[e.Entry] | None = None
    pins: Mapping[str, str] = field(default_factory=dict[str, str])

    def created(self, journals: Journals, policy: ReviewPolicy | None = None) -> e.RunCreated:
        """Returns the first event of the run, which keeps the policy's rule of a second person.

        It belongs to the folder and the team of the journals, unless it has its own.
        """
        options = self.options
        if journals.team and not options.team:
            options = options.replace(team=journals.team)
        if policy is not None and policy.second_person != "never":
            rule = stricter(options.second_person, policy.second_person)
            options = options.replace(second_person=rule)
        return e.RunCreated(
            request=self.request or (self.plan.goal if self.plan else ""),
            locale=self.locale or (self.plan.locale if self.plan else "en"),
            options=options,
            origin=self.origin,
            folder=self.folder or journals.recorded_folder,
        )


@dataclass(frozen=True, slots=True)
class Proposal:
    """A plan to write into a run, all in one append, so that no crash leaves it without its review.

    `body` is its event, to which `propose` adds what follows from the plan, and `values` what that
    refers to. `created` begins a new run; `start` and `then` are events before and after the plan.
    A person reviews it for `reasons` of its own and those of the policy, and sees the approved
    calls that it `drops`; `review_events` are written instead. `usable` are the results of earlier
    runs that it may use, if known.
    """

    body: e.PlanProposed
    _: KW_ONLY
    usable: UsableResults | None = None
    created: e.RunCreated | None = None
    start: Sequence[e.Entry] = ()
    then: Sequence[e.Entry] = ()
    reasons: Sequence[str] = ()
    drops: tuple[str, ...] = ()
    review_events: Sequence[e.Entry] | None = None
    values: Sequence[Json] = ()
    by: e.Actor = e.SYSTEM


def _without_reused(plan: Plan, then: Sequence[e.Entry]) -> Plan:
    """Returns a plan with the steps switched off whose results are reused."""
    reused = {each.step for each in then if isinstance(each, e.StepReused)}
    if not reused:
        return plan
    steps = [each.replace(disabled=each.disabled or each.id in reused) for each in plan.steps]
    return plan.replace(steps=tuple(steps))


class PlanIntake:
    """Checks plans against the registry, writes them into runs, and asks for review.

    `ask_also` returns reasons to review a plan for which the policy has none.
    """

    def __init__(
        self,
        registry: Registry,
        *,
        policy: ReviewPolicy | None = None,
        price_per_million: Decimal | None = None,
        timings: CallTimings | None = None,
        ask_also: Callable[[Plan], Sequence[str]] = lambda _: (),
    ) -> None:
        self.registry = registry
        self.policy = policy or ReviewPolicy()
        self.price_per_million = price_per_million
        self._timings = timings
        self._ask_also = ask_also
        sources = registry.sources
        self._rehearses = any(isinstance(each, ports.RehearsingSource) for each in sources)

    async def advice(self, plan: Plan) -> list[Problem]:
        """Returns notes on what makes a plan slow; they are shown, and not stored with a run."""
        return lint_plan(plan, (await self.registry.snapshot()).catalogue, advice=True)

    async def check(self, plan: Plan, usable: UsableResults = NO_RESULTS) -> list[Problem]:
        """Returns every problem of a plan, given the present tools, agents and templates.

        `usable` are the results of earlier runs that the plan may use, by default none.
        """
        snapshot = await self.registry.snapshot()
        facts = snapshot.facts_of(plan)
        known: Mapping[str, template.Template] = {}
        of_templates: Sequence[Problem] = ()
        if "plan" in plan.features:  # also a step that is switched off names a template
            known = await self.registry.load_templates()
            of_templates = template.template_problems(plan, known)
        if known or usable.results:
            used, tools = await used_results(plan, usable), snapshot.catalogue
            found = check_plan(plan, tools, agents=snapshot.agents, templates=known, usable=used)
        else:
            found = facts.problems
        # Which secrets are set may change at any time.
        of_secrets = secret_problems(plan, self.registry.secrets)
        problems = [*found, *of_templates, *of_secrets, *facts.lint]
        if self._rehearses and not has_errors(problems):
            rehearse = rehearsal.rehearsal_with(snapshot.callees.tools)
            problems += await rehearsal.rehearsal_problems(plan, snapshot.callees.specs, rehearse)
        return problems

    async def require_valid(self, plan: Plan, usable: UsableResults = NO_RESULTS) -> list[Problem]:
        """Returns the warnings of a plan; raises `PlanInvalid` if it has errors."""
        problems = await self.check(plan, usable)
        if has_errors(problems):
            raise PlanInvalid([each for each in problems if each.severity == "error"])
        return problems

    async def take_in(
        self, body: e.PlanProposed, options: RunOptions, pins: Mapping[str, str]
    ) -> Proposal:
        """Checks a plan that somebody gives; raises `PlanInvalid` if it has errors.

        The plan comes back with its templates, and names of earlier results, written out.
        """
        usable = await self.registry.usable_results(options, pins)
        plan = usable.named(await self.registry.with_fixed_templates(body.plan))
        problems = (*body.problems, *await self.require_valid(plan, usable))
        return Proposal(body.replace(plan=plan, problems=problems), usable=usable)

    async def propose(self, journal: Journal, proposal: Proposal) -> None:
        """Writes a checked plan into a run, with a request for review if that is required."""
        plan, run, created = proposal.body.plan, journal.run, proposal.created
        facts = await self.registry.facts(plan)
        options = created.options if created else run.options
        pins, problems = dict[str, str](), proposal.body.problems
        if facts.uses:
            usable = proposal.usable or await self.registry.usable_results(options, run.pins)
            results = usable.results
            pins = {each: results[each].hash for each in facts.uses if each in results}
            problems += tuple(each for each in usable.notes(plan) if each not in problems)
        timings = (await self.timings()).measured(facts.workload.names)
        templates = facts.capabilities.templates
        body = proposal.body.replace(
            acts=acting_steps(facts.changes),
            problems=problems,
            estimate=facts.workload.estimate(timings, self.price_per_million),
            pins=pins,
            # Finished steps keep the templates they ran with.
            templates={**run.templates, **templates} if templates else {},
        )
        review_events = proposal.review_events
        if review_events is None:
            review_events = self._review(facts, run, proposal.reasons, proposal.drops)
            if review_events and (rest := _without_reused(plan, proposal.then)) is not plan:
                # If steps that are still to run need a review, its reasons are theirs alone.
                left = await self.registry.facts(rest)
                fewer = self._review(left, run, proposal.reasons, proposal.drops)
                review_events = [each.replace(hash=plan.hash) for each in fewer] or review_events
            if not review_events and options.mode == "review":
                review_events = [e.ReviewAsked(hash=plan.hash, reasons=(SEEN_FIRST,))]
        first = [(created, proposal.by)] if created is not None else []
        entries = (*first, *proposal.start, (body, proposal.by), *proposal.then, *review_events)
        await journal.append(*entries, values=proposal.values)

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
        return self._review(await self.registry.facts(plan, templates), run, more)

    def _review(
        self,
        facts: PlanFacts,
        run: Run | None,
        more: Sequence[str] = (),
        drops: tuple[str, ...] = (),
    ) -> list[e.ReviewAsked]:
        plan = facts.plan
        found = reasons_to_ask(plan, self.policy, facts.changes)
        reasons = tuple(dict.fromkeys((*more, *found))) or tuple(self._ask_also(plan))
        if not reasons:
            return []
        if run is not None and run.drops_approved and not drops:
            made = {call.text for call in facts.calls.acting}
            drops = tuple(text for text in run.drops_approved if text not in made)
        return [e.ReviewAsked(hash=plan.hash, reasons=reasons, drops=drops)]

    async def timings(self) -> CallTimings:
        """Returns how long calls took: read once from the last runs, then updated by each run."""
        if self._timings is None:
            ended = await self.registry.store.headlines(statuses=OVER_STATUSES, limit=RUNS_READ)
            timings = CallTimings()
            for each in reversed(ended):
                if each.summary is not None:
                    timings.learn(each.summary.calls)
            if self._timings is None:  # else another task has read them meanwhile
                self._timings = timings
        return self._timings
