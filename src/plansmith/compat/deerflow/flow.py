"""DeerFlow's flow: coordinator, planner, human, research team and reporter as durable runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Unpack

from pydantic import Field

from plansmith.adapters.agents.coder import coder
from plansmith.adapters.agents.local.limits import LocalLimits
from plansmith.adapters.agents.researcher import researcher
from plansmith.app import Plansmith, ToolLike
from plansmith.compat.deerflow.models import (
    Feedback,
    Goto,
    Plan,
    Word,
    read_feedback,
    route_feedback,
)
from plansmith.config import Settings
from plansmith.dialects.deerflow import is_work, report_instruction
from plansmith.dialects.habits import Ids, result_text
from plansmith.plan.data import Flag, Json, Record, Whole
from plansmith.plan.limits import Limits
from plansmith.plan.next_move import (
    AwaitAnswer,
    AwaitReview,
    Conclude,
    Execute,
    MakePlan,
    Over,
    Paused,
    next_move,
)
from plansmith.plan.plan import Plan as CorePlan
from plansmith.plan.rename import rename_steps
from plansmith.plan.run import Run, RunStatus
from plansmith.plan.sentence import Sentence
from plansmith.plan.steps import ReplyStep
from plansmith.planner.check.check_plan import Way, way_on
from plansmith.ports import Agent, ChatModel, ContextBlock, Message, PlanStore, ToolSource
from plansmith.runs.options import Options
from plansmith.runs.replan import Rounds

TURNS: Final = 40
# The targets of DeerFlow's authors: the lowest and the highest good value.
TARGETS: Final[Mapping[str, tuple[float, float]]] = {
    "parse_success": (0.95, 1.0),
    "enough_context": (0.8, 1.0),
    "mean_steps": (2.0, 5.0),
    "mean_iterations": (0.0, 1.5),
    "mean_seconds": (0.0, 10.0),
}


class Configuration(Record):
    """The options of research; the defaults are those of DeerFlow's server."""

    max_plan_iterations: Whole = Field(default=1, ge=1)
    max_step_num: Whole = Field(default=3, ge=1)
    auto_accepted_plan: Flag = False
    enable_background_investigation: Flag = False


@dataclass(frozen=True, slots=True)
class State:
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


def not_enough_context(plan: CorePlan) -> Sequence[str]:
    """Returns why a plan that only reads is reviewed: it says that it lacks context."""
    return [Sentence("review.no_context")] if way_on(plan) is Way.REVIEW else []


def _next_round(before: CorePlan, after: CorePlan) -> CorePlan:
    """Gives the steps of a further plan new ids; its report covers all plans.

    In DeerFlow's format ids are positions, so the steps of two plans would have the same ids.
    """
    fresh = Ids()
    for place, name in enumerate(before.by_id):
        fresh.make(name, place)
    names = {step.id: fresh.make(step.id, 0) for step in after.steps}
    renamed = rename_steps(after, names)
    work = [step.id for step in (*before.steps, *renamed.steps) if is_work(step)]
    instruction = report_instruction(after.goal or after.thought, work)
    steps = [
        step.replace(instruction=instruction) if isinstance(step, ReplyStep) else step
        for step in renamed.steps
    ]
    return renamed.replace(steps=tuple(steps))


@dataclass(frozen=True, slots=True)
class PlanRounds:
    """Tells the planner how many plans there may be, so that it can divide its research."""

    most: int

    async def gather(self, query: str, *, token_limit: int) -> Sequence[ContextBlock]:
        """Returns one line about the limit."""
        del query, token_limit
        limit = f"max_plan_iterations is {self.most}: "
        once = "this is the only plan, and the report follows it"
        more = "when all steps of a plan have run, another one may go on from what they found"
        return [ContextBlock("plan iterations", limit + (once if self.most == 1 else more))]


