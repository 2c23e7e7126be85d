"""DeerFlow's plan, its steps and its routers: where a plan, a person's word and a step lead."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final, NamedTuple, Self, cast

from pydantic import BaseModel, ValidationError, model_validator

from plansmith.dialects.deerflow import REPORT, read, write
from plansmith.errors import InvalidPlan, UnreadableText
from plansmith.plan.data import Json
from plansmith.plan.plan import Plan as CorePlan
from plansmith.plan.run import Run
from plansmith.planner.check.check_plan import Way, way_on
from plansmith.planner.parse.read import read_json

_STATE: Final = ("plan_iterations", "max_plan_iterations", "current_plan")
_WORD: Final = re.compile(
    r"\s*\[?\s*(accepted|edit[_ ]plan)\s*\]?\s*:?\s*(.*)", re.IGNORECASE | re.DOTALL
)


class StepType(StrEnum):
    """Who does a step: the researcher, or for what needs no search the coder."""

    RESEARCH = "research"
    ANALYSIS = "analysis"
    PROCESSING = "processing"


class Step(BaseModel):
    """One step; without a result it is open, and an empty result is a result too."""

    need_web_search: bool
    title: str
    description: str
    step_type: StepType
    execution_res: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _inferred(cls, value: Any) -> Any:
        """A step without a type is research when it needs a search, else processing."""
        if not isinstance(value, dict):
            return value
        fields = dict(cast("dict[str, Any]", value))
        # Newer versions say it in two words.
        if "need_search" in fields:
            fields.setdefault("need_web_search", fields.pop("need_search"))
        if fields.get("step_type"):
            return fields
        search = bool(fields.get("need_web_search"))
        return {**fields, "step_type": StepType.RESEARCH if search else StepType.PROCESSING}

    @property
    def done(self) -> bool:
        """Whether the step has its result."""
        return self.execution_res is not None


class Plan(BaseModel):
    """A plan for a piece of research; `title` is the subject of its report."""

    locale: str = "en-US"
    has_enough_context: bool = False
    thought: str = ""
    title: str = ""
    steps: list[Step] = []

    @property
    def open_steps(self) -> list[Step]:
        """The steps that have no result yet."""
        return [step for step in self.steps if not step.done]

    def to_core(self) -> CorePlan:
        """The same as a plan that Plansmith checks and runs."""
        reading = read(self.model_dump(mode="json"))
        if reading.plan is None:
            raise InvalidPlan(reading.problems)
        return reading.plan

    @classmethod
    def from_core(cls, plan: CorePlan, run: Run | None = None) -> Self:
        """A plan of Plansmith in this shape, with the results of its run."""
        return cls.model_validate(write(plan, run).value)


def parse_plan(answer: object) -> Plan | None:
    """The plan in what a model wrote, in a value or in a plan; None when there is none."""
    if isinstance(answer, Plan):
        return answer
    value = answer
    if isinstance(answer, str):
        try:
            value = read_json(answer)
        except UnreadableText:
            return None
    # A plan that was under way has results, which the plan language keeps apart from plans.
    if isinstance(value, Mapping) and "steps" in value:
        try:
            return Plan.model_validate(value)
        except ValidationError:
            pass
    found = read(cast("Json", value)).plan if isinstance(value, (dict, list)) else None
    return None if found is None else Plan.from_core(found)


class Goto(StrEnum):
    """The nodes of the graph."""

    COORDINATOR = "coordinator"
    BACKGROUND_INVESTIGATOR = "background_investigator"
    PLANNER = "planner"
    HUMAN_FEEDBACK = "human_feedback"
    RESEARCH_TEAM = "research_team"
    RESEARCHER = "researcher"
    CODER = "coder"
    REPORTER = "reporter"
    END = "end"


class Feedback(StrEnum):
    """What a person can decide about a plan; nothing else counts as a decision."""

    ACCEPTED = "accepted"
    EDIT_PLAN = "edit_plan"


class Route(NamedTuple):
    """Where to go, with which plan, and how many plans there were."""

    goto: Goto
    plan: Plan | None
    plan_iterations: int


class TeamRoute(NamedTuple):
    """Where the research team goes next, and with which step."""

    goto: Goto
    step: Step | None = None


class Word(NamedTuple):
    """A person's decision, None when the words are none, and what they say beside it."""

    feedback: Feedback | None
    text: str = ""


