"""What planning starts from and what it ends with: the request, the kit, the outcome."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal

from plansmith.plan.capability import AgentSpec, ToolSpec
from plansmith.plan.data import Json
from plansmith.plan.estimate import Estimate
from plansmith.plan.plan import Plan
from plansmith.plan.problem import Problem
from plansmith.plan.run_options import Mode, RunBudget, RunOptions, SaidBefore, read_options
from plansmith.planner.briefing.background import Search
from plansmith.planner.briefing.profile import Profile
from plansmith.planner.briefing.token_budget import Count, rough_count
from plansmith.planner.estimate import Cost
from plansmith.planner.metrics import PlanMetrics
from plansmith.planner.settings import PlannerSettings
from plansmith.planner.shortlist import Pick, SemanticRanker
from plansmith.planner.triage import Decision
from plansmith.ports import ChatModel, Clock, ContextSource, Message

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """What a person wants, and what belongs to it."""

    text: str
    locale: str = ""
    target: str | None = None
    profile: Profile | None = None
    history: Sequence[Message] = ()
    previous: Plan | None = None
    feedback: str = ""
    top_k: int | None = None
    max_steps: int | None = None
    budget: RunBudget | Mapping[str, Json] | None = None
    mode: Mode = ""
    dialect: str = ""

    def options(self) -> RunOptions:
        """What a person gave beside the request, as a journal keeps it."""
        given: dict[str, object] = {
            "locale": self.locale,
            "target": self.target,
            "top_k": self.top_k,
            "profile": self.profile,
            "history": [SaidBefore(each.role, each.text) for each in self.history],
            "max_steps": self.max_steps,
            "budget": self.budget,
            "mode": self.mode,
            "dialect": self.dialect,
        }
        return read_options({name: value for name, value in given.items() if value})

    @classmethod
    def of(cls, text: str, options: RunOptions) -> PlanRequest:
        """The request of a journal."""
        profile = options.profile
        return cls(
            text,
            locale=options.locale,
            target=options.target or None,
            profile=Profile.model_validate(profile.to_json()) if profile else None,
            history=tuple(Message(*each) for each in options.history),
            top_k=options.top_k,
            max_steps=options.max_steps,
            budget=options.budget,
            mode=options.mode,
            dialect=options.dialect,
        )


@dataclass(frozen=True, slots=True)
class Kit:
    """All that planning may use; the same for every request."""

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
    past: Mapping[str, Sequence[Cost]] = field(default_factory=dict[str, Sequence[Cost]])
    price_per_million: Decimal | None = None
    count: Count = rough_count


@dataclass(frozen=True, slots=True)
class Planned:
    """What came of a request.

    `draft` is the plan that could not be used when `plan` is only its stand-in.
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

    def to_json(self) -> dict[str, Json]:
        """All of it as plain JSON."""
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


class Watch:
    """Tells of each stage as it begins, and keeps the time it took."""

    def __init__(self, clock: Clock, tell: Tell) -> None:
        self._clock = clock
        self._tell = tell
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, stage: str, about: str) -> Generator[None]:
        """Time one stage."""
        self._tell(f"{stage}: {about}")
        start = self._clock.monotonic()
        try:
            yield
        finally:
            spent = self._clock.monotonic() - start
            self.seconds[stage] = self.seconds.get(stage, 0.0) + spent
