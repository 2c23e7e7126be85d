"""Models of the response bodies."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, Field, RootModel

from plansmith.plan.data import Json
from plansmith.plan.events import QuestionKind
from plansmith.plan.run_options import OriginKind
from plansmith.plan.thread import Judge, MessageKind
from plansmith_server.schemas.requests import DialectName


class StepView(BaseModel):
    """The state of a step; a large result is cut, the step's own address has it in full."""

    status: str
    attempts: int
    inputs: Json
    result: Json
    result_hash: str
    result_size: int
    clipped: bool
    error: str
    error_kind: str
    progress: str
    tokens: int
    started_at: datetime | None
    finished_at: datetime | None
    prefetched: bool = Field(description="read before the plan was complete")
    reused_from: str = Field(description="the earlier run in which it was done, if not in this one")
    rule: str = Field(description="why the plan itself skipped it: when, need or error")
    wakes_at: datetime | None = Field(description="when it starts, if it waits for a time")


class PrefetchView(BaseModel):
    """A read that was made before the plan was complete; `step` uses its result."""

    key: str
    tool: str
    inputs: Json
    started_at: datetime
    ended_at: datetime | None
    error: str
    step: str | None


class ContinuesView(BaseModel):
    """How many steps are done, and would not run again in a continued run."""

    done: int
    total: int


class OriginView(BaseModel):
    """What a run was made from."""

    kind: OriginKind
    id: str = ""
    event: int = 0
    thread: str = ""
    user: str = ""
    handed_over: bool = False


class FailureView(BaseModel):
    """Why planning gave no plan, and what the model wrote."""

    reason: str
    model: str
    output: str


class ProblemView(BaseModel):
    """One thing that is wrong with a plan."""

    code: str
    name: str
    severity: Literal["error", "warning", "note"]
    step: str | None
    path: list[str | int]
    message: str
    hint: str


class QuestionView(BaseModel):
    """A question that waits for a person; its `hash` is to be sent with the answer."""

    question: str
    hash: str
    kind: QuestionKind
    text: str
    options: list[str]
    answer_schema: dict[str, Any] | None
    step: str | None
    expires_at: datetime | None
    link: str


class ReviewView(BaseModel):
    """Whether a person is asked to approve the plan, which one, and why."""

    asked: bool
    hash: str
    reasons: list[str]


class EffectsView(BaseModel):
    """What a plan reads and changes."""

    read: int
    write: int
    final: int
    hosts: list[str]
    by_step: dict[str, str]


class PlanView(BaseModel):
    """A plan with its problems, estimate, effects, origins and rules."""

    plan: dict[str, Any] | None
    hash: str | None
    problems: list[ProblemView]
    estimate: dict[str, Any] | None
    effects: EffectsView
    origins: dict[str, dict[str, str]]
    rules: dict[str, list[str]] = Field(description="the rules of steps, as sentences")


class TimesView(BaseModel):
    """Seconds of planning, of running and of waiting for a person, until the moment `at`."""

    planning: float
    running: float
    waiting: float
    at: datetime | None


class RunView(PlanView):
    """Everything about a run."""

    id: str
    status: str
    phase: str
    request: str
    locale: str
    decision: str
    reason: str
    damage: str
    interrupted: bool
    approved: str
    cannot_approve: str = ""
    stand_in: bool = Field(description="whether the plan stands in for one that failed")
    failure: FailureView | None
    running_hash: str
    revisions: int
    review: ReviewView | None
    steps: dict[str, StepView]
    questions: list[QuestionView]
    paused: bool
    cancel_asked: bool
    replans: int
    iterations: int
    rejections: int
    tokens: int
    cost_usd: str
    report: str
    prefetches: list[PrefetchView]
    continues: ContinuesView | None
    can_be_undone: bool
    origin: OriginView
    conversation: str = Field(description="the conversation it belongs to; empty if to none")
    folder: str
    created_at: datetime | None
    updated_at: datetime | None
    last: int
    times: TimesView


class TakenView(BaseModel):
    """What a message was taken for; `text` is the answer that it got at once.

    `question` is the one that it answers, `step` the one that the answer is about.
    """

    number: int
    kind: MessageKind
    text: str
    judge: Judge
    reason: str
    question: str
    step: str