_WAYS: Final = {
    Way.REPORT: Goto.REPORTER,
    Way.RUN: Goto.RESEARCH_TEAM,
    Way.REVIEW: Goto.HUMAN_FEEDBACK,
}


def route_plan(
    answer: object,
    plan_iterations: int | Mapping[str, Any] = 0,
    max_plan_iterations: int = 1,
    current_plan: object = None,
) -> Route:
    """Where the planner's answer leads; it is a text, a table or a plan.

    At the limit the current plan is used if it has steps. What cannot be read ends a run that has
    no plan yet, and goes to the reporter with the earlier plan and its results in any other. A
    state may stand for the three others, or for all: then its `current_plan` is the answer.
    """
    if _is_state(answer):
        state = cast("Mapping[str, Any]", answer)
        # The graph's planner leaves its answer where the plan goes, parsed or not.
        return route_plan(state["current_plan"], state)
    if isinstance(plan_iterations, Mapping):
        return route_plan(answer, **_limits(plan_iterations))
    current = None if current_plan is None else parse_plan(current_plan)
    if plan_iterations >= max_plan_iterations:
        goto = _way(current) if current is not None and current.steps else Goto.END
        return Route(goto, current, plan_iterations)
    plan = parse_plan(answer)
    if plan is None:
        goto = Goto.REPORTER if plan_iterations else Goto.END
        return Route(goto, current, plan_iterations)
    return Route(_way(plan), plan, plan_iterations + 1)


def _is_state(value: object) -> bool:
    """Whether a table is the graph's state, and not a plan."""
    return isinstance(value, Mapping) and "current_plan" in value and "steps" not in value


def _limits(state: Mapping[str, Any]) -> dict[str, Any]:
    return {name: state[name] for name in _STATE if state.get(name) is not None}


def _way(plan: Plan) -> Goto:
    """What `has_enough_context` means, as the checker defines it for every plan."""
    done = [f"s{place}" for place, step in enumerate(plan.steps, start=1) if step.done]
    if plan.steps and not plan.open_steps:
        return Goto.REPORTER
    return _WAYS[way_on(plan.to_core(), done=[*done, REPORT])]


def read_feedback(words: str) -> Word:
    """A person's words as a decision: only the very word counts, never a part of a sentence."""
    found = _WORD.fullmatch(words)
    if found is None:
        return Word(None, words)
    feedback, text = Feedback(found[1].lower().replace(" ", "_")), found[2].strip()
    # Whoever accepts says nothing else; whoever wants an edit says which.
    fits = bool(text) is (feedback is Feedback.EDIT_PLAN)
    return Word(feedback, text) if fits else Word(None, words)


def route_feedback(feedback: Feedback | None, text: str = "") -> Goto:
    """Where a person's decision leads; anything that is none asks again."""
    if feedback is Feedback.ACCEPTED:
        return Goto.RESEARCH_TEAM
    if feedback is Feedback.EDIT_PLAN and text.strip():
        return Goto.PLANNER
    return Goto.HUMAN_FEEDBACK


def route_team(
    plan: Plan | None, *, plan_iterations: int = 1, max_plan_iterations: int = 1
) -> TeamRoute:
    """The next open step and who does it; when all are done, the planner or the reporter."""
    if plan is None:
        return TeamRoute(Goto.PLANNER)
    for step in plan.open_steps:
        research = step.step_type is StepType.RESEARCH
        return TeamRoute(Goto.RESEARCHER if research else Goto.CODER, step)
    at_the_limit = plan_iterations >= max_plan_iterations
    return TeamRoute(Goto.REPORTER if at_the_limit else Goto.PLANNER)
