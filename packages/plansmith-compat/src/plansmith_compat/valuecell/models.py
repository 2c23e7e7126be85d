"""ValueCell's plans, tasks and requests, its questions to the person, and its task manager."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any, Final, Literal, Protocol
from uuid import uuid4

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from plansmith.errors import Misconfigured
from plansmith.plan.timing import Timing, make_timing, next_fires

_CLOCK: Final = re.compile(r"\s*(\d{1,2})\s*:\s*(\d{1,2})\s*")
# In ValueCell a name that is not given is None.
Named = Annotated[str, BeforeValidator(lambda name: "" if name is None else name)]


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


class ScheduleConfig(BaseModel):
    """When a recurring task runs: every so many minutes, or daily at a time.

    Any values can be held; `is_valid` says whether they are a schedule. What is none is never run.
    """

    model_config = ConfigDict(extra="forbid")

    interval_minutes: int | None = None
    daily_time: str | None = None
    timezone: str = "UTC"

    def is_valid(self) -> bool:
        """Whether a task can run so: exactly one way is given, and it can be computed."""
        try:
            self.timing()
        except Misconfigured:
            return False
        return True

    def timing(self) -> Timing:
        """Returns the same as a timing of Plansmith; raises `Misconfigured` if it is none."""
        clock = _CLOCK.fullmatch(self.daily_time or "")
        daily = f"{int(clock[1]):02}:{int(clock[2]):02}" if clock else self.daily_time
        way = {"every_minutes": self.interval_minutes, "daily_at": daily}
        given = {name: value for name, value in way.items() if value is not None}
        return make_timing(**given, timezone=self.timezone)


def calculate_next_execution_delay(
    schedule_config: ScheduleConfig | None, *, now: datetime | None = None
) -> float | None:
    """Returns the seconds until a task runs next; None if it never does."""
    if schedule_config is None:
        return None
    # An interval counts before a daily time, and none of zero minutes.
    unused = "daily_time" if schedule_config.interval_minutes else "interval_minutes"
    schedule_config = schedule_config.model_copy(update={unused: None})
    if not schedule_config.is_valid():
        return None
    after = now or datetime.now().astimezone()
    fires = next_fires(schedule_config.timing(), after=after)
    return (fires[0] - after).total_seconds() if fires else None


class Task(BaseModel):
    """One request to one agent; its methods return whether they were possible."""

    task_id: str = Field(default_factory=lambda: f"task-{uuid4()}")
    remote_task_ids: list[str] = []
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
        if self.status is not TaskStatus.PENDING:
            return False
        self.status, self.started_at = TaskStatus.RUNNING, _now()
        self.updated_at = self.started_at
        return True

    def complete(self) -> bool:
        return self._finish(TaskStatus.COMPLETED)

    def fail(self, error_message: str) -> bool:
        return self._finish(TaskStatus.FAILED, error_message)

    def cancel(self) -> bool:
        return self._finish(TaskStatus.CANCELLED)

    def _finish(self, status: TaskStatus, error: str | None = None) -> bool:
        """Ends the task; a finished one stays as it ended."""
        if self.is_finished():
            return False
        self.status, self.completed_at = status, _now()
        self.updated_at, self.error_message = self.completed_at, error
        return True

    def is_finished(self) -> bool:
        return self.status in (TaskStatus.COMPLETED, TaskStatus.FAILED, TaskStatus.CANCELLED)

    def is_running(self) -> bool:
        return self.status is TaskStatus.RUNNING

    def is_waiting_input(self) -> bool:
        return self.status is TaskStatus.WAITING_INPUT

    def is_scheduled(self) -> bool:
        config = self.schedule_config
        return self.pattern is TaskPattern.RECURRING and config is not None and config.is_valid()

    # The names of earlier releases of ValueCell.
    start_task, complete_task, fail_task, cancel_task = start, complete, fail, cancel


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


def _new_id() -> str:
    return f"conv-{uuid4()}"


class UserInputMetadata(BaseModel):
    """The user and the conversation of a request; without an id it is a new conversation."""

    conversation_id: Annotated[
        str, BeforeValidator(lambda given: _new_id() if given is None else given)
    ] = Field(default_factory=_new_id)
    user_id: Named = ""


class UserInput(BaseModel):
    """A request, and the agent it names, if any.

    `triaged` is set for the planner when a super agent has decided that the request needs a plan;
    `own_words` are then the person's own words.
    """

    model_config = ConfigDict(extra="forbid")

    query: str
    target_agent_name: Named = ""
    meta: UserInputMetadata = Field(default_factory=UserInputMetadata)
    triaged: bool = Field(default=False, exclude=True)
    own_words: str = Field(default="", exclude=True)


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


class UserInputRequest:
    """A question to the person, with a way to wait for the answer."""

    def __init__(self, prompt: str) -> None:
        self.prompt = prompt
        self.response: str | None = None
        self.event = asyncio.Event()

    async def wait_for_response(self) -> str:
        await self.event.wait()
        return self.response or ""

    def provide_response(self, response: str) -> None:
        self.response = response
        self.event.set()


class UserInputRegistry:
    """The open questions by conversation; the journal stores them too."""

    def __init__(self) -> None:
        self._pending: dict[str, UserInputRequest] = {}

    def add_request(self, conversation_id: str, request: UserInputRequest) -> None:
        self._pending[conversation_id] = request

    def has_request(self, conversation_id: str) -> bool:
        return conversation_id in self._pending

    def get_prompt(self, conversation_id: str) -> str | None:
        request = self._pending.get(conversation_id)
        return request.prompt if request else None

    def provide_response(self, conversation_id: str, response: str) -> bool:
        """Answers a question; false if none is open, also for a second answer."""
        request = self._pending.pop(conversation_id, None)
        if request is None:
            return False
        request.provide_response(response)
        return True

    def clear(self, conversation_id: str) -> None:
        self._pending.pop(conversation_id, None)


class TaskStore(Protocol):
    """Where a task manager keeps its tasks; `list_tasks` returns those that fit, oldest first."""

    async def save_task(self, task: Task, /) -> None: ...
    async def load_task(self, task_id: str, /) -> Task | None: ...
    async def list_tasks(self, conversation_id: str | None = None) -> list[Task]: ...
    async def task_exists(self, task_id: str, /) -> bool: ...


class InMemoryTaskStore:
    """Keeps tasks in this process; those of plans are in Plansmith's own store."""

    def __init__(self) -> None:
        self._tasks: dict[str, Task] = {}

    async def save_task(self, task: Task) -> None:
        self._tasks[task.task_id] = task

    async def load_task(self, task_id: str) -> Task | None:
        return self._tasks.get(task_id)

    async def list_tasks(
        self,
        conversation_id: str | None = None,
        user_id: str | None = None,
        status: TaskStatus | None = None,
        limit: int | None = None,
        offset: int = 0,
    ) -> list[Task]:
        found = [
            task
            for task in self._tasks.values()
            if conversation_id in (None, task.conversation_id)
            and user_id in (None, task.user_id)
            and status in (None, task.status)
        ]
        return found[offset:] if limit is None else found[offset : offset + limit]

    async def delete_task(self, task_id: str) -> bool:
        return self._tasks.pop(task_id, None) is not None

    async def task_exists(self, task_id: str) -> bool:
        return task_id in self._tasks


