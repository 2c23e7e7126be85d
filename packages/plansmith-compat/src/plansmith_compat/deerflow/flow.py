"""DeerFlow's flow: coordinator, planner, human, research team and reporter as durable runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, Unpack, cast

from plansmith import plugins
from plansmith.app import Plansmith
from plansmith.arguments import Options, ToolLike
from plansmith.plan import next_move as moves
from plansmith.plan.data import Json
from plansmith.plan.diff import rename_steps
from plansmith.plan.events import Actor
from plansmith.plan.limits import Limits
from plansmith.plan.next_move import AwaitReview, next_move
from plansmith.plan.plan import Plan as CorePlan
from plansmith.plan.run import Run, RunStatus
from plansmith.plan.sentence import Sentence
from plansmith.plan.steps import ReplyStep
from plansmith.ports import Agent, ChatModel, ContextBlock, JournalStore, Message, ToolSource
from plansmith.runs.replan import IterationRules
from plansmith_compat import turns
from plansmith_compat.calling import KnownContext
from plansmith_compat.deerflow import models
from plansmith_compat.deerflow.configuration import TURNS, Configuration
from plansmith_compat.deerflow.dialect import ANALYST, CODER, is_work, report_instruction
from plansmith_compat.deerflow.models import Feedback, Goto, Plan
from plansmith_compat.deerflow.plan_fixes import with_search
from plansmith_planner.agent_cards import ANALYST as ANALYST_CARD
from plansmith_planner.make import model_of
from plansmith_planner.parse.habits import Ids, result_text
from plansmith_planner.settings import PlannerSettings

_DEERFLOW: Final = Actor(kind="program", name="deerflow")
# Whole journals are read to judge plans, so not those of all runs.
_RUNS_JUDGED: Final = 200
_NODES: Final[Mapping[type, Goto]] = {
    moves.Over: Goto.END,
    AwaitReview: Goto.HUMAN_FEEDBACK,
    moves.AwaitAnswer: Goto.HUMAN_FEEDBACK,
    moves.Paused: Goto.HUMAN_FEEDBACK,
    moves.MakePlan: Goto.PLANNER,
    moves.EndOrReplan: Goto.REPORTER,
}
# The targets of DeerFlow's authors: the lowest and the highest good value.
TARGETS: Final[Mapping[str, tuple[float, float]]] = {
    "parse_success": (0.95, 1.0),
    "enough_context": (0.8, 1.0),
    "mean_steps": (2.0, 5.0),
    "mean_iterations": (0.0, 1.5),
    "mean_seconds": (0.0, 10.0),
}


@dataclass(frozen=True, slots=True)
class ResearchState:
    """The state of a piece of research, and its next node."""

    run_id: str
    goto: Goto
    locale: str = "en"
    plan: Plan | None = None
    plan_iterations: int = 0
    observations: tuple[str, ...] = ()
    final_report: str = ""
    question: str = ""
    errors: tuple[str, ...] = field(default_factory=tuple)
    thread_id: str = ""


def not_enough_context(plan: CorePlan) -> Sequence[str]:
    """Returns why a plan that only reads is reviewed: it says that it lacks context."""
    return [Sentence("review.no_context")] if not plan.enough_context else []


def _team(agents: Sequence[Agent]) -> list[Agent]:
    """Returns the agents; without an analyst the coder does the analysis too."""
    named = {agent.spec.name: agent for agent in agents}
    if ANALYST in named or CODER not in named:
        return [*agents]
    coder = named[CODER]
    card = coder.spec.replace(name=ANALYST, description=ANALYST_CARD.description)
    return [*agents, cast("Agent", SimpleNamespace(spec=card, work=coder.work))]


class DeerFlow:
    """Research with a team of agents; every method returns the new state."""

    def __init__(
        self,
        *,
        model: ChatModel | str | None = None,
        agents: Sequence[Agent],
        tools: Sequence[ToolLike] = (),
        store: str | JournalStore = "memory",
        configuration: Configuration | None = None,
        **more: Unpack[Options],
    ) -> None:
        self.configuration = configuration or Configuration()
        planner = PlannerSettings(
            max_steps=self.configuration.max_step_num,
            background_search=self.configuration.enable_background_investigation
            and self.configuration.enable_web_search,
        )
        most = self.configuration.max_plan_iterations
        # At the limit of plan iterations it writes the report instead of asking for more plans.
        iterations = IterationRules(end_at_limit=True, partial_reply=True, join=self._next_round)
        given: dict[str, Any] = {"iterations": iterations} | dict(more)
        given["limits"] = given.get("limits", Limits()).replace(max_iterations=most)
        if not self.configuration.auto_accepted_plan:
            given["ask_also"] = not_enough_context
        given["context"] = [*given.get("context", ()), KnownContext(self._rules)]
        self._model_notes: list[str] = []
        self._hashes: dict[str, str] = {}  # the plan of each run that a state showed last
        self.smith = Plansmith(
            model=model_of(model, tell=self._model_notes.append),
            agents=_team(agents),
            tools=tools,
            store=store,
            settings=planner,
            **given,
        )

    async def start(
        self,
        request: str,
        *,
        locale: str = "",
        history: Sequence[Message] = (),
        by: str = "",
        thread_id: str = "",
    ) -> ResearchState:
        """Runs coordinator, background investigation and planner; continues if nobody is asked.

        A `thread_id` names a conversation: the request knows what came before in it, or it answers
        the question that is open there.
        """
        given: dict[str, Any] = {"locale": locale, "history": history, "dialect": "deerflow"}
        run = await turns.plan_message(self.smith, request, thread_id=thread_id, by=by, **given)
        return await self._execute(run)

    def _rules(self) -> list[ContextBlock]:
        most = self.configuration.max_plan_iterations
        rounds = "this is the only plan, and the report follows it"
        if most > 1:
            rounds = "when all steps of a plan have run, another one may go on from what they found"
        types = 'step_type "analysis" is for an analyst, who reasons on what was found without code'
        if self.configuration.enforces_search:
            types += "; at least one step of every plan is research with a web search"
        if not self.configuration.enable_web_search:
            types += "; there is no web search"
        limit = f"max_plan_iterations is {most}: {rounds}"
        return [ContextBlock("plan iterations", limit), ContextBlock("step types", types)]

    def _next_round(self, before: CorePlan, after: CorePlan) -> CorePlan:
        """Returns a further plan: with new ids for its steps, and a report on all plans.

        In DeerFlow's format ids are positions, so the steps of two plans would have the same ids.
        """
        after, fresh = self._searching(after), Ids()
        for place, name in enumerate(before.by_id):
            fresh.make(name, place)
        renamed = rename_steps(after, {step.id: fresh.make(step.id, 0) for step in after.steps})
        work = [step.id for step in (*before.steps, *renamed.steps) if is_work(step)]
        instruction = report_instruction(after.goal or after.thought, work)
        steps = [
            step.replace(instruction=instruction) if isinstance(step, ReplyStep) else step
            for step in renamed.steps
        ]
        return renamed.replace(steps=tuple(steps))

    def _searching(self, plan: CorePlan) -> CorePlan:
        return with_search(plan) if self.configuration.enforces_search else plan

    async def feedback(
        self, run_id: str, words: str | models.Word, *, by: str = ""
    ) -> ResearchState:
        """Takes a person's decision on the plan; asks again if the words are no decision."""
        word = models.read_feedback(words) if isinstance(words, str) else words
        run = await self._with_search(before := await self.smith.get(run_id))
        goto = models.route_feedback(word.feedback, word.text)
        move = next_move(run)
        if not isinstance(move, AwaitReview) or goto is Goto.HUMAN_FEEDBACK:
            return self.state(run)
        # Words on a plan that was changed since, here or elsewhere, are not about this one.
        if run is not before or self._hashes.get(run_id, move.hash) != move.hash:
            return self.state(run)
        if word.feedback is Feedback.EDIT_PLAN:
            return await self._execute(await turns.change(self.smith, run, word.text, by=by))
        await self.smith.decide(run_id, approve=move.hash, by=by)
        return self.state(await self.smith.runs.run(run_id))

    async def answer(
        self, run_id: str, question: str, value: Json, *, by: str = ""
    ) -> ResearchState:
        run = await self.smith.get(run_id)
        return await self._execute(await turns.answer(self.smith, run, question, value, by=by))

    async def resume(self, run_id: str) -> ResearchState:
        run = await self._with_search(await self.smith.get(run_id))
        return self.state(await self.smith.runs.run(run.id))

    async def _execute(self, run: Run) -> ResearchState:
        run = await self._with_search(run)
        runs = isinstance(next_move(run), moves.Execute) and not (run.plan and run.plan.degraded)
        return self.state(await self.smith.runs.run(run.id) if runs else run)

    async def _with_search(self, run: Run) -> Run:
        """Gives a plan that nobody has begun a search, if it must have one.

        This comes before every decision, so that a person decides on the plan that will run.
        """
        has_begun = any(state.attempts for state in run.steps.values())
        if run.plan is None or run.plan.degraded or run.status.over or has_begun:
            return run
        plan = self._searching(run.plan)
        return run if plan == run.plan else await self.smith.edit(run.id, plan, by=_DEERFLOW)

    def state(self, run: Run) -> ResearchState:
        self._hashes[run.id] = run.plan.hash if run.plan is not None else ""
        usable = run.plan if run.plan is not None and not run.plan.degraded else None
        texts = [
            result_text(run, step.id) for step in (usable.steps if usable else ()) if is_work(step)
        ]
        errors = [run.plan.degraded] if run.plan is not None and run.plan.degraded else []
        if run.plan is None and run.status is RunStatus.FAILED:
            errors = [run.reason]
        errors += [f"{name}: {state.error}" for name, state in run.steps.items() if state.error]
        errors += [] if usable or run.report else self._model_notes
        goto = _NODES.get(type(next_move(run)), Goto.RESEARCH_TEAM)
        return ResearchState(
            run_id=run.id,
            goto=Goto.END if run.plan is not None and run.plan.degraded else goto,
            locale=usable.locale if usable else run.locale,
            plan=Plan.from_core(usable, run) if usable else None,
            plan_iterations=run.iterations + 1 if usable else 0,
            observations=tuple(text for text in texts if text is not None),
            final_report=run.report,
            question="\n".join(each.text for each in run.questions.values()),
            errors=tuple(errors),
            thread_id=run.options.thread,
        )

    async def metrics(self) -> dict[str, Json]:
        """Returns the planning metrics of all runs, and which of DeerFlow's targets are met."""
        found = (await self.smith.runs.lists.totals()).planning
        met: dict[str, Json] = {
            name: least <= float(str(found[name])) <= most
            for name, (least, most) in TARGETS.items()
            if name in found
        }
        return {**found, "targets_met": met, "quality": models.shares(await self._plans())}

    async def _plans(self) -> list[Plan]:
        newest = await self.smith.runs.lists.newest(limit=_RUNS_JUDGED)
        runs = [await self.smith.get(each.run) for each in newest if not each.damage]
        return [
            Plan.from_core(run.plan)
            for run in runs
            if run.plan is not None and not run.plan.degraded and any(map(is_work, run.plan.steps))
        ]

    async def close(self) -> None:
        """Closes everything; `resume` continues open runs later."""
        await self.smith.close()


def research_team(
    *, model: ChatModel | str | None = None, sources: Sequence[ToolSource], folder: Path
) -> list[Agent]:
    """Returns a researcher with search and reading tools, a coder with a sandbox, an analyst."""
    make = plugins.load("agents", "research_team")
    team: list[Agent] = make(model=model_of(model), sources=sources, folder=folder, turns=TURNS)
    return team
