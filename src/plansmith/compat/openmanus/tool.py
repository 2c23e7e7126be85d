"""OpenManus' planning tool: seven commands with its exact texts, and stored plans."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, cast

from plansmith.adapters.clock import SystemClock
from plansmith.adapters.stores.urls import open_store
from plansmith.compat.openmanus.book import AGENT, Kept, PlanBook
from plansmith.errors import PlansmithError, StaleWriter
from plansmith.plan.data import Json
from plansmith.plan.events import Actor
from plansmith.ports import Clock, PlanStore

COMMANDS: Final = ("create", "update", "list", "get", "set_active", "mark_step", "delete")
_TOLD: Final = ("completed", "in_progress", "blocked", "not_started")
_TRIES: Final = 5
_NO_ACTIVE: Final = "No active plan. Please specify a plan_id or set an active plan."


class PlanStepStatus(StrEnum):
    """The status of a step."""

    NOT_STARTED = "not_started"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    BLOCKED = "blocked"

    @classmethod
    def get_all_statuses(cls) -> list[str]:
        """Returns all statuses as texts."""
        return [each.value for each in cls]

    @classmethod
    def get_active_statuses(cls) -> list[str]:
        """Returns the statuses of steps that are not finished."""
        return [cls.NOT_STARTED.value, cls.IN_PROGRESS.value]

    @classmethod
    def get_status_marks(cls) -> dict[str, str]:
        """Returns the mark of each status in a plan that is shown."""
        return dict(zip(cls.get_all_statuses(), ("[ ]", "[→]", "[✓]", "[!]"), strict=True))


STATUSES: Final = tuple(PlanStepStatus.get_all_statuses())


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of a command: `output`, or `error` if it failed."""

    output: str = ""
    error: str | None = None

    def __str__(self) -> str:
        return f"Error: {self.error}" if self.error else self.output


