"""The state of a run and its steps, as `fold` computes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeVar, overload

import msgspec

from plansmith.errors import NotFound
from plansmith.lazy import lazy_modules
from plansmith.plan.data import Json, canonical_hash
from plansmith.plan.event_body import FrozenStruct
from plansmith.plan.events import (
    Actor,
    Event,
    FailureKind,
    LimitName,
    PreviewMade,
    QuestionAsked,
    SkipRule,
    StepAdvised,
    StepReplied,
)
from plansmith.plan.ids import is_part, root_of
from plansmith.plan.limits import Bound
from plansmith.plan.plan import Plan
from plansmith.plan.planning import Decision, Estimate, ModelUse, PlanningFigures, Times
from plansmith.plan.preview import Preview
from plansmith.plan.problem import Problem
from plansmith.plan.refs import value_text, without_citations
from plansmith.plan.run_options import NO_OPTIONS, OWN_REQUEST, Origin, RunOptions
from plansmith.plan.sentence import Sentence, in_language

if TYPE_CHECKING:
    from plansmith.plan import notebook, value_types
else:
    lazy_modules(
        globals(), notebook="plansmith.plan.notebook", value_types="plansmith.plan.value_types"
    )


class ApprovedPlan(NamedTuple):
    """What a person has agreed to: a plan, and the plans of its templates."""

    plan: Plan
    templates: Mapping[str, Plan]


class PastCall(NamedTuple):
    """A call that was made: whom it called, the mark of its inputs, the hash of its result."""

    callee: str
    call_mark: str
    result: str


class ReportText:
    """The text of a report, made when it is first read; runs are compared and shown without it."""

    __slots__ = ("_make", "_text")

    def __init__(self, text: str = "", *, make: Callable[[], str] | None = None) -> None:
        self._text, self._make = text, make

    def __str__(self) -> str:
        make = self._make  # another thread may be reading it too
        if make is not None:
            self._text, self._make = make(), None
        return self._text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ReportText)

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return "ReportText()"


NO_REPORT: Final = ReportText()
T = TypeVar("T")


class RunStatus(StrEnum):
    """The status of a run; library, API, command line and page use the same words.

    Examples:
        >>> from plansmith import RunStatus
        >>> [each.value for each in RunStatus if each.over]
        ['done', 'partly_done', 'failed', 'cancelled', 'answered']
    """

    TRIAGING = "triaging"
    PLANNING = "planning"
    ASKING = "asking"
    REVIEWING = "reviewing"
    RUNNING = "running"
    PAUSED = "paused"
    REPLANNING = "replanning"
    DONE = "done"
    PARTLY_DONE = "partly_done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    ANSWERED = "answered"
    __hash__ = str.__hash__  # faster than the enum's own

    @property
    def over(self) -> bool:
        """Whether the run has ended."""
        return self in OVER


class StepStatus(StrEnum):
    """The status of a step; `unknown`: its call may have taken effect, and a person says if it did.

    Examples:
        >>> from plansmith import StepStatus
        >>> StepStatus("done") is StepStatus.DONE
        True
    """

    WAITING = "waiting"
    READY = "ready"
    RUNNING = "running"
    ASKING = "asking"
    DONE = "done"
    FAILED = "failed"
    SKIPPED = "skipped"
    CANCELLED = "cancelled"
    UNKNOWN = "unknown"
    __hash__ = str.__hash__  # faster than the enum's own


NOT_STARTED: Final = (StepStatus.WAITING, StepStatus.READY)
STARTABLE_OR_RUNNING: Final = (*NOT_STARTED, StepStatus.RUNNING)
BEGUN: Final = (StepStatus.RUNNING, StepStatus.ASKING)
UNFINISHED: Final = (*NOT_STARTED, *BEGUN)
BEFORE_START: Final = (RunStatus.PLANNING, RunStatus.REVIEWING)
# Ended without success; another plan may try these again.
UNSUCCESSFUL: Final = (StepStatus.FAILED, StepStatus.SKIPPED, StepStatus.CANCELLED)
OVER: Final = (
    RunStatus.DONE,
    RunStatus.PARTLY_DONE,
    RunStatus.FAILED,
    RunStatus.CANCELLED,
    RunStatus.ANSWERED,
)


class StepState(FrozenStruct, frozen=True):
    """The state of one step; `result` is filled in by whoever reads the store.

    `unsure` means that an earlier try may have taken effect; `past_calls` are those that were
    made before a plan let it wait again; `item` is the hash of the item of a map step's part.
    `reply` is the answer to a question of the call itself, `permit` consent to make the call.
    `program` gave the result as an answer, if no person did. It was `looked_at` if it ran for a
    preview of what has not begun yet; `given_by` put a result in place of its own. `rule` says why
    the plan skipped the step, which may have a result then; before `wakes_at` it does not start.
    """

    status: StepStatus = StepStatus.WAITING
    attempts: int = 0
    inputs: str = ""
    call_mark: str = ""
    result_hash: str = ""
    result: Json = None
    error: str = ""
    error_kind: FailureKind | Literal[""] = ""
    progress: str = ""
    tokens: int = 0
    program: str = ""
    reply: StepReplied | None = None
    permit: StepReplied | None = None
    consents_asked: int = 0  # how often a person was asked for consent
    # How many calls it had made when a question of a call was answered last.
    attempts_answered: int = 0
    started_at: datetime | None = None
    finished_at: datetime | None = None
    callee: str = ""
    item: str = ""
    unsure: bool = False
    past_calls: tuple[PastCall, ...] = ()
    reused_from: str = ""
    looked_at: bool = False
    given_by: str = ""
    rule: SkipRule | Literal[""] = ""
    wakes_at: datetime | None = None

    @property
    def counts_as_done(self) -> bool:
        """Whether it is done, or skipped as the plan says."""
        return self.status is StepStatus.DONE or bool(self.rule)


class StepIndex:
    """The steps of a run by their status, and what else is asked about all of them at once.

    `unread` are those whose result has to be read from the store.
    """

    __slots__ = ("named", "unread")

    def __init__(self) -> None:
        # By status, and whether they are parts of steps.
        self.named: dict[tuple[StepStatus, bool], dict[str, None]] = {}
        self.unread: dict[str, None] = {}

    def copy(self) -> StepIndex:
        copied = StepIndex()
        copied.named = {key: {**names} for key, names in self.named.items() if names}
        copied.unread = {**self.unread}
        return copied

    def add(self, name: str, step: StepState) -> None:
        self.named.setdefault((step.status, is_part(name)), {})[name] = None
        if step.result_hash and step.counts_as_done:
            self.unread[name] = None

    def remove(self, name: str, step: StepState) -> None:
        del self.named[step.status, is_part(name)][name]
        self.unread.pop(name, None)

    def names(self, status: StepStatus) -> list[str]:
        """Returns the names of the steps and parts in a status."""
        return [*self.named.get((status, False), ()), *self.named.get((status, True), ())]

    def not_started(self) -> list[str]:
        """Returns the steps of the plan that have not started."""
        return [name for status in NOT_STARTED for name in self.named.get((status, False), ())]

    def count(self, status: StepStatus, *, parts: bool = False) -> int:
        """Returns how many steps of the plan, or parts of them, are in a status."""
        return len(self.named.get((status, parts), ()))


class Steps(dict[str, StepState]):
    """The steps and parts of a run by name; a change costs the same whatever their number.

    `fold` changes a copy; the steps of a run never change. The index is made when it is first asked
    for, and brought up to date when it is asked for again.
    """

    __slots__ = ("_changed", "_index")

    def __init__(self, steps: Mapping[str, StepState]) -> None:
        super().__init__(steps)
        # An index, which several versions share; and the steps that changed since, as it has them.
        self._index: StepIndex | None = None
        self._changed: dict[str, StepState | None] = {}
        if isinstance(steps, Steps) and steps._index is not None:  # noqa: SLF001
            self._index, self._changed = steps._index, {**steps._changed}  # noqa: SLF001

    def __reduce__(self) -> tuple[type[Steps], tuple[dict[str, StepState]]]:
        return Steps, (dict(self),)

    @property
    def index(self) -> StepIndex:
        changed = self._changed if self._index is not None else dict.fromkeys(self)
        if self._index is None or changed:
            self._index = self._index.copy() if self._index is not None else StepIndex()
            for name, before in changed.items():
                if before is not None:
                    self._index.remove(name, before)
                self._index.add(name, self[name])
            self._changed = {}
        return self._index

    def __setitem__(self, name: str, step: StepState) -> None:
        if self._index is not None:
            self._changed.setdefault(name, self.get(name))
        super().__setitem__(name, step)

    def with_results(self, results: Mapping[str, Json]) -> Steps:
        """Returns the steps with these results of theirs, which were read."""
        read = {
            name: step.replace(result=result)
            for name, result in results.items()
            if (step := self.get(name)) is not None and step.result_hash
        }
        later = Steps(self)
        super(Steps, later).update(read)  # no status changes
        later._index = later.index.copy()
        for name in read:
            later._index.unread.pop(name, None)
        return later


class Run(FrozenStruct, frozen=True, kw_only=True):
    """The state of a run after its last event; made by `fold`.

    Attributes:
        id: The run's id.
        request: The request in words.
        locale: The language of the request.
        options: What the request was made with.
        origin: Where the run comes from: a request, a template, a schedule, another run.
        folder: The folder that the run belongs to.
        phase: What is done now; `status` also knows of pauses and questions.
        decision: Whether the request needs a plan, as triage decided.
        reason: Why the run is as it is, in words.
        plan: The current plan.
        templates: The plans of the templates that the plan uses.
        pins: The hashes of the results of earlier runs that its plans have used, by reference.
        problems: What checking the plan has found.
        estimate: What the plan may take: time, tokens, money.
        figures: How planning went.
        revisions: How many plans were proposed.
        approved: The hash of the approved plan.
        approved_plan: The plan that a person approved last, or that needed no approval; a person
            reviews what a replan adds to it.
        review_reasons: Why a person is, or was, asked to review the current plan.
        drops_in_review: Approved calls that the plan under review no longer makes.
        drops_approved: Calls that a person agreed to drop.
        approved_tools: The definitions of the tools that the approval was given for.
        previewing: The hash of the plan whose reads are made before its approval.
        previewed: The last preview of the plan, as hashes.
        preview: That preview in full: what would change; None in a list of runs.
        permits: The consent that an approved preview gave, by step or part.
        items_seen: The hashes of the list items in that preview, by part.
        left_out: What a person left out of that approval.
        bounds: What the approval allows of the calls of a tool or agent, whatever their values.
        reads_again: Whether what was read for the preview is read again.
        running_hash: The hash of the plan that runs.
        paused: Whether a person or a limit paused it.
        grants: How often a person lifted each limit.
        replans: How many plans were made after a failure or advice.
        iterations: How many plans were made after all steps had run.
        rejections: How many plans a person sent back.
        change_asked: Whether a person asked for another plan that is not made yet.
        advice: What an agent said about the plan.
        limit_refused: Whether the run ends because a person refused to lift a limit.
        calls: How many calls were made in all.
        tokens: How many tokens were used.
        money: What they cost, in US dollars.
        models: How often each model was asked for plans, and for how many tokens.
        time_counts_as: What its time counts as, unless a call is open (then as `running`), or it
            is paused or asks (then as `waiting`).
        calls_open: The steps whose call is open: what a crash now would interrupt.
        spent: How long it planned, ran and waited until its last event; `times` has the seconds.
        started_at: When the first step could start.
        cancel_asked: Whether someone has cancelled it.
        steps: The state of each step by id; `result` reads the result of one.
        removed_steps: Steps that the plan no longer has, kept for the calls they made.
        questions: The open questions by name.
        question_events: By question, also of closed ones: the event that asked it last.
        answer_hash: The hash of the answer, if the request was answered without a plan.
        report_text: That answer, or the report of the run, made when it is read: see `report`.
        acts: The steps that change something.
        requested_by: Who made the request.
        edited_by: Who changed the plan last.
        approved_by: Who approved it.
        created_at: When the run was created.
        updated_at: When it changed last.
        last: The last event.
        interrupted: Whether the process that executed it has ended.
        damage: What is wrong with its journal.

    Examples:
        >>> from plansmith import Plan, Plansmith
        >>> smith = Plansmith()
        >>> run = await smith.do(Plan(steps=[{"id": "ask", "kind": "ask", "question": "Go?"}]))
        >>> run.status.value, list(run.questions)
        ('asking', ['ask'])
    """

    id: str
    request: str = ""
    locale: str = "en"
    options: RunOptions = NO_OPTIONS
    origin: Origin = OWN_REQUEST
    folder: str = ""
    phase: RunStatus = RunStatus.TRIAGING
    decision: Decision | Literal[""] = ""
    reason: str = ""
    plan: Plan | None = None
    templates: Mapping[str, Plan] = msgspec.field(default_factory=dict[str, Plan])
    pins: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])
    problems: tuple[Problem, ...] = ()
    estimate: Estimate | None = None
    figures: PlanningFigures | None = None
    revisions: int = 0
    approved: str = ""
    approved_plan: ApprovedPlan | None = None
    review_reasons: tuple[str, ...] | None = None
    drops_in_review: tuple[str, ...] = ()
    drops_approved: tuple[str, ...] = ()
    approved_tools: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])
    previewing: str = ""
    previewed: PreviewMade | None = None
    preview: Preview | None = None
    permits: Mapping[str, StepReplied] = msgspec.field(default_factory=dict[str, StepReplied])
    items_seen: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])
    left_out: tuple[str, ...] = ()
    reads_again: bool = False
    bounds: Mapping[str, Bound] = msgspec.field(default_factory=dict[str, Bound])
    running_hash: str = ""
    paused: bool = False
    grants: Mapping[LimitName, int] = msgspec.field(default_factory=dict[LimitName, int])
    replans: int = 0
    iterations: int = 0
    rejections: int = 0
    change_asked: bool = False
    advice: StepAdvised | None = None
    limit_refused: bool = False
    calls: int = 0
    tokens: int = 0
    money: Decimal = Decimal(0)
    models: Mapping[str, ModelUse] = msgspec.field(default_factory=dict[str, ModelUse])
    time_counts_as: Literal["planning", "running", "waiting"] = "planning"
    calls_open: frozenset[str] = frozenset()
    spent: Mapping[str, timedelta] = msgspec.field(default_factory=dict[str, timedelta])
    started_at: datetime | None = None
    cancel_asked: bool = False
    steps: Steps = msgspec.field(default_factory=lambda: Steps({}))
    removed_steps: Mapping[str, StepState] = msgspec.field(default_factory=dict[str, StepState])
    questions: Mapping[str, QuestionAsked] = msgspec.field(default_factory=dict[str, QuestionAsked])
    question_events: Mapping[str, int] = msgspec.field(default_factory=dict[str, int])
    answer_hash: str = ""
    report_text: ReportText = NO_REPORT
    acts: tuple[str, ...] = ()
    requested_by: Actor | None = None
    edited_by: Actor | None = None
    approved_by: Actor | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None
    last: Event | None = None
    interrupted: bool = False
    damage: str = ""

    def __repr__(self) -> str:
        steps = [each.status for name, each in self.steps.items() if not is_part(name)]
        done = [each is StepStatus.DONE for each in steps]
        return notebook.run_line(self.id, self.status.value, done, self.request)

    def _repr_html_(self) -> str:
        plan, rows = self.plan.by_id if self.plan is not None else {}, list[Sequence[str]]()
        for name, state in self.steps.items():
            if not is_part(name):  # parts of a step are in its result
                is_done, error = state.status is StepStatus.DONE, state.error
                text = value_text(state.result) if is_done else in_language(error, self.locale)
                does = notebook.what_it_does(plan[name]) if name in plan else ""
                rows.append((name, does, state.status.value, text))
        head = f"{self.request} ({self.id}): {self.status.value}"
        return notebook.run_html(head, rows, self.answer)

    @overload
    def result(self, step: str) -> Json: ...
    @overload
    def result(self, step: str, kind: type[T]) -> T: ...
    def result(self, step: str, kind: type[T] | None = None) -> T | Json:
        """Returns the result of a step: as JSON, or as a value of a type, checked.

        Args:
            step: The id of the step.
            kind: A dataclass, a TypedDict, a pydantic model or a plain type such as `list[Order]`.

        Raises:
            NotFound: There is no such step, or it has no result.
            TypeError: The result is not of that type.

        Examples:
            >>> run = await smith.answer(run.id, "ask", "yes")
            >>> (await smith.run(run.id)).result("ask", str)
            'yes'
        """
        state = self.steps.get(step)
        if state is None:
            why = Sentence("run {run} has no step '{step}'", run=self.id, step=step)
            names = [*self.steps] or Sentence("none")
            raise NotFound(why, hint=Sentence("its steps: {names}", names=names))
        if state.status is not StepStatus.DONE:
            status = Sentence(f"status.{state.status}")
            why = Sentence("step '{step}' has no result: it is {status}", step=step, status=status)
            rest = Sentence("run {run} is {status}", run=self.id, status=self.status)
            raise NotFound(why, hint=state.error or rest)
        if kind is None:
            return state.result
        try:
            return value_types.read_as(state.result, kind)
        except ValueError as error:
            raise TypeError(f"the result of {step!r} is {error}") from None

    def question_hash(self, name: str) -> str:
        """A hash of an open question, by which an answer says exactly which question it is for.

        Args:
            name: The name of the question.

        Examples:
            >>> run = await smith.answer(run.id, "ask", "yes", of=run.question_hash("ask"))
        """
        plan = self.plan.hash if self.plan is not None else ""
        return canonical_hash(
            [self.questions[name].to_json(), self.question_events.get(name, 0), plan]
        )

    @property
    def answer(self) -> str:
        """The text of the last reply that was written; empty while there is none.

        Without the marks of its sources, `[step:ID]`: the report shows those.
        """
        if self.phase is RunStatus.ANSWERED:
            return self.report or in_language(self.reason, self.locale)
        for step in reversed(self.plan.steps) if self.plan else ():
            state = self.steps.get(step.id) if step.kind == "reply" else None
            if state is not None and state.status is StepStatus.DONE:
                return without_citations(str(state.result))
        return ""

    @property
    def files(self) -> tuple[str, ...]:
        """The files that steps wrote: `path` in the results of steps that change something."""
        found: list[str] = []
        for name, state in self.steps.items():
            if state.status is not StepStatus.DONE or root_of(name) not in self.acts:
                continue
            for item in state.result if isinstance(state.result, list) else [state.result]:
                path = item.get("path") if isinstance(item, dict) else None
                if isinstance(item, dict) and isinstance(path, str) and not item.get("deleted"):
                    found.append(path)
        return tuple(dict.fromkeys(found))

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
        if self.phase in OVER:
            return self.phase
        if self.paused:
            return RunStatus.PAUSED
        return RunStatus.ASKING if self.questions and not self.calls_open else self.phase

    @property
    def times(self) -> Times:
        """How long it was planned, ran, and waited for a person, until its last event."""
        return Times(**{name: each.total_seconds() for name, each in self.spent.items()})

    @property
    def startable_steps(self) -> tuple[str, ...]:
        """The steps that have not started and wait for no other; none unless the run is running."""
        if self.plan is None or self.phase is not RunStatus.RUNNING:
            return ()
        before, not_started = self.plan.waits_for, self.steps.index.not_started()
        if not not_started:
            return ()
        # Each step is looked at once here, and not once for each step that waits for it.
        not_done = {name for name, step in self.steps.items() if not step.counts_as_done}
        return tuple(
            name for name in not_started if name in before and before[name].isdisjoint(not_done)
        )

    @property
    def wakes_at(self) -> datetime | None:
        """The earliest time for which a step waits, if any does."""
        times = [step.wakes_at for step in self.steps.values() if step.status in NOT_STARTED]
        return min((each for each in times if each is not None), default=None)


def was_refused(run: Run, step: str) -> bool:
    """Tells whether a step failed only because a person refused its values, or a part's."""
    parts = (each for name, each in run.steps.items() if name.startswith(f"{step}/"))
    broken = [each for each in parts if each.status is StepStatus.FAILED] or [run.steps[step]]
    return all(each.error_kind == "refused" for each in broken)