class TurnView(RunView):
    """The run of a request or of a message; without a conversation there is no message."""

    message: TakenView | None = None


class ReplyView(BaseModel):
    """The answer that a message got at once, and the run and the step that it is about."""

    text: str
    run: str
    step: str


class SpeakerView(BaseModel):
    """Who said a message."""

    kind: str
    name: str


class MessageView(BaseModel):
    """A message of a conversation; `kind` is null as long as nobody has read it.

    `asked` is the text of the question that it answers, `instead` the run that goes on where it
    was taken back.
    """

    number: int
    at: datetime
    by: SpeakerView
    text: str
    kind: MessageKind | None
    run: str
    question: str
    asked: str
    value: Json
    judge: Judge | None
    reason: str
    reply: ReplyView | None
    undone: bool
    instead: str


class StepCounts(BaseModel):
    """How far the steps of a run are."""

    total: int
    done: int
    failed: int
    running: int


class RunRow(BaseModel):
    """A run in a list."""

    id: str
    status: str
    request: str
    goal: str
    origin: str = Field(description="what it was made from")
    folder: str
    locale: str
    created_at: datetime | None
    updated_at: datetime | None
    steps: StepCounts
    questions: int
    tokens: int
    cost_usd: str
    damage: str
    planning_seconds: float
    running_seconds: float
    waiting_seconds: float


class RunPage(BaseModel):
    """Some runs, newest first; `next` is the cursor of the next page."""

    items: list[RunRow]
    next: str | None


class ConversationRow(BaseModel):
    """A conversation in a list; `waits` is what a person has to do in it."""

    id: str
    title: str
    owner: str
    folder: str
    messages: int
    last: int
    updated_at: datetime
    waits: Literal["", "question", "review"]


class ConversationPage(BaseModel):
    """Some conversations, newest activity first; `next` is the cursor of the next page."""

    items: list[ConversationRow]
    next: str | None


class ConversationRun(RunRow):
    """A run of a conversation; `answer` is the beginning of what it told the person."""

    answer: str


class QuestionOfRun(QuestionView):
    """An open question, and its run."""

    run: str


class SummaryView(BaseModel):
    """The messages up to a number in short, by which model."""

    upto: int
    text: str
    model: str


class ConversationView(BaseModel):
    """A conversation: its messages and runs, oldest first, and what waits in it."""

    id: str
    title: str
    owner: str
    folder: str
    messages: list[MessageView]
    runs: list[ConversationRun]
    questions: list[QuestionOfRun]
    summary: SummaryView | None
    created_at: datetime | None
    updated_at: datetime | None
    last: int


class Listed(BaseModel):
    """A list."""

    items: list[dict[str, Any]]


class Inbox(BaseModel):
    """What waits for a person; only its number, if that was asked for."""

    count: int
    items: list[dict[str, Any]] | None = None


class ChangedValues(BaseModel):
    """Inputs and results by step, and the number of the last event that they are of."""

    last: int
    steps: dict[str, dict[str, Json]]


class TemplateList(Listed):
    """The saved templates, and those that come with Plansmith."""

    ready: list[dict[str, Any]]


class Plain(BaseModel):
    """An object whose fields the documentation describes."""

    model_config = {"extra": "allow"}


class ExportedPlan(BaseModel):
    """A plan in a dialect, and what that cannot hold."""

    dialect: DialectName
    hash: str
    plan: Json
    lost: list[ProblemView]


class ShownPlan(RootModel[ExportedPlan | Plain]):
    """A plan in the plan language; with `dialect`, in that format."""


class Inspected(BaseModel):
    """A step with its inputs, result, attempts and model calls."""

    step: dict[str, Any] | None
    state: StepView
    template_inputs: Json
    resolved_inputs: Json
    attempts: list[dict[str, Any]]
    exchanges: list[dict[str, Any]]


class Difference(BaseModel):
    """What changed from one revision of a plan to another."""

    from_: int = Field(alias="from")
    to: int
    changes: list[dict[str, Any]]


class Revision(BaseModel):
    """One plan of a run's history, with the errors of the steps that failed before it was made."""

    revision: int
    hash: str
    origin: str
    cause: str
    errors: dict[str, str]
    at: datetime
    plan: dict[str, Any]


class Revisions(RootModel[list[Revision]]):
    """All plans of a run, oldest first."""
