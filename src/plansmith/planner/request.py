"""The input and output of planning: request, settings, dependencies, result, figures."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Self

from plansmith.lazy import lazy_modules
from plansmith.plan.data import Json
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
from plansmith.planner.metrics import PlanMetrics
from plansmith.planner.rehearsal import Rehearse, no_rehearsal
from plansmith.planner.settings import PlannerSettings
from plansmith.ports import ChatModel, Clock, ContextBlock, ContextSource, Message

if TYPE_CHECKING:
    from plansmith.plan.capability import AgentSpec, ToolSpec
    from plansmith.plan.estimate import Cost, Estimate
    from plansmith.plan.plan import Plan
    from plansmith.plan.problem import Problem
    from plansmith.planner.context import profile as profiles
    from plansmith.planner.context.background import Search
    from plansmith.planner.earlier import UsableResults
    from plansmith.planner.ranking.pick import Pick, SemanticRanker
    from plansmith.planner.triage import Decision
else:
    lazy_modules(globals(), profiles="plansmith.planner.context.profile")


Tell = Callable[[str], None]


# Returns the conversation before a message (its number) of a thread (its id).
SaidBefore = Callable[[str, int | None], Awaitable[Sequence[Message]]]


async def nothing_said(_: str, __: int | None) -> Sequence[Message]:
    """Says that nothing came before."""
    return ()


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """What a person wants, with the options given for it.

    `changes` are what the person asked to change so far, in order, and `findings` what tools said
    so far, for a plan that is made again; `kept` are the steps that stay in it whatever the
    planner writes; `triaged` says that it is decided already that a
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
    changes: Sequence[str] = ()
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


class StageLine(str):
    """A line of progress in the reader's language, with its stage for programs.

    `begins` tells a stage that begins from one that goes on.
    """

    __slots__ = ("about", "begins", "stage")
    stage: str
    about: str
    begins: bool

    def __new__(cls, stage: str, about: str, locale: str, *, begins: bool) -> Self:
        """Makes the line of a stage."""
        made = super().__new__(cls, in_language(stage_line(stage, about), locale))
        made.stage, made.about, made.begins = stage, in_language(about, locale), begins
        return made


class Watch:
    """Reports each stage as it begins, and measures its time."""

    def __init__(self, clock: Clock, tell: Tell, locale: str = "en") -> None:
        self._clock = clock
        self._tell = tell
        self._locale = locale
        self.seconds: dict[str, float] = {}

    def note(self, stage: str, about: str, *, begins: bool = False) -> None:
        """Reports how far a stage is, in the reader's language."""
        self._tell(StageLine(stage, about, self._locale, begins=begins))

    @contextmanager
    def __call__(self, stage: str, about: str) -> Generator[None]:
        """Measures one stage."""
        self.note(stage, about, begins=True)
        start = self._clock.monotonic()
        try:
            yield
        finally:
            spent = self._clock.monotonic() - start
            self.seconds[stage] = self.seconds.get(stage, 0.0) + spent
