"""The input and output of planning: a request with its options, and what came of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from decimal import Decimal
from enum import StrEnum
from typing import Literal, NamedTuple, Self

from plansmith.plan.briefs import ContextBlock, Usage
from plansmith.plan.data import Json
from plansmith.plan.event_body import EventPart, ShownField
from plansmith.plan.plan import Plan
from plansmith.plan.problem import Problem
from plansmith.plan.run_options import NO_OPTIONS, RunOptions
from plansmith.plan.steps import AnyStep, ReplyStep


class CallUsage(NamedTuple):
    """Seconds and tokens of one step or call."""

    seconds: float
    tokens: int = 0


class Measured(EventPart, frozen=True, kw_only=True):
    """The median time and tokens of earlier calls of one tool or agent."""

    seconds: int | float
    tokens: int = 0


class Estimate(EventPart, frozen=True, kw_only=True):
    """What a plan will probably take, and the basis for it; waiting for people is not counted."""

    seconds: int | float = 0.0
    tokens: int = 0
    cost_usd: str | None = None
    effects: dict[str, int] = {}
    critical_path: tuple[str, ...] = ()
    basis: tuple[ShownField, ...] = ()
    measured: dict[str, Measured] = {}


class Decision(StrEnum):
    """What to do with a request."""

    ANSWER = "answer"
    PLAN = "plan"
    ASK = "ask"
    REFUSE = "refuse"


PlanOrigin = Literal["model", "rules", "person", "submitted", "program", "template", "rerun"]


class PickedTool(EventPart, frozen=True, kw_only=True):
    """A tool or an agent that was offered to the model, and why."""

    name: str
    reason: str


class ModelUse(NamedTuple):
    """How often a model was asked for plans, and for how many tokens."""

    calls: int
    tokens: int


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds of planning, of running, and of waiting for a person."""

    planning: float = 0.0
    running: float = 0.0
    waiting: float = 0.0

    @property
    def working(self) -> float:
        return self.planning + self.running


class PlanningFigures(EventPart, frozen=True, kw_only=True):
    """How planning went: time, tokens, and whether the model's first text was usable."""

    parsed: bool = False
    parsed_at_once: bool = False
    enough_context: bool = False
    degraded: bool = False
    steps: int = 0
    repairs: int = 0
    iterations: int = 1
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cost_usd: str | None = None
    seconds: dict[str, int | float] = {}

    def spent(self, usage: Usage, seconds: Mapping[str, float] | None = None) -> Self:
        """Returns the figures with the tokens of the model calls and the time of each stage."""
        return self.replace(
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cached_tokens=usage.cached_tokens,
            cost_usd=None if usage.cost is None else str(usage.cost),
            seconds={name: round(each, 3) for name, each in (seconds or {}).items()},
        )

    @property
    def usage(self) -> Usage:
        cost = None if self.cost_usd is None else Decimal(self.cost_usd)
        return Usage(self.input_tokens, self.output_tokens, self.cached_tokens, cost)


# Receives what happens, for a person to read.
Tell = Callable[[str], None]


def ignore_progress(_: str) -> None:
    """Ignores messages about what happens."""


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """What a person wants, with the options given for it.

    `feedback` says what to change in the `previous` plan, and `findings` what tools said so far;
    `kept` are the steps that stay in it whatever the planner writes; `triaged` says that it
    is known already that a plan is needed; `pins` are the contents of earlier runs that the run
    uses already. No journal stores these here.
    """

    text: str
    options: RunOptions = NO_OPTIONS
    _: KW_ONLY
    previous: Plan | None = None
    feedback: str = ""
    findings: Sequence[ContextBlock] = ()
    triaged: bool = False
    kept: Sequence[AnyStep] = ()
    pins: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class Planned:
    """The result of planning.

    `draft` is the model's unusable plan if `plan` is only a fallback. `questions` are those of a
    planner that asks several things at once; `answer` has them as one text. `read_results` says
    that the planner read what tools returned for earlier requests. `origin` is `rules` where no
    model took part.
    """

    decision: Decision
    reason: str = ""
    answer: str = ""
    locale: str = "en"
    plan: Plan | None = None
    draft: Plan | None = None
    problems: tuple[Problem, ...] = ()
    picks: tuple[PickedTool, ...] = ()
    text: str = ""
    figures: PlanningFigures = field(default_factory=PlanningFigures)
    exchanges: tuple[dict[str, Json], ...] = ()
    questions: tuple[str, ...] = ()
    read_results: bool = False
    origin: PlanOrigin = "model"


def is_empty_fallback(plan: Plan) -> bool:
    """Tells whether a plan is a fallback without any call, which nobody should approve.

    A plan made by rules is degraded too, but if it calls tools it can be approved.
    """
    return bool(plan.degraded) and all(isinstance(step, ReplyStep) for step in plan.steps)


def is_fallback(plan: Plan, made: PlanningFigures | None) -> bool:
    """Tells whether a plan was put in place of one that the model could not make.

    A plan made by rules is marked too, but nothing failed when it was made; nor when it is
    run again, where nobody planned.
    """
    return bool(plan.degraded) and (is_empty_fallback(plan) if made is None else made.degraded)