class TaskManager:
    """Changes the status of tasks; what is not possible is refused with False."""

    def __init__(self, store: TaskStore | None = None) -> None:
        self._store = store or InMemoryTaskStore()
        self._lock = asyncio.Lock()

    async def update_task(self, task: Task) -> None:
        async with self._lock:
            task.updated_at = _now()
            await self._store.save_task(task)

    async def get_task(self, task_id: str) -> Task | None:
        return await self._store.load_task(task_id)

    # The name of earlier releases of ValueCell.
    _get_task = get_task

    async def start_task(self, task_id: str) -> bool:
        return await self._change(task_id, Task.start)

    async def complete_task(self, task_id: str) -> bool:
        return await self._change(task_id, Task.complete)

    async def fail_task(self, task_id: str, error_message: str) -> bool:
        return await self._change(task_id, lambda task: task.fail(error_message))

    async def cancel_task(self, task_id: str) -> bool:
        """Cancels a task; a finished one stays as it is. False if there is no such task."""
        await self._change(task_id, Task.cancel)
        return await self._store.task_exists(task_id)

    async def cancel_conversation_tasks(self, conversation_id: str) -> int:
        tasks = await self._store.list_tasks(conversation_id=conversation_id)
        left = [task.task_id for task in tasks if not task.is_finished()]
        return sum([await self.cancel_task(each) for each in left])

    async def _change(self, task_id: str, change: Callable[[Task], bool]) -> bool:
        async with self._lock:
            task = await self._store.load_task(task_id)
            if task is None or not change(task):
                return False
            await self._store.save_task(task)
            return True


class TaskService:
    """A manager for the other services of a program, with all of its methods."""

    def __init__(self, manager: TaskManager | None = None) -> None:
        self.manager = manager or TaskManager()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.manager, name)
