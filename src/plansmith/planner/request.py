"""The input and output of planning: request, settings, dependencies, result, figures."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field

from plansmith.lazy import lazy_modules
from plansmith.plan.data import Flag, Json, Number, Record, Whole
from plansmith.plan.run_options import (
    EarlierMessage,
    Mode,
    Replan,
    RunBudget,
    RunOptions,
    read_options,
)
from plansmith.plan.sentence import Sentence, in_language
from plansmith.plan.steps import AnyStep
from plansmith.planner.context.token_budget import Count, rough_count
from plansmith.planner.fallback import Fallback
from plansmith.planner.rehearsal import Rehearse, no_rehearsal
from plansmith.ports import ChatModel, Clock, ContextBlock, ContextSource, Message, Usage

if TYPE_CHECKING:
    from plansmith.plan.capability import AgentSpec, ToolSpec
    from plansmith.plan.estimate import Cost, Estimate
    from plansmith.plan.plan import Plan
    from plansmith.plan.planning_events import PlanningFigures
    from plansmith.plan.problem import Problem
    from plansmith.planner.context import profile as profiles
    from plansmith.planner.context.background import Search
    from plansmith.planner.earlier import UsableResults
    from plansmith.planner.shortlist.pick import Pick, SemanticRanker
    from plansmith.planner.triage import Decision
else:
    lazy_modules(globals(), profiles="plansmith.planner.context.profile")


@dataclass(frozen=True, slots=True)
class PlanMetrics:
    """How planning one request went."""

    parsed: bool = False
    parsed_at_once: bool = False
    enough_context: bool = False
    degraded: bool = False
    steps: int = 0
    repairs: int = 0
    iterations: int = 1
    usage: Usage = field(default_factory=Usage)
    seconds: Mapping[str, float] = field(default_factory=dict[str, float])

    def to_json(self) -> dict[str, Json]:
        """Returns the metrics as plain JSON."""
        return {
            "parsed": self.parsed,
            "parsed_at_once": self.parsed_at_once,
            "enough_context": self.enough_context,
            "degraded": self.degraded,
            "steps": self.steps,
            "repairs": self.repairs,
            "iterations": self.iterations,
            "input_tokens": self.usage.input_tokens,
            "output_tokens": self.usage.output_tokens,
            "cached_tokens": self.usage.cached_tokens,
            "cost_usd": None if self.usage.cost is None else str(self.usage.cost),
            "seconds": {name: round(each, 3) for name, each in self.seconds.items()},
        }

    @classmethod
    def of(cls, figures: PlanningFigures) -> PlanMetrics:
        """Returns the metrics stored in a journal."""
        cost = None if figures.cost_usd is None else Decimal(figures.cost_usd)
        tokens = figures.input_tokens, figures.output_tokens
        return cls(
            parsed=figures.parsed,
            parsed_at_once=figures.parsed_at_once,
            enough_context=figures.enough_context,
            degraded=figures.degraded,
            steps=figures.steps,
            repairs=figures.repairs,
            iterations=figures.iterations,
            usage=Usage(*tokens, cached_tokens=figures.cached_tokens, cost=cost),
            seconds=figures.seconds,
        )


class MetricTotals:
    """Metrics of many requests, as shares and averages."""

    def __init__(self) -> None:
        self._all: list[PlanMetrics] = []

    def add(self, metrics: PlanMetrics) -> None:
        """Adds the metrics of one request."""
        self._all.append(metrics)

    def to_json(self) -> dict[str, Json]:
        """Returns averages: parse success, steps, iterations, time, tokens and cost."""
        count = len(self._all)
        if not count:
            return {"requests": 0}
        plans = [each for each in self._all if each.parsed]
        costs = [each.usage.cost for each in self._all]
        known = [cost for cost in costs if cost is not None]
        return {
            "requests": count,
            "parse_success": len(plans) / count,
            "parsed_at_once": sum(each.parsed_at_once for each in self._all) / count,
            "enough_context": sum(each.enough_context for each in plans) / max(1, len(plans)),
            "degraded": sum(each.degraded for each in self._all) / count,
            "mean_steps": sum(each.steps for each in plans) / max(1, len(plans)),
            "mean_iterations": sum(each.iterations for each in self._all) / count,
            "mean_repairs": sum(each.repairs for each in self._all) / count,
            "mean_seconds": sum(sum(each.seconds.values()) for each in self._all) / count,
            "tokens": sum(each.usage.input_tokens + each.usage.output_tokens for each in self._all),
            "cost_usd": str(sum(known, Decimal(0))) if known else None,
            "requests_of_unknown_cost": len(costs) - len(known),
        }


class PlannerSettings(Record):
    """How plans are made."""

    top_k: Whole = Field(default=6, ge=1, description="tools and agents offered to the model")
    max_steps: Whole = Field(default=12, ge=1, description="more steps than this are an error")
    repairs: Whole = Field(default=2, ge=0, description="rounds in which a plan is repaired")
    fallback: Fallback = Field(
        default=Fallback.REPLY, description="the plan if the model gives none"
    )
    ask_for_missing: Flag = Field(default=True, description="ask the person for missing arguments")
    strict_shortlist: Flag = Field(
        default=False, description="a plan that uses what was not offered is an error"
    )
    semantic: Flag = Field(default=False, description="rank tools by meaning too, with MiniLM")
    triage: Flag = Field(default=True, description="answer small talk and simple facts at once")
    background_search: Flag = Field(default=False, description="search before planning")
    context_tokens: Whole = Field(default=6000, ge=0, description="limit of the context")
    source_seconds: Number = Field(default=10.0, gt=0, description="time limit of a source")
    timezone: str = Field(default="UTC", description="the person's time zone")
    prompts: Path | None = Field(default=None, description="folder with prompts of your own")


Tell = Callable[[str], None]


# Returns the conversation before a message (its number) of a thread (its id).
SaidBefore = Callable[[str, int | None], Awaitable[Sequence[Message]]]


async def nothing_said(_: str, __: int | None) -> Sequence[Message]:
    """Says that nothing came before."""
    return ()


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """What a person wants, with the options given for it.

    `findings` is what tools said so far, for a plan that is made again, and `kept` are the steps
    that stay in it whatever the planner writes; `triaged` says that it is decided already that a
    plan is needed; `pins` are the contents of earlier runs that the run uses already. No journal
    stores these here.
    """

    text: str
    locale: str = ""
    target: str | None = None
    profile: profiles.Profile | None = None
    history: Sequence[Message] = ()
    previous: Plan | None = None
    feedback: str = ""
    top_k: int | None = None
    max_steps: int | None = None
    budget: RunBudget | Mapping[str, Json] | None = None
    mode: Mode = ""
    dialect: str = ""
    replan: Replan = ""
    thread: str = ""
    message: int | None = None
    findings: Sequence[ContextBlock] = ()
    triaged: bool = False
    kept: Sequence[AnyStep] = ()
    pins: Mapping[str, str] = field(default_factory=dict[str, str])

    def options(self) -> RunOptions:
        """Returns the options of the request in the form a journal stores."""
        given: dict[str, object] = {
            "locale": self.locale,
            "target": self.target,
            "top_k": self.top_k,
            "profile": self.profile,
            "history": [EarlierMessage(each.role, each.text) for each in self.history],
            "max_steps": self.max_steps,
            "budget": self.budget,
            "mode": self.mode,
            "dialect": self.dialect,
            "replan": self.replan,
            "thread": self.thread,
            "message": self.message,
        }
        return read_options({name: value for name, value in given.items() if value})

    @classmethod
    def of(cls, text: str, options: RunOptions, *, triaged: bool = False) -> PlanRequest:
        """Returns the request stored in a journal."""
        profile = options.profile
        return cls(
            text,
            locale=options.locale,
            target=options.target or None,
            profile=profiles.Profile.model_validate(profile.to_json()) if profile else None,
            history=tuple(Message(*each) for each in options.history),
            top_k=options.top_k,
            max_steps=options.max_steps,
            budget=options.budget,
            mode=options.mode,
            dialect=options.dialect,
            replan=options.replan,
            thread=options.thread,
            message=options.message,
            triaged=triaged,
        )


@dataclass(frozen=True, slots=True)
class PlannerDeps:
    """Everything planning uses that is the same for every request."""

    plan_model: ChatModel
    clock: Clock
    triage_model: ChatModel | None = None
    tools: Sequence[ToolSpec] = ()
    agents: Sequence[AgentSpec] = ()
    templates: Sequence[str] = ()
    sources: Sequence[ContextSource] = ()
    search: Search | None = None
    ranker: SemanticRanker | None = None
    settings: PlannerSettings = field(default_factory=PlannerSettings)
    past: Mapping[str, Sequence[Cost]] = field(default_factory=dict[str, "Sequence[Cost]"])
    price_per_million: Decimal | None = None
    count: Count = rough_count
    earlier: UsableResults | None = None
    rehearse: Rehearse = no_rehearsal


@dataclass(frozen=True, slots=True)
class Planned:
    """The result of planning.

    `draft` is the model's unusable plan if `plan` is only a fallback. `questions` are those of a
    planner that asks several things at once; `answer` has them as one text. `read_results` says
    that the planner read what tools returned for earlier requests.
    """

    decision: Decision
    reason: str = ""
    answer: str = ""
    locale: str = "en"
    plan: Plan | None = None
    draft: Plan | None = None
    problems: tuple[Problem, ...] = ()
    picks: tuple[Pick, ...] = ()
    text: str = ""
    estimate: Estimate | None = None
    metrics: PlanMetrics = field(default_factory=PlanMetrics)
    exchanges: tuple[dict[str, Json], ...] = ()
    questions: tuple[str, ...] = ()
    read_results: bool = False

    def to_json(self) -> dict[str, Json]:
        """Returns all fields as plain JSON."""
        return {
            "decision": self.decision.value,
            "reason": self.reason,
            "answer": self.answer,
            "locale": self.locale,
            "plan": self.plan.to_json() if self.plan else None,
            "hash": self.plan.hash if self.plan else None,
            "draft": self.draft.to_json() if self.draft else None,
            "problems": [each.to_json() | {"name": each.name} for each in self.problems],
            "picks": [{"name": each.name, "reason": each.reason} for each in self.picks],
            "estimate": self.estimate.to_json() if self.estimate else None,
            "metrics": self.metrics.to_json(),
        }


def stage_line(stage: str, about: str) -> str:
    """Returns a line of progress: a stage of planning and what it does."""
    return Sentence("planning.line", stage=Sentence(f"stage.{stage}"), about=about)


class Watch:
    """Reports each stage as it begins, and measures its time."""

    def __init__(self, clock: Clock, tell: Tell, locale: str = "en") -> None:
        self._clock = clock
        self._tell = tell
        self._locale = locale
        self.seconds: dict[str, float] = {}

    def note(self, stage: str, about: str) -> None:
        """Reports how far a stage is, in the reader's language."""
        self._tell(in_language(stage_line(stage, about), self._locale))

    @contextmanager
    def __call__(self, stage: str, about: str) -> Generator[None]:
        """Measures one stage."""
        self.note(stage, about)
        start = self._clock.monotonic()
        try:
            yield
        finally:
            spent = self._clock.monotonic() - start
            self.seconds[stage] = self.seconds.get(stage, 0.0) + spent
