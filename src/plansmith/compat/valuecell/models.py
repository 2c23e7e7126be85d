"""ValueCell's data: requests, tasks, schedules, plans, triage decisions and agent cards."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Final, Literal, Self
from uuid import uuid4

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from plansmith.app import Plansmith
from plansmith.plan.capability import AgentSpec
from plansmith.plan.timing import Timing, make_timing, next_fires

# In ValueCell a name that is not given is None.
Named = Annotated[str, BeforeValidator(lambda name: "" if name is None else name)]
NOT_FOUND = "The requested agent could not be found or is not available."


def _now() -> datetime:
    return datetime.now(UTC)


class TaskStatus(StrEnum):
    """The status of a task."""

    PENDING = "pending"
    RUNNING = "running"
    WAITING_INPUT = "waiting_input"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class TaskPattern(StrEnum):
    """Whether a task runs once or repeatedly."""

    ONCE = "once"
    RECURRING = "recurring"


FINISHED: Final = frozenset({TaskStatus.COMPLETED, TaskStatus.FAILED, TaskStatus.CANCELLED})


class ScheduleConfig(BaseModel):
    """When a recurring task runs: every so many minutes, or daily at a time."""

    model_config = ConfigDict(extra="forbid")

    interval_minutes: int | None = Field(default=None, ge=1)
    daily_time: str | None = Field(default=None, pattern=r"^([01][0-9]|2[0-3]):[0-5][0-9]$")
    timezone: str = "UTC"

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if (self.interval_minutes is None) == (self.daily_time is None):
            raise ValueError("give either interval_minutes or daily_time, such as 09:30")
        return self

    def timing(self) -> Timing:
        """Returns the same as a timing of Plansmith."""
        way = {"every_minutes": self.interval_minutes, "daily_at": self.daily_time}
        given = {name: value for name, value in way.items() if value is not None}
        return make_timing(**given, timezone=self.timezone)

    @classmethod
    def of(cls, timing: Timing | None) -> ScheduleConfig | None:
        """Returns the schedule of a timing, if ValueCell can express it."""
        if timing is None or not (timing.every_minutes or timing.daily_at):
            return None
        return cls(
            interval_minutes=timing.every_minutes,
            daily_time=timing.daily_at,
            timezone=timing.timezone,
        )


def calculate_next_execution_delay(
    schedule_config: ScheduleConfig | None, *, now: datetime | None = None
) -> float | None:
    """Returns the seconds until a task runs next; None if it never does."""
    if schedule_config is None:
        return None
    after = now or _now()
    fires = next_fires(schedule_config.timing(), after=after)
    return (fires[0] - after).total_seconds() if fires else None


class Task(BaseModel):
    """One request to one agent; its methods return whether they were possible."""

    task_id: str = Field(default_factory=lambda: f"task-{uuid4()}")
    title: str = ""
    query: str
    conversation_id: str
    thread_id: str = Field(default_factory=lambda: f"thread-{uuid4()}")
    user_id: str
    agent_name: str
    status: TaskStatus = TaskStatus.PENDING
    pattern: TaskPattern = TaskPattern.ONCE
    schedule_config: ScheduleConfig | None = None
    handoff_from_super_agent: bool = False
    created_at: datetime = Field(default_factory=_now)
    started_at: datetime | None = None
    completed_at: datetime | None = None
    updated_at: datetime = Field(default_factory=_now)
    error_message: str | None = None

    def start(self) -> bool:
        """Starts a pending task."""
        if self.status is not TaskStatus.PENDING:
            return False
        self.status, self.started_at = TaskStatus.RUNNING, _now()
        self.updated_at = self.started_at
        return True

    def complete(self) -> bool:
        """Ends the task successfully; impossible for a finished task."""
        return self._finish(TaskStatus.COMPLETED)

    def fail(self, error_message: str) -> bool:
        """Ends the task with an error; impossible for a finished task."""
        failed = self._finish(TaskStatus.FAILED)
        if failed:
            self.error_message = error_message
        return failed

    def cancel(self) -> bool:
        """Cancels the task; a finished task stays as it is."""
        return self._finish(TaskStatus.CANCELLED)

    def _finish(self, status: TaskStatus) -> bool:
        if self.is_finished():
            return False
        self.status, self.completed_at = status, _now()
        self.updated_at = self.completed_at
        return True

    def is_finished(self) -> bool:
        """Returns whether the task has ended."""
        return self.status in FINISHED

    def is_running(self) -> bool:
        """Returns whether the agent is working on the task."""
        return self.status is TaskStatus.RUNNING

    def is_waiting_input(self) -> bool:
        """Returns whether the task waits for the person."""
        return self.status is TaskStatus.WAITING_INPUT


class ExecutionPlan(BaseModel):
    """The tasks for one request; without tasks, the guidance says what to do."""

    plan_id: str
    conversation_id: str
    user_id: str
    orig_query: str
    tasks: list[Task] = []
    created_at: str
    guidance_message: str | None = None


class TaskBrief(BaseModel):
    """A task as the planning model writes it."""

    title: str
    query: str
    agent_name: str
    pattern: TaskPattern = TaskPattern.ONCE
    schedule_config: ScheduleConfig | None = None


class PlannerInput(BaseModel):
    """The input of the planning model."""

    query: str
    target_agent_name: Named = ""


class PlannerResponse(BaseModel):
    """The answer of the planning model."""

    tasks: list[TaskBrief] = []
    adequate: bool
    reason: str
    guidance_message: str | None = None


class UserInputMetadata(BaseModel):
    """The user and the conversation of a request."""

    conversation_id: str = Field(default_factory=lambda: f"conv-{uuid4()}")
    user_id: Named = ""


class UserInput(BaseModel):
    """A request, and the agent it names, if any."""

    query: str
    target_agent_name: Named = ""
    meta: UserInputMetadata = Field(default_factory=UserInputMetadata)


class SuperAgentDecision(StrEnum):
    """The decision of triage."""

    ANSWER = "answer"
    HANDOFF_TO_PLANNER = "handoff_to_planner"


class SuperAgentOutcome(BaseModel):
    """A decision with the answer, or with the request for the planner."""

    decision: SuperAgentDecision
    answer_content: str | None = None
    enriched_query: str | None = None
    reason: str | None = None


class Response(BaseModel):
    """One message to the client of a conversation; `done` is always the last."""

    event: Literal[
        "conversation_started",
        "thread_started",
        "message",
        "plan_require_user_input",
        "plan_failed",
        "task_started",
        "task_running",
        "task_completed",
        "task_failed",
        "task_cancelled",
        "system_failed",
        "done",
    ]
    conversation_id: str
    thread_id: str = ""
    task_id: str = ""
    content: str = ""


class RemoteConnections:
    """The available agents; without a Plansmith, those in this machine's settings."""

    def __init__(self, smith: Plansmith | None = None) -> None:
        self.smith = smith or Plansmith.from_settings()

    def get_agent_card(self, agent_name: str) -> AgentSpec | None:
        """Returns the card of an enabled agent."""
        return self.get_all_agent_cards().get(agent_name)

    def get_all_agent_cards(self) -> dict[str, AgentSpec]:
        """Returns the cards of all enabled agents."""
        return {card.name: card for card in self.smith.runs.intake.agents() if card.enabled}

    def get_planable_agent_cards(self) -> dict[str, AgentSpec]:
        """Returns the cards a planner may use: neither hidden nor passthrough."""
        return {
            name: card
            for name, card in self.get_all_agent_cards().items()
            if not card.hidden and not card.passthrough
        }

    def is_planner_passthrough(self, agent_name: str) -> bool:
        """Returns whether an agent takes requests unchanged."""
        card = self.get_agent_card(agent_name)
        return card is not None and card.passthrough

    def list_available_agents(self) -> list[str]:
        """Returns the names of all enabled agents."""
        return list(self.get_all_agent_cards())


def agentcard_to_prompt(card: AgentSpec) -> str:
    """Returns a card as Markdown: description, skills, examples and tags."""
    lines = [f"# Agent: {card.name}", "", f"**Description:** {card.description}"]
    if card.skills:
        lines += ["", "## Available Skills"]
    for number, skill in enumerate(card.skills, start=1):
        lines += ["", f"### {number}. {skill.name}", "", f"**Description:** {skill.description}"]
        if skill.examples:
            lines += ["", "**Examples:**", *(f"- {example}" for example in skill.examples)]
        if skill.tags:
            lines += ["", "**Tags:** " + ", ".join(f"`{tag}`" for tag in skill.tags)]
    return "\n".join(lines)
