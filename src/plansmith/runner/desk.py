"""Desk: where plans come in: checked against what can be called, estimated, put forward."""

from __future__ import annotations

import shlex
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from plansmith.errors import InvalidPlan, JournalDamaged, Misconfigured, OtherFolder, OtherTeam
from plansmith.plan import events as e
from plansmith.plan.capability import AgentSpec, ToolSpec
from plansmith.plan.data import Json
from plansmith.plan.ids import Ids
from plansmith.plan.plan import Plan
from plansmith.plan.problem import Problem, has_errors
from plansmith.plan.run import Run, RunStatus
from plansmith.plan.run_options import Team
from plansmith.planner.briefing.background import Search
from plansmith.planner.check import check_plan
from plansmith.planner.checking.names import Catalogue
from plansmith.planner.estimate import estimate
from plansmith.planner.lint import lint_plan
from plansmith.ports import Agent, Clock, PlanStore, Secrets, ToolSource
from plansmith.review.calls import PlanCalls
from plansmith.review.definitions import definitions
from plansmith.review.policy import ReviewPolicy, acting_steps, reasons_to_ask
from plansmith.runner.answerable import Known
from plansmith.runner.call import Callees
from plansmith.runner.journal import SYSTEM, Entry, Journal, whole_run
from plansmith.runner.owners import Owners
from plansmith.runner.past import RUNS, Past
from plansmith.runner.patience import Patience
from plansmith.runner.pinning import contents, pinned
from plansmith.runner.repair import repair
from plansmith.runner.requested import asking_about_missing, left_out
from plansmith.runner.sealing import secret_problems
from plansmith.runner.templates import (
    Template,
    TemplateBook,
    given_template,
    keeps_templates,
    runs_templates,
    template_problems,
)

SUBMITTED: Final = {"origin": "submitted"}


def submitted(by: e.Who) -> Mapping[str, str]:
    """The origin of a ready plan: whoever handed it in, a program where it was one."""
    return {"origin": "program"} if e.actor(by).kind == "program" else SUBMITTED


_MOST_BEGUN: Final = 1000