class ToolError(PlansmithError):
    """A command failed; the text is for the agent that gave it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    """The arguments of a command."""

    command: str
    plan_id: str | None = None
    title: str | None = None
    steps: Sequence[str] | None = None
    step_index: int | None = None
    step_status: str | None = None
    step_notes: str | None = None


class PlanningTool:
    """Stores plans for an agent that marks their steps by itself.

    Without a store, plans exist only as long as the tool. Each tool has its own active plan; a new
    tool starts with the plan that was activated last.
    """

    name: Final = "planning"
    description: Final = "Creates plans with steps in words, changes them, and marks their steps."

    def __init__(
        self, *, store: str | PlanStore = "memory", clock: Clock | None = None, by: Actor = AGENT
    ) -> None:
        kept = open_store(store) if isinstance(store, str) else store
        self._store = kept
        self._book = PlanBook(kept, clock or SystemClock(), by=by)
        self._active: str | None = None
        self._looked = False

    @property
    def parameters(self) -> dict[str, Json]:
        """The JSON Schema of the arguments of `execute`."""
        texts = {name: {"type": "string"} for name in ("plan_id", "title", "step_notes")}
        return cast(
            "dict[str, Json]",
            {
                "type": "object",
                "properties": {
                    "command": {"type": "string", "enum": list(COMMANDS)},
                    "steps": {"type": "array", "items": {"type": "string"}},
                    "step_index": {"type": "integer"},
                    "step_status": {"type": "string", "enum": list(STATUSES)},
                    **texts,
                },
                "required": ["command"],
                "additionalProperties": False,
            },
        )

    def to_param(self) -> dict[str, Any]:
        """Returns the tool in the form of function calling."""
        function = {
            "name": self.name,
            "description": self.description,
            "parameters": self.parameters,
        }
        return {"type": "function", "function": function}

    async def execute(self, *, command: str, **given: Any) -> ToolResult:
        """Executes a command; returns mistakes as `error`."""
        try:
            arguments = _arguments(command, given)
            return ToolResult(output=await self._with_retry(arguments))
        except ToolError as error:
            return ToolResult(error=error.message)

    async def close(self) -> None:
        """Closes the store."""
        await self._store.close()

    async def _with_retry(self, arguments: Arguments) -> str:
        """Repeats the command if another process changed the same plan first."""
        for _ in range(_TRIES - 1):
            try:
                return await self._dispatch(arguments)
            except StaleWriter:
                continue
        return await self._dispatch(arguments)

    async def _dispatch(self, arguments: Arguments) -> str:
        match arguments.command:
            case "create":
                return await self._create(arguments)
            case "update":
                return await self._update(arguments)
            case "list":
                return await self._list()
            case "get":
                return plan_text(await self._plan(arguments.plan_id or await self._current()))
            case "set_active":
                return await self._set_active(arguments)
            case "mark_step":
                return await self._mark(arguments)
            case _:
                return await self._delete(arguments)

    async def _create(self, arguments: Arguments) -> str:
        plan_id = _needed(arguments, "plan_id")
        if await self._book.find(plan_id) is not None:
            hint = f"A plan with ID '{plan_id}' already exists."
            raise ToolError(f"{hint} Use 'update' to modify existing plans.")
        title = _needed(arguments, "title")
        steps = _texts(arguments.steps)
        if not steps:
            hint = "must be a non-empty list of strings for command: create"
            raise ToolError(f"Parameter `steps` {hint}")
        await self._book.create(plan_id, title, steps)
        self._activate(plan_id)
        shown = plan_text(await self._plan(plan_id))
        return f"Plan created successfully with ID: {plan_id}\n\n{shown}"

    async def _update(self, arguments: Arguments) -> str:
        plan_id = _needed(arguments, "plan_id")
        await self._own(plan_id)
        steps = _texts(arguments.steps) if arguments.steps else None
        if arguments.steps and steps is None:
            raise ToolError("Parameter `steps` must be a list of strings for command: update")
        if arguments.title or steps:
            await self._book.revise(plan_id, arguments.title, steps)
        shown = plan_text(await self._plan(plan_id))
        return f"Plan updated successfully: {plan_id}\n\n{shown}"

    async def _list(self) -> str:
        plans = await self._book.all()
        if not plans:
            return "No plans available. Create a plan with the 'create' command."
        active = await self._found()
        return "Available plans:\n" + "".join(_row(plan, active) for plan in plans)

    async def _set_active(self, arguments: Arguments) -> str:
        plan_id = _needed(arguments, "plan_id")
        plan = await self._plan(plan_id)
        if plan.own:
            await self._book.make_active(plan_id)
        self._activate(plan_id)
        return f"Plan '{plan_id}' is now the active plan.\n\n{plan_text(plan)}"

    async def _mark(self, arguments: Arguments) -> str:
        plan_id = arguments.plan_id or await self._current()
        plan, index = await self._own(plan_id), arguments.step_index
        if index is None:
            raise ToolError("Parameter `step_index` is required for command: mark_step")
        if index not in range(len(plan.steps)):
            hint = f"Valid indices range from 0 to {len(plan.steps) - 1}."
            raise ToolError(f"Invalid step_index: {index}. {hint}")
        status = arguments.step_status
        if status and status not in STATUSES:
            hint = f"Valid statuses are: {', '.join(STATUSES)}"
            raise ToolError(f"Invalid step_status: {status}. {hint}")
        await self._book.mark(plan_id, index, status, arguments.step_notes)
        shown = plan_text(await self._plan(plan_id))
        return f"Step {index} updated in plan '{plan_id}'.\n\n{shown}"

    async def _delete(self, arguments: Arguments) -> str:
        plan_id = _needed(arguments, "plan_id")
        await self._own(plan_id)
        active = await self._found()
        await self._book.remove(plan_id)
        self._activate(None if active == plan_id else active)
        return f"Plan '{plan_id}' has been deleted."

    def _activate(self, plan_id: str | None) -> None:
        self._active, self._looked = plan_id, True

    async def _found(self) -> str | None:
        """Returns the active plan; the first time from the store."""
        if not self._looked:
            self._activate(await self._book.active())
        return self._active

    async def _current(self) -> str:
        active = await self._found()
        if active is None:
            raise ToolError(_NO_ACTIVE)
        return active

    async def _plan(self, plan_id: str) -> Kept:
        plan = await self._book.find(plan_id)
        if plan is None:
            raise ToolError(f"No plan found with ID: {plan_id}")
        return plan

    async def _own(self, plan_id: str) -> Kept:
        """Returns a plan that may be changed here; a plan run by a flow may not."""
        plan = await self._plan(plan_id)
        if not plan.own:
            raise ToolError(f"Plan '{plan_id}' is run by a flow: only its run changes it.")
        return plan


def _arguments(command: str, given: dict[str, Any]) -> Arguments:
    if command not in COMMANDS:
        allowed = f"Allowed commands are: {', '.join(COMMANDS)}"
        raise ToolError(f"Unrecognized command: {command}. {allowed}")
    known = Arguments.__dataclass_fields__.keys() - {"command"}
    unknown = sorted(given.keys() - known)
    if unknown:
        allowed = f"Allowed parameters are: {', '.join(sorted(known))}"
        raise ToolError(f"Unrecognized parameter: {unknown[0]}. {allowed}")
    return Arguments(command=command, **given)


def _needed(arguments: Arguments, name: str) -> str:
    value: str | None = getattr(arguments, name)
    if not value:
        raise ToolError(f"Parameter `{name}` is required for command: {arguments.command}")
    return value


def _texts(steps: object) -> list[str] | None:
    if not isinstance(steps, (list, tuple)):
        return None
    texts = [step for step in cast("list[object]", steps) if isinstance(step, str) and step.strip()]
    return texts if len(texts) == len(cast("list[object]", steps)) else None


def _row(plan: Kept, active: str | None) -> str:
    mark = " (active)" if plan.plan_id == active else ""
    progress = f"{plan.completed}/{len(plan.steps)} steps completed"
    return f"• {plan.plan_id}{mark}: {plan.title} - {progress}\n"


def plan_text(plan: Kept) -> str:
    """Returns a plan as text for people and agents."""
    head = f"Plan: {plan.title} (ID: {plan.plan_id})\n"
    total = len(plan.steps)
    share = f"{plan.completed / total * 100:.1f}%" if total else "0%"
    counts = {status: plan.statuses.count(status) for status in STATUSES}
    standing = ", ".join(f"{counts[name]} {name.replace('_', ' ')}" for name in _TOLD)
    lines = [
        head + "=" * len(head) + "\n",
        f"Progress: {plan.completed}/{total} steps completed ({share})",
        f"Status: {standing}\n",
        "Steps:",
    ]
    marks = PlanStepStatus.get_status_marks()
    for place, step in enumerate(plan.steps):
        lines.append(f"{place}. {marks[plan.statuses[place]]} {step}")
        lines += [f"   Notes: {plan.notes[place]}"] if plan.notes[place] else []
    return "\n".join(lines) + "\n"
