"""DeerFlow's plan, its routers, and what is right and wrong with a plan."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, NamedTuple, Self, cast

from pydantic import BaseModel, ValidationError, model_validator

from plansmith.errors import PlanInvalid
from plansmith.plan.data import Json
from plansmith.plan.plan import Plan as CorePlan
from plansmith.plan.run import Run
from plansmith_compat.deerflow.dialect import REPORT, read, write
from plansmith_compat.reading import json_in
from plansmith_planner.dialect import place_id
from plansmith_planner.language.locales import locale_of

_STATE: Final = ("plan_iterations", "max_plan_iterations", "current_plan")
_WORD: Final = re.compile(
    r"\s*+(\[\s*+)?(accepted|edit[_ ]plan)\s*+(?(1)\])\s*+:?\s*+(.*)", re.IGNORECASE | re.DOTALL
)


class StepType(StrEnum):
    """Who does a step: the researcher, the analyst, or the coder."""

    RESEARCH = "research"
    ANALYSIS = "analysis"
    PROCESSING = "processing"


class Table(BaseModel):
    """A record whose fields can be read as those of a table too: `plan["steps"][0]["title"]`."""

    def __getitem__(self, name: str) -> Any:
        if name not in type(self).model_fields:
            raise KeyError(name)
        return getattr(self, name)


class Step(Table):
    """One step; it is open until it has a result, which may be empty."""

    need_web_search: bool
    title: str
    description: str
    step_type: StepType
    execution_res: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _inferred(cls, value: Any) -> Any:
        """Sets a missing type: research if the step needs a search, else processing."""
        if not isinstance(value, dict):
            return value
        fields = dict(cast("dict[str, Any]", value))
        # DeerFlow's name for it; deer-go and the pages say `need_web_search`.
        if "need_search" in fields:
            fields.setdefault("need_web_search", fields.pop("need_search"))
        if fields.get("step_type"):
            return fields
        search = bool(fields.get("need_web_search"))
        return {**fields, "step_type": StepType.RESEARCH if search else StepType.PROCESSING}

    @property
    def need_search(self) -> bool:
        """The same as `need_web_search`, by the name in DeerFlow's code."""
        return self.need_web_search

    @property
    def done(self) -> bool:
        return self.execution_res is not None


class Plan(Table):
    """A research plan; `title` is the subject of its report."""

    locale: str = "en-US"
    has_enough_context: bool = False
    thought: str = ""
    title: str = ""
    steps: list[Step] = []

    @property
    def open_steps(self) -> list[Step]:
        return [step for step in self.steps if not step.done]

    def to_core(self) -> CorePlan:
        reading = read(self.model_dump(mode="json"))
        if reading.plan is None:
            raise PlanInvalid(reading.problems)
        return reading.plan

    @classmethod
    def from_core(cls, plan: CorePlan, run: Run | None = None) -> Self:
        return cls.model_validate(write(plan, run).value)


def parse_plan(answer: object) -> Plan | None:
    """Reads a plan from a model's text, a value or a plan; None if there is none."""
    if isinstance(answer, Plan):
        return answer
    value = json_in(answer) if isinstance(answer, str) else answer
    # A plan that has been run has results, which our plan language does not contain.
    if isinstance(value, Mapping) and "steps" in value:
        try:
            return Plan(**cast("Mapping[str, Any]", value))
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
    ANALYST = "analyst"
    REPORTER = "reporter"
    END = "end"


class Feedback(StrEnum):
    """What a person can decide about a plan; nothing else counts as a decision."""

    ACCEPTED = "accepted"
    EDIT_PLAN = "edit_plan"


class Route(NamedTuple):
    """The next node, the plan, and the number of plans so far."""

    goto: Goto
    plan: Plan | None
    plan_iterations: int


class TeamRoute(NamedTuple):
    """The next node of the research team, and its step."""

    goto: Goto
    step: Step | None = None


class Word(NamedTuple):
    """A person's decision, None if the words are no decision, and the rest of the words."""

    feedback: Feedback | None
    text: str = ""


def route_plan(
    answer: object,
    plan_iterations: int | Mapping[str, Any] = 0,
    max_plan_iterations: int = 1,
    current_plan: object = None,
) -> Route:
    """Returns the next node for the planner's answer: a text, an object or a plan.

    An unreadable answer ends a run without a plan; with an earlier plan it leads to the reporter.
    At the limit nobody is asked for another plan: the answer, or the current plan if there is no
    new one, goes to the team. A state may be given instead of the last three arguments, or of
    all: then its `current_plan` is the answer.
    """
    given: Any = answer
    state = cast("Mapping[str, Any]", given if isinstance(given, Mapping) else {})
    if "current_plan" in state and "steps" not in state:
        # The graph's planner stores its answer in `current_plan`, parsed or not.
        return route_plan(state["current_plan"], state)
    if isinstance(plan_iterations, Mapping):
        known = {name: plan_iterations.get(name) for name in _STATE}
        limits: dict[str, Any] = {name: each for name, each in known.items() if each is not None}
        return route_plan(answer, **limits)
    plan = parse_plan(answer)
    current = None if current_plan is None else parse_plan(current_plan)
    counted = plan_iterations + (plan is not None)
    if plan_iterations >= max_plan_iterations:
        # An answer that is the current plan itself is not another plan.
        counted = plan_iterations if answer is current_plan else counted
        return _at_limit(plan, current, counted)
    if plan is None:
        return Route(Goto.REPORTER if plan_iterations else Goto.END, current, counted)
    if plan.steps and not plan.open_steps:
        return Route(Goto.REPORTER, plan, counted)
    done = [place_id(place) for place, step in enumerate(plan.steps, start=1) if step.done]
    core = plan.to_core()
    is_open = any(each.id not in (*done, REPORT) for each in core.steps if not each.disabled)
    goto = Goto.RESEARCH_TEAM if is_open else Goto.REPORTER
    return Route(goto if core.enough_context else Goto.HUMAN_FEEDBACK, plan, counted)