class Desk:
    """Knows the store and what can be called; takes plans in and hands runs out."""

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
        past: Past | None = None,
        secrets: Secrets | None = None,
        ids: Callable[[], str] | None = None,
        folder: Path | str = "",
        team: Team | None = None,
        shared_store: bool = False,
    ) -> None:
        self.team, self.shared_store = team, shared_store
        self.folder = str(Path(folder).resolve()) if folder else ""
        self.store = store
        self.clock = clock
        self.templates = dict(templates or {})
        self.policy = policy or ReviewPolicy()
        self.price_per_million = price_per_million
        self._past = past
        self._secrets = secrets
        self._ids = ids or Ids()
        self._sources = list(sources)
        self._agents: dict[str, Agent] = {}
        for agent in agents:
            if agent.spec.name in self._agents:
                raise Misconfigured(f"two agents are called {agent.spec.name!r}")
            self._agents[agent.spec.name] = agent
        self._callees: Callees | None = None
        self._listed: list[list[ToolSpec]] = []
        self._catalogue: tuple[Callees, Catalogue] | None = None
        self._begun: dict[str, Journal] = {}
        self.owners = Owners(store)
        self.patience = Patience(store, clock)

    async def begin(
        self,
        created: e.RunCreated,
        plan: Plan,
        *,
        by: e.Who,
        kept: Sequence[e.StepReused] = (),
        about: Mapping[str, Any] | None = None,
        reviewed: Sequence[Entry] | None = None,
        run_id: str = "",
    ) -> Run:
        """A new run with this plan; `kept` are results that count already."""
        plan = await self.pinned(plan)
        problems = await self.usable(plan)
        journal = self.new_journal(run_id)
        start = [(created, e.actor(by))]
        await self.propose(
            journal,
            plan,
            problems,
            start=start,
            then=kept,
            reviewed=reviewed,
            about=about or submitted(by),
            by=e.actor(by),
        )
        self._begun[journal.id] = journal
        while len(self._begun) > _MOST_BEGUN:
            del self._begun[next(iter(self._begun))]
        return await self.whole(journal)

    async def usable(self, plan: Plan) -> list[Problem]:
        """The problems of a plan that has no errors; one that has is not taken."""
        problems = await self.check(plan)
        if has_errors(problems):
            raise InvalidPlan([each for each in problems if each.severity == "error"])
        return problems

    async def check(self, plan: Plan) -> list[Problem]:
        """Every problem of a plan, given today's tools, agents and templates."""
        tools = self._catalogue_of(await self.callees())
        known = await self.load_templates() if runs_templates(plan) else dict[str, Template]()
        problems = check_plan(plan, tools, agents=self.agents(), templates=known)
        problems += template_problems(plan, known)
        return [*problems, *secret_problems(plan, self._secrets), *lint_plan(plan, tools)]

    def _catalogue_of(self, callees: Callees) -> Catalogue:
        """What can be called, as checks look it up; made anew when anything has changed."""
        if self._catalogue is None or self._catalogue[0] is not callees:
            self._catalogue = callees, Catalogue(list(callees.specs.values()))
        return self._catalogue[1]

    async def load_templates(self) -> Mapping[str, Template]:
        """The templates there are now; runs of older plans also find those removed since."""
        if not keeps_templates(self.store):
            return {name: given_template(name, plan) for name, plan in self.templates.items()}
        book = TemplateBook(self)
        self.templates |= {name: each.plan for name, each in (await book.every()).items()}
        return await book.all()

    async def pinned(self, plan: Plan) -> Plan:
        """The plan with the version and the parameters of each template written down."""
        return pinned(plan, await self.load_templates()) if runs_templates(plan) else plan

    async def propose(  # noqa: PLR0913 - all but the first by name
        self,
        journal: Journal,
        plan: Plan,
        problems: Sequence[Problem] = (),
        *,
        start: Sequence[Entry] = (),
        then: Sequence[Entry] = (),
        reviewed: Sequence[Entry] | None = None,
        about: Mapping[str, Any] | None = None,
        values: Sequence[Json] = (),
        by: e.Actor = SYSTEM,
    ) -> None:
        """Put a plan forward, and ask a person about it if its effects demand that.

        All is one append: no crash leaves a plan that nobody was asked about. `about` are more
        fields of the event; `reviewed` stands in for our own review.
        """
        expected = estimate(
            plan,
            list((await self.callees()).specs.values()),
            agents=self.agents(),
            past=(await self.past()).costs,
            price_per_million=self.price_per_million,
        )
        now = await self.contents(plan)
        begun = [entry[0] if isinstance(entry, tuple) else entry for entry in start]
        bodies = [*(event.body for event in journal.events), *begun]
        found = (*problems, *left_out(bodies, plan, **await self.known(plan, now)))
        fields = {"problems": found, "estimate": expected}
        fields |= {"acts": await self.acting(plan, now), **(about or {})}
        if now:  # steps that are done keep the templates they were run with
            fields["templates"] = {**journal.run.templates, **now}
        body = e.PlanProposed.model_validate({"plan": plan} | fields)
        asked = reviewed
        if asked is None:
            asked = await self.review(plan, journal.run, templates=now)
        asked = asking_about_missing(asked, plan, found)
        await journal.append(*start, (body, by), *then, *asked, values=values)

    async def acting(
        self, plan: Plan, templates: Mapping[str, Plan] | None = None
    ) -> tuple[str, ...]:
        """The steps of a plan that change something, those with such parts too."""
        return acting_steps(plan, **await self.known(plan, templates))

    async def review(
        self,
        plan: Plan,
        run: Run | None = None,
        *,
        more: Sequence[str] = (),
        templates: Mapping[str, Plan] | None = None,
    ) -> list[e.ReviewAsked]:
        """The request for a review, or nothing when the plan may run at once.

        `more` are reasons beyond those of the policy. What a person let go of in the run before
        stays in the words, unless the plan does it after all.
        """
        known = await self.known(plan, templates)
        told = tuple(dict.fromkeys((*more, *reasons_to_ask(plan, self.policy, **known))))
        if not told:
            return []
        lost = run.dropped if run else ()
        made = {call.text for call in PlanCalls(plan, **known).acting} if lost else set[str]()
        drops = tuple(text for text in lost if text not in made)
        return [e.ReviewAsked(hash=plan.hash, reasons=told, drops=drops)]

    async def contents(self, plan: Plan | None) -> Mapping[str, Plan]:
        """What the templates of a plan consist of, at every depth."""
        if plan is None or not runs_templates(plan):
            return {}
        return contents(plan, await self.load_templates())

    async def calls(self, plan: Plan, templates: Mapping[str, Plan] | None = None) -> PlanCalls:
        """What a plan could call, with its templates as they are, or as they were."""
        return PlanCalls(plan, **await self.known(plan, templates))

    async def known(self, plan: Plan | None, templates: Mapping[str, Plan] | None = None) -> Known:
        """What a plan's steps can call now, with its templates as they are, or as they were."""
        agents = {spec.name: spec for spec in self.agents()}
        specs = (await self.callees()).specs
        found = templates or await self.contents(plan)
        return Known(tools=specs, agents=agents, templates=found)

    async def past(self) -> Past:
        """What calls took before: learned from the last runs, once, and from every run since."""
        if self._past is None:
            self._past = Past()
            for run_id in (await self.store.runs())[-RUNS:]:
                # A damaged run tells nothing; it must not keep others from being planned.
                with suppress(JournalDamaged):
                    self._past.learn((await self.journal(run_id)).run)
        return self._past

    async def get(self, run_id: str) -> Run:
        """A run as it stands, with its results."""
        return await self.whole(await self.journal(run_id))

    async def repair(self, run_id: str, *, by: e.Who = "") -> Run:
        """Go on with a damaged run from its last good event: it is paused, nothing is lost.

        What comes behind that event is kept apart; calls that it tells of count as made.
        """
        async with self.owners.owning(run_id):
            journal = await self.journal(run_id)
            await repair(self.store, journal, by=e.actor(by))
            return await self.whole(journal)

    async def runs(self) -> list[Run]:
        """All runs, oldest first, without their results; a damaged one says so as its reason."""
        return [(await self.listed_run(run_id))[0] for run_id in await self.store.runs()]

    async def listed_run(self, run_id: str) -> tuple[Run, Sequence[e.Event]]:
        """A run without results, and its events; one that cannot be read says so as its reason."""
        try:
            journal = await self.journal(run_id)
        except JournalDamaged as damage:
            told = str(damage)
            return Run(id=run_id, phase=RunStatus.FAILED, reason=told, damage=told), ()
        return await self.owners.marked(journal.run), journal.events

    async def events(
        self, run_id: str, *, after: int = 0, follow: bool = False
    ) -> AsyncIterator[e.Event]:
        """The events of a run behind a number; with `follow`, also those still to come."""
        journal = Journal(run_id, store=self.store, clock=self.clock)
        while True:
            await journal.catch_up()
            for event in journal.events[after:]:
                after = event.number
                yield event
                if isinstance(event.body, e.RunFinished):
                    return
            # Of a damaged run there is no more to come before it is repaired.
            if not follow or journal.damage is not None:
                return
            await self.store.wait(run_id, after=after)

    @property
    def sources(self) -> Sequence[ToolSource]:
        """Where tools come from."""
        return self._sources

    def agents(self) -> list[AgentSpec]:
        """The cards of all agents."""
        return [agent.spec for agent in self._agents.values()]

    async def callees(self) -> Callees:
        """What can be called now; sources tell whether anything has changed."""
        listed = [list(await source.tools()) for source in self._sources]
        if self._callees is None or listed != self._listed:
            self._callees, self._listed = self._table(listed), listed
        return self._callees

    def search(self) -> Search | None:
        """What can be searched with before planning, if any tool is marked so."""
        marked = (
            source
            for source, specs in zip(self._sources, self._listed, strict=False)
            if any(spec.search for spec in specs)
        )
        found = next(marked, None)
        return Search(found) if found is not None else None

    def _table(self, listed: Sequence[Sequence[ToolSpec]]) -> Callees:
        tools: dict[str, ToolSource] = {}
        specs: dict[str, ToolSpec] = {}
        for source, found in zip(self._sources, listed, strict=True):
            for spec in found:
                if spec.name in specs:
                    raise Misconfigured(f"two tools are called {spec.name!r}")
                tools[spec.name], specs[spec.name] = source, spec
        return Callees(self.clock, tools, specs, self._agents, secrets=self._secrets)

    def new_journal(self, run_id: str = "") -> Journal:
        """The journal of a new run, which belongs to this folder."""
        named = run_id or self._ids()
        return Journal(
            named, store=self.store, clock=self.clock, folder=self.folder, team=self.team
        )

    def is_here(self, folder: str) -> bool:
        """Whether what belongs to a folder may act here; what belongs to none may anywhere."""
        return not folder or not self.folder or folder == self.folder

    def require_here(self, what: str, folder: str) -> None:
        """Refuse to act for a run or a schedule of another folder."""
        if self.is_here(folder):
            return
        hint = f"cd {shlex.quote(folder)} and do the same there, or use plansmith -C FOLDER"
        if not Path(folder).is_dir():
            hint = "that folder is not there any more: move it back, or ask anew here"
        raise OtherFolder(f"{what} belongs to the folder {folder}", hint=hint)

    def is_ours(self, run: Run) -> bool:
        """Whether a run may go on here by itself: in its folder, with the agents of its team."""
        return self.is_here(run.folder) and run.options.team == self.team

    def require_ours(self, run: Run) -> None:
        """Refuse to act for a run of another folder, or without the agents of its team."""
        self.require_here(f"run {run.id}", run.folder)
        team = run.options.team
        if team is None or (self.team is not None and self.team.name == team.name):
            return
        hint = f"plansmith {team.name} --resume {run.id}{' --db URL' if team.database else ''}"
        raise OtherTeam(f"run {run.id} needs the agents of the {team.name} team", hint=hint)

    async def own_journal(self, run_id: str) -> Journal:
        """The journal of a run that may act here."""
        journal = await self.journal(run_id)
        self.require_ours(journal.run)
        return journal

    async def definitions(
        self, plan: Plan, templates: Mapping[str, Plan] | None = None
    ) -> dict[str, str]:
        """What the tools and agents that a plan calls are now, by hash."""
        return definitions(plan, **await self.known(plan, templates))

    async def journal(self, run_id: str) -> Journal:
        """The journal of a run."""
        return await Journal.load(run_id, store=self.store, clock=self.clock)

    async def resumed_journal(self, run_id: str) -> Journal:
        """The journal of a run; one just begun here is not read again, only what came since."""
        journal = self._begun.pop(run_id, None)
        if journal is not None:
            await journal.catch_up()
        return journal or await self.journal(run_id)

    async def whole(self, journal: Journal, results: Mapping[str, Json] | None = None) -> Run:
        """A run with its results, unless they are at hand already, and its report."""
        return await self.owners.marked(await whole_run(self.store, journal.run, results))