class DeerFlow:
    """Research with a team of agents; every method returns the new state."""

    def __init__(
        self,
        *,
        model: ChatModel | None,
        agents: Sequence[Agent],
        tools: Sequence[ToolLike] = (),
        store: str | PlanStore = "memory",
        configuration: Configuration | None = None,
        **more: Unpack[Options],
    ) -> None:
        self.configuration = configuration or Configuration()
        planner = {
            "max_steps": self.configuration.max_step_num,
            "background_search": self.configuration.enable_background_investigation,
        }
        most = self.configuration.max_plan_iterations
        # At the limit of plan iterations it writes the report instead of asking for more plans.
        rounds = Rounds(end_at_limit=True, partial_reply=True, join=_next_round)
        given: dict[str, Any] = {"rounds": rounds} | dict(more)
        given["limits"] = given.get("limits", Limits()).replace(max_iterations=most)
        if not self.configuration.auto_accepted_plan:
            given["ask_also"] = not_enough_context
        given["context"] = [*given.get("context", ()), PlanRounds(most)]
        self.smith = Plansmith(
            model=model,
            agents=agents,
            tools=tools,
            store=store,
            settings=Settings.model_validate({"planner": planner}),
            **given,
        )

    async def start(
        self, request: str, *, locale: str = "", history: Sequence[Message] = (), by: str = ""
    ) -> State:
        """Runs coordinator, background investigation and planner; continues if nobody is asked."""
        given: dict[str, Any] = {"locale": locale, "history": history, "dialect": "deerflow"}
        return await self._execute(await self.smith.plan(request, by=by, **given))

    async def feedback(self, run_id: str, words: str | Word, *, by: str = "") -> State:
        """Takes a person's decision on the plan; asks again if the words are no decision."""
        word = read_feedback(words) if isinstance(words, str) else words
        run = await self.smith.get(run_id)
        goto = route_feedback(word.feedback, word.text)
        move = next_move(run)
        if not isinstance(move, AwaitReview) or goto is Goto.HUMAN_FEEDBACK:
            return self.state(run)
        if word.feedback is Feedback.EDIT_PLAN:
            return await self._execute(await self.smith.request_changes(run_id, word.text, by=by))
        await self.smith.decide(run_id, approve=move.hash, by=by)
        return self.state(await self.smith.run(run_id))

    async def answer(self, run_id: str, question: str, value: Json, *, by: str = "") -> State:
        """Answers a question of the coordinator or of a step."""
        return await self._execute(await self.smith.answer(run_id, question, value, by=by))

    async def resume(self, run_id: str) -> State:
        """Continues research, also after a restart."""
        return self.state(await self.smith.run(run_id))

    async def _execute(self, run: Run) -> State:
        """Executes the run if it waits for nobody."""
        runs = isinstance(next_move(run), Execute) and not (run.plan and run.plan.degraded)
        return self.state(await self.smith.run(run.id) if runs else run)

    def state(self, run: Run) -> State:
        """Returns the state of a run as DeerFlow shows it."""
        usable = run.plan if run.plan is not None and not run.plan.degraded else None
        texts = [
            result_text(run, step.id) for step in (usable.steps if usable else ()) if is_work(step)
        ]
        return State(
            run_id=run.id,
            goto=_goto(run),
            locale=usable.locale if usable else run.locale,
            plan=Plan.from_core(usable, run) if usable else None,
            plan_iterations=run.iterations + 1 if usable else 0,
            observations=tuple(text for text in texts if text is not None),
            final_report=run.report,
            question="\n".join(each.text for each in run.questions.values()),
            errors=_errors(run),
        )

    async def metrics(self) -> dict[str, Json]:
        """Returns the planning metrics of all runs, and which of DeerFlow's targets are met."""
        found = await self.smith.runs.metrics()
        met: dict[str, Json] = {
            name: least <= float(str(found[name])) <= most
            for name, (least, most) in TARGETS.items()
            if name in found
        }
        return {**found, "targets_met": met}

    async def close(self) -> None:
        """Closes everything; `resume` continues open runs later."""
        await self.smith.close()


def research_team(*, model: ChatModel, sources: Sequence[ToolSource], folder: Path) -> list[Agent]:
    """Returns a researcher with search and reading tools, and a coder with a sandbox."""
    limits = LocalLimits(turns=TURNS)
    return [
        researcher(model=model, sources=sources, limits=limits),
        coder(model=model, folder=folder, limits=limits),
    ]


def _goto(run: Run) -> Goto:
    if run.plan is not None and run.plan.degraded:
        return Goto.END
    match next_move(run):
        case Over():
            return Goto.END
        case AwaitReview() | AwaitAnswer() | Paused():
            return Goto.HUMAN_FEEDBACK
        case MakePlan():
            return Goto.PLANNER
        case Conclude():
            return Goto.REPORTER
        case _:
            return Goto.RESEARCH_TEAM


def _errors(run: Run) -> tuple[str, ...]:
    """Returns why planning failed, and the errors of failed steps."""
    planning = [run.plan.degraded] if run.plan is not None and run.plan.degraded else []
    if run.plan is None and run.status is RunStatus.FAILED:
        planning = [run.reason]
    steps = [f"{name}: {state.error}" for name, state in run.steps.items() if state.error]
    return (*planning, *steps)
