"""The state of a run and its steps, as `fold` computes it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeVar, overload

import msgspec

from plansmith.errors import NotFound
from plansmith.lazy import lazy_modules
from plansmith.plan.citations import without_citations
from plansmith.plan.data import Json
from plansmith.plan.estimate import Estimate
from plansmith.plan.event_body import FrozenStruct
from plansmith.plan.events import Actor, Event, LimitName, QuestionAsked, StepAdvised, StepReplied
from plansmith.plan.origin import OWN_REQUEST, Origin
from plansmith.plan.plan import Plan
from plansmith.plan.planning_events import PlanningFigures, TriageDecision
from plansmith.plan.problem import Problem
from plansmith.plan.refs import value_text
from plansmith.plan.run_options import NO_OPTIONS, RunOptions
from plansmith.plan.sentence import in_language
from plansmith.plan.step_events import FailureKind, SkipRule

if TYPE_CHECKING:
    from plansmith.plan import notebook, value_types
else:
    lazy_modules(
        globals(), notebook="plansmith.plan.notebook", value_types="plansmith.plan.value_types"
    )

T = TypeVar("T")


class RunStatus(StrEnum):
    """The status of a run; library, API, command line and page use the same words."""

    TRIAGING = "triaging"
    PLANNING = "planning"
    ASKING = "asking"
    REVIEWING = "reviewing"
    RUNNING = "running"
    PAUSED = "paused"
    REPLANNING = "replanning"
    REPORTING = "reporting"
    DONE = "done"
    PARTLY_DONE = "partly_done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    ANSWERED = "answered"

    @property
    def over(self) -> bool:
        """Whether the run has ended."""
        return self in OVER


class StepStatus(StrEnum):
    """The status of a step; `unknown`: the process died during the call, a person decides."""

    WAITING = "waiting"
    READY = "ready"
    RUNNING = "running"
    ASKING = "asking"
    DONE = "done"
    FAILED = "failed"
    SKIPPED = "skipped"
    CANCELLED = "cancelled"
    UNKNOWN = "unknown"


# A tuple, since looking for a member in a set calls the enum's own `__hash__`.
OVER: Final = (
    RunStatus.DONE,
    RunStatus.PARTLY_DONE,
    RunStatus.FAILED,
    RunStatus.CANCELLED,
    RunStatus.ANSWERED,
)


class Made(NamedTuple):
    """A call that was made, and the content hash of its result."""

    callee: str
    inputs: str
    result: str


class StepState(FrozenStruct, frozen=True):
    """The state of one step; `result` is filled in by whoever reads the store.

    `unsure` means that an earlier try may have taken effect; `made` are calls that a step made
    before a changed plan made it wait again; `item` is the list item of a part of a map step.
    `program` is the program that gave the result as an answer, if it was not a person. `rule` says
    why the plan itself skipped the step, which may have a result then; `wakes_at` is the time
    before which it does not start.
    """

    status: StepStatus = StepStatus.WAITING
    attempts: int = 0
    key: str = ""
    inputs: str = ""
    result_hash: str = ""
    result: Json = None
    error: str = ""
    error_kind: FailureKind | Literal[""] = ""
    progress: str = ""
    tokens: int = 0
    program: str = ""
    reply: StepReplied | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    callee: str = ""
    item: str = ""
    unsure: bool = False
    made: tuple[Made, ...] = ()
    prefetched: str = ""
    reused_from: str = ""
    rule: SkipRule | Literal[""] = ""
    wakes_at: datetime | None = None

    @property
    def settled(self) -> bool:
        """Whether it is done, or skipped as the plan says."""
        return self.status is StepStatus.DONE or bool(self.rule)


class Covered(NamedTuple):
    """What a person has agreed to: a plan, and the plans of its templates."""

    plan: Plan
    templates: Mapping[str, Plan]


class Prefetch(FrozenStruct, frozen=True, kw_only=True):
    """A read made before its plan was complete; `step` is the step that uses its result."""

    tool: str
    inputs: str
    started_at: datetime
    ended_at: datetime | None = None
    over: bool = False
    result: str = ""
    error: str = ""
    step: str = ""


class ReportText:
    """The text of a report, made when it is first read."""

    __slots__ = ("_make", "_text")

    def __init__(self, text: str = "", *, make: Callable[[], str] | None = None) -> None:
        self._text, self._make = text, make

    def __str__(self) -> str:
        make = self._make  # another thread may be reading it too
        if make is not None:
            self._text, self._make = make(), None
        return self._text

    # Runs are compared and shown without their reports.
    def __eq__(self, other: object) -> bool:
        return isinstance(other, ReportText)

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return "ReportText()"


_NO_REPORT: Final = ReportText()


class Run(FrozenStruct, frozen=True, kw_only=True):
    """The state of a run after its last event; made by `fold`.

    `covered` is the plan that a person approved last, or that the policy let run without approval;
    a person reviews what a replan adds to it. `drops` are approved calls that the plan under
    review no longer makes, and `dropped` those that a person agreed to drop. `left` are steps
    that the plan no longer has, kept for the calls they made. `earlier` are the content hashes of
    the results of earlier runs that any of its plans has used, by reference. `changing`: a person
    asked for another plan, which is not made yet. `acts` are the steps of the plan that change
    something. `asked_by`, `edited_by` and `approved_by` made the request, changed the plan
    last, and approved it. `interrupted` and `report_text` are filled in by
    whoever reads the store; `interrupted`: the process that executed the run has ended.
    """

    id: str
    request: str = ""
    locale: str = "en"
    options: RunOptions = NO_OPTIONS
    origin: Origin = OWN_REQUEST
    folder: str = ""
    phase: RunStatus = RunStatus.TRIAGING
    decision: TriageDecision | Literal[""] = ""
    reason: str = ""
    plan: Plan | None = None
    templates: Mapping[str, Plan] = msgspec.field(default_factory=dict[str, Plan])
    earlier: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])
    problems: tuple[Problem, ...] = ()
    estimate: Estimate | None = None
    metrics: PlanningFigures | None = None
    revisions: int = 0
    approved: str = ""
    covered: Covered | None = None
    drops: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    approved_tools: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])
    running_hash: str = ""
    paused: bool = False
    grants: Mapping[LimitName, int] = msgspec.field(default_factory=dict[LimitName, int])
    replans: int = 0
    iterations: int = 0
    rejections: int = 0
    changing: bool = False
    advice: StepAdvised | None = None
    closing: bool = False
    calls: int = 0
    tokens: int = 0
    money: Decimal = Decimal(0)
    started_at: datetime | None = None
    prefetches: Mapping[str, Prefetch] = msgspec.field(default_factory=dict[str, Prefetch])
    cancel_asked: bool = False
    steps: Mapping[str, StepState] = msgspec.field(default_factory=dict[str, StepState])
    left: Mapping[str, StepState] = msgspec.field(default_factory=dict[str, StepState])
    questions: Mapping[str, QuestionAsked] = msgspec.field(default_factory=dict[str, QuestionAsked])
    report_hash: str = ""
    report_text: ReportText = _NO_REPORT
    acts: tuple[str, ...] = ()
    asked_by: Actor | None = None
    edited_by: Actor | None = None
    approved_by: Actor | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None
    last: Event | None = None
    interrupted: bool = False
    damage: str = ""

    def __repr__(self) -> str:
        done = [
            each.status is StepStatus.DONE for name, each in self.steps.items() if "/" not in name
        ]
        return notebook.run_line(self.id, self.status.value, done, self.request)

    def _repr_html_(self) -> str:
        """Returns the run as a table, for notebooks."""
        head = f"{self.request} ({self.id}): {self.status.value}"
        return notebook.run_html(head, [*_rows(self)], self.answer)

    @overload
    def result(self, step: str) -> Json: ...
    @overload
    def result(self, step: str, kind: type[T]) -> T: ...
    def result(self, step: str, kind: type[T] | None = None) -> T | Json:
        """Returns the result of a step: as JSON, or as a value of a type, checked.

        The type may be a dataclass, a TypedDict, a pydantic model or a plain one (`list[Order]`).
        Raises `NotFound` if there is no result, `TypeError` if it is not of that type.
        """
        state = self.steps.get(step)
        if state is None:
            names = ", ".join(self.steps) or "none"
            raise NotFound(f"run {self.id} has no step {step!r}", hint=f"its steps: {names}")
        if state.status is not StepStatus.DONE:
            why = str(state.error) or f"the run is {self.status}"
            raise NotFound(f"step {step!r} has no result: it is {state.status}", hint=why)
        if kind is None:
            return state.result
        try:
            return value_types.read_as(state.result, kind)
        except ValueError as error:
            raise TypeError(f"the result of {step!r} is {error}") from None

    @property
    def answer(self) -> str:
        """The text of the last reply that was written; empty while there is none.

        Without the marks of its sources, `[step:ID]`: the report shows those.
        """
        if self.phase is RunStatus.ANSWERED:
            return self.report or in_language(self.reason, self.locale)
        replies = [step.id for step in self.plan.steps if step.kind == "reply"] if self.plan else []
        done = [self.steps[name] for name in replies if name in self.steps]
        texts = [str(each.result) for each in done if each.status is StepStatus.DONE]
        return without_citations(texts[-1]) if texts else ""

    @property
    def files(self) -> tuple[str, ...]:
        """The files that steps wrote: `path` in the results of steps that change something."""
        found: dict[str, None] = {}
        for name, state in self.steps.items():
            if state.status is StepStatus.DONE and name.partition("/")[0] in self.acts:
                found |= dict.fromkeys(_paths(state.result))
        return tuple(found)

    @property
    def report(self) -> str:
        """The report as Markdown; empty while the run goes on, and in a list of runs."""
        return str(self.report_text)

    @property
    def is_approved(self) -> bool:
        """Whether a person approved the current plan, and not only an earlier one."""
        return bool(self.approved) and self.plan is not None and self.approved == self.plan.hash

    @property
    def status(self) -> RunStatus:
        """The phase, or that the run waits for a person or is paused."""
        return status_of(self, self.steps, self.questions)

    @property
    def wakes_at(self) -> datetime | None:
        """The earliest time for which a step waits, if any does."""
        waits = StepStatus.WAITING, StepStatus.READY
        times = [step.wakes_at for step in self.steps.values() if step.status in waits]
        return min((each for each in times if each is not None), default=None)

    @property
    def calls_open(self) -> tuple[str, ...]:
        """The steps whose call has begun and not ended, without map and plan steps."""
        return open_calls(self.steps)


def _rows(run: Run) -> Iterator[tuple[str, str, str, str]]:
    """Yields what a notebook shows of each step; parts of a step are in its result."""
    plan = run.plan.by_id if run.plan is not None else {}
    for name, state in run.steps.items():
        if "/" not in name:
            does = notebook.what_it_does(plan[name]) if name in plan else ""
            is_done = state.status is StepStatus.DONE
            shown = value_text(state.result) if is_done else in_language(state.error, run.locale)
            yield name, does, state.status.value, shown


def _paths(result: Json) -> Iterator[str]:
    """Yields the paths in a result, or in a list of results, except those of deleted files."""
    for each in result if isinstance(result, list) else [result]:
        path = each.get("path") if isinstance(each, dict) and not each.get("deleted") else None
        if isinstance(path, str):
            yield path


def status_of(
    run: Run, steps: Mapping[str, StepState], questions: Mapping[str, QuestionAsked]
) -> RunStatus:
    """Returns the status of a run that has these steps and open questions."""
    if run.phase.over:
        return run.phase
    if run.paused:
        return RunStatus.PAUSED
    return RunStatus.ASKING if questions and not open_calls(steps) else run.phase


def open_calls(steps: Mapping[str, StepState]) -> tuple[str, ...]:
    """Returns the steps whose call has begun and not ended, without map and plan steps."""
    running = [name for name, step in steps.items() if step.status is StepStatus.RUNNING]
    wholes = {name.rpartition("/")[0] for name in steps} if running else set[str]()
    return tuple(name for name in running if name not in wholes)