def _at_limit(plan: Plan | None, current: Plan | None, counted: int) -> Route:
    """Returns the way of the last plan: its open steps run; without any steps there is an end."""
    for each in (plan, current):
        if each is not None and (each.steps or each.has_enough_context):
            return Route(Goto.RESEARCH_TEAM if each.open_steps else Goto.REPORTER, each, counted)
    return Route(Goto.END, plan or current, counted)


def read_feedback(words: str) -> Word:
    """Reads a decision: only the exact word counts, never a part of a sentence.

    `[ACCEPTED]` in its brackets is a decision whatever is said after it.
    """
    found = _WORD.fullmatch(words)
    if found is None:
        return Word(None, words)
    feedback, text = Feedback(found[2].lower().replace(" ", "_")), found[3].strip()
    # A request for an edit must say what to change.
    accepts = feedback is Feedback.ACCEPTED and (bool(found[1]) or not text)
    fits = accepts or (feedback is Feedback.EDIT_PLAN and bool(text))
    return Word(feedback, text) if fits else Word(None, words)


def route_feedback(feedback: Feedback | None, text: str = "") -> Goto:
    """Returns the next node for a person's decision; anything else asks again."""
    if feedback is Feedback.ACCEPTED:
        return Goto.RESEARCH_TEAM
    if feedback is Feedback.EDIT_PLAN and text.strip():
        return Goto.PLANNER
    return Goto.HUMAN_FEEDBACK


_MEMBERS: Final[Mapping[str, Goto]] = {
    StepType.RESEARCH: Goto.RESEARCHER,
    StepType.ANALYSIS: Goto.ANALYST,
    StepType.PROCESSING: Goto.CODER,
}


def route_team(
    plan: Plan | None, *, plan_iterations: int = 1, max_plan_iterations: int = 1
) -> TeamRoute:
    """Returns the next open step and who does it; if all are done, planner or reporter."""
    if plan is None:
        return TeamRoute(Goto.PLANNER)
    for step in plan.open_steps:
        return TeamRoute(_MEMBERS[step.step_type], step)
    at_the_limit = plan_iterations >= max_plan_iterations
    return TeamRoute(Goto.REPORTER if at_the_limit else Goto.PLANNER)


def continue_to_running_research_team(state: Mapping[str, Any]) -> Goto:
    """Returns who does the next open step of the state's plan, or the planner if none is open."""
    steps: Sequence[Any] = getattr(state.get("current_plan"), "steps", None) or ()
    for step in steps:
        if step.execution_res is None:
            return _MEMBERS.get(step.step_type, Goto.PLANNER)
    return Goto.PLANNER


# Shorter texts, such as a name, say nothing about a language.
_FEWEST_LETTERS: Final = 12
_RESPECTS: Final = ("language", "types", "executable")


class Quality(NamedTuple):
    """Whether a plan is in its language, its types are right, and its steps can be done."""

    language: bool
    types: bool
    executable: bool
    notes: tuple[str, ...] = ()


def quality(plan: Plan) -> Quality:
    """Judges one plan; each fault is a note that names its step."""
    language_code = plan.locale.partition("-")[0].lower()
    faults = [("language", _in_language("the thought", plan.thought, language_code))]
    for place, step in enumerate(plan.steps, start=1):
        name, words = f"step {place}", step.description.strip()
        faults.append(("language", _in_language(name, words, language_code)))
        if step.need_web_search is not (step.step_type is StepType.RESEARCH):
            search = "a search" if step.need_web_search else "no search"
            faults.append(("types", f"{name} is {step.step_type} and needs {search}"))
        if not words:
            faults.append(("executable", f"{name} does not say what to do"))
        elif words == step.title.strip():
            faults.append(("executable", f"{name} says no more than its title"))
    if not plan.steps and not plan.has_enough_context:
        faults.append(("executable", "there are no steps, and the context is not enough"))
    wrong = {kind for kind, note in faults if note}
    notes = tuple(note for _, note in faults if note)
    language, types, executable = (kind not in wrong for kind in _RESPECTS)
    return Quality(language, types, executable, notes)


def shares(plans: Iterable[Plan]) -> dict[str, Json]:
    """Returns the share of plans that are right in each respect; empty without plans."""
    found = [quality(plan) for plan in plans]
    names = _RESPECTS if found else ()
    return {name: sum(getattr(each, name) for each in found) / len(found) for name in names}


def _in_language(name: str, text: str, expected: str) -> str:
    short = sum(letter.isalpha() for letter in text) < _FEWEST_LETTERS and text.isascii()
    language = expected if short or not text.strip() else locale_of(text).partition("-")[0]
    return "" if language == expected else f"{name} is written in {language}, not in {expected}"
