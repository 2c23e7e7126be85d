"""OpenManus' planning tool: seven commands with its exact texts, and stored plans."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from pydantic import Field, PrivateAttr

from plansmith.clock import SystemClock
from plansmith.errors import StaleWriter
from plansmith.plan.events import Actor
from plansmith.ports import Clock, PlanStore
from plansmith.store.memory import MemoryStore
from plansmith.store.urls import open_store
from plansmith_compat.calling import awaited
from plansmith_compat.openmanus.book import (
    AGENT,
    COMMANDS,
    Kept,
    PlanBook,
    PlanDict,
    PlanStepStatus,
    PlanViews,
    dictionary,
    parameters,
    plan_row,
    plan_text,
    read_beside,
    read_memory,
)
from plansmith_compat.openmanus.tools import BaseTool, ToolError, ToolResult

_TRIES: Final = 5
_NO_ACTIVE: Final = "No active plan. Please specify a plan_id or set an active plan."


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


class PlanningResult(ToolResult):
    """The text that a command gives."""

    output: str = ""


# Takes the marks of a plan while a flow runs it.
MarkSink = Callable[[int, str | None, str | None], None]


class PlanningTool(BaseTool):
    """Stores plans for an agent that marks their steps by itself.

    Without a store, plans exist only as long as the tool. Each tool has its own active plan; a new
    tool starts with the plan that was activated last. Mistakes come back in `.error`; with
    `raises` they are raised as `ToolError`.
    """

    name: str = "planning"
    description: str = (
        "Keeps plans with steps in words: creates and changes them, shows them, makes one the "
        "active one, marks the status of their steps with notes, and deletes them."
    )
    parameters: dict[str, Any] | None = Field(default_factory=parameters)

    _store: PlanStore = PrivateAttr()
    _book: PlanBook = PrivateAttr()
    _raises: bool = PrivateAttr(default=False)
    _url: str = PrivateAttr(default="")
    _active: str | None = PrivateAttr(default=None)
    _looked: bool = PrivateAttr(default=False)
    _wanted: bool = PrivateAttr(default=False)
    _views: PlanViews = PrivateAttr(default_factory=PlanViews)
    _sinks: dict[str, MarkSink] = PrivateAttr(default_factory=dict[str, MarkSink])

    def __init__(
        self,
        *,
        store: str | PlanStore = "memory",
        clock: Clock | None = None,
        by: Actor = AGENT,
        raises: bool = False,
        **fields: Any,
    ) -> None:
        super().__init__(**fields)
        self._store = open_store(store) if isinstance(store, str) else store
        self._book = PlanBook(self._store, clock or SystemClock(), by=by)
        self._raises = raises
        self._url = store if isinstance(store, str) and store != "memory" else ""

    @property
    def plans(self) -> dict[str, PlanDict]:
        """The plans by id; what a program writes into them is stored with the next command.

        As of now if the store is in memory, else as of the last command.
        """
        if not self._views.is_changed:
            self._look()
        return self._views.plans

    @property
    def _current_plan_id(self) -> str | None:
        if not self._looked:
            self._look()
        return self._active

    @_current_plan_id.setter
    def _current_plan_id(self, plan_id: str | None) -> None:
        self._activate(plan_id)
        self._wanted = plan_id is not None

    def _look(self) -> None:
        """Reads the plans for code that cannot wait for the store."""
        if isinstance(self._store, MemoryStore):
            found = read_memory(self._book)
        elif self._url and not self._looked and not self._views.plans:
            found = read_beside(self._url)
        else:
            return
        self._views.show_all(found.plans)
        if not self._looked:
            self._activate(found.active)

    async def execute(self, *, command: str = "", **kwargs: Any) -> PlanningResult:
        """Executes a command; returns mistakes as `error`."""
        try:
            arguments = _arguments(command, kwargs)
            await self.save()
            done = await self._with_retry(arguments)
            await self.refresh(arguments.plan_id or self._active)
        except ToolError as error:
            if self._raises:
                raise
            return PlanningResult(error=error.message)
        return done

    async def save(self) -> None:
        """Stores what a program has written into `plans` since the last command."""
        if self._views.is_changed:
            await self._views.write_to(self._book)
        if self._wanted and self._active in self._views.plans:
            await self._book.make_active(str(self._active))
        self._wanted = False

    async def refresh(self, plan_id: str | None) -> Kept | None:
        """Brings the view of a plan up to date, and returns the plan."""
        found = await self._book.find(plan_id) if plan_id else None
        if found is not None:
            self._views.show(found)
        elif plan_id:
            self._views.forget(plan_id)
        return found

    async def run_of(self, plan_id: str) -> str:
        """Returns the id of a plan's run; if there is no such plan, the id for a new one."""
        return await self._book.run_of(plan_id)

    @property
    def store(self) -> PlanStore:
        """The store of the plans."""
        return self._store

    async def hand_over(self, plan_id: str, agents: Mapping[str, str], first: str) -> None:
        """Makes a plan ready for a flow: each step gets an agent that there is."""
        await self.save()
        await self._book.resolve(plan_id, agents, first)

    async def hold(self, plan_id: str) -> None:
        """Pauses a plan that no flow runs now, and makes it the active one."""
        await self._book.make_active(plan_id)
        self._activate(plan_id)
        await self.refresh(plan_id)

    def take_marks(self, plan_id: str, sink: MarkSink | None) -> None:
        """Passes the marks of a plan to the flow that runs it; None when it runs no more."""
        if sink is None:
            self._sinks.pop(plan_id, None)
        else:
            self._sinks[plan_id] = sink

    async def close(self) -> None:
        """Stores what was written into `plans`, and closes the store."""
        await self.save()
        await self._store.close()

    async def _with_retry(self, arguments: Arguments) -> PlanningResult:
        """Repeats the command if another process changed the same plan first."""
        for _ in range(_TRIES - 1):
            try:
                return await self._dispatch(arguments)
            except StaleWriter:
                continue
        return await self._dispatch(arguments)

    async def _dispatch(self, given: Arguments) -> PlanningResult:
        name = given.plan_id
        made: Any
        match given.command:
            case "create":
                made = self._create_plan(name, given.title, given.steps)
            case "update":
                made = self._update_plan(name, given.title, given.steps)
            case "list":
                made = self._list_plans()
            case "get":
                made = self._get_plan(name)
            case "set_active":
                made = self._set_active_plan(name)
            case "mark_step":
                status, notes = given.step_status, given.step_notes
                made = self._mark_step(name, given.step_index, status, notes)
            case _:
                made = self._delete_plan(name)
        # An override may be a plain function, as all of them are in OpenManus.
        return cast("PlanningResult", await awaited(made))

    # OpenManus' own steps, which a subclass may override; here they are to be awaited.

    async def _create_plan(
        self, plan_id: str | None, title: str | None, steps: Sequence[str] | None
    ) -> PlanningResult:
        plan_id = _needed(plan_id, "plan_id", "create")
        if await self._book.find(plan_id) is not None:
            hint = f"A plan with ID '{plan_id}' already exists."
            raise ToolError(f"{hint} Use 'update' to modify existing plans.")
        title = _needed(title, "title", "create")
        texts = _texts(steps)
        if not texts:
            hint = "must be a non-empty list of strings for command: create"
            raise ToolError(f"Parameter `steps` {hint}")
        await self._book.create(plan_id, title, texts)
        self._activate(plan_id)
        return await self._said(f"Plan created successfully with ID: {plan_id}", plan_id)

    async def _update_plan(
        self, plan_id: str | None, title: str | None, steps: Sequence[str] | None
    ) -> PlanningResult:
        plan_id = _needed(plan_id, "plan_id", "update")
        await self._own(plan_id)
        texts = _texts(steps) if steps else None
        if steps and texts is None:
            raise ToolError("Parameter `steps` must be a list of strings for command: update")
        if title or texts:
            await self._book.revise(plan_id, title, texts)
        return await self._said(f"Plan updated successfully: {plan_id}", plan_id)

    async def _list_plans(self) -> PlanningResult:
        plans = await self._book.all()
        self._views.show_all(plans)
        if not plans:
            none = "No plans available. Create a plan with the 'create' command."
            return PlanningResult(output=none)
        active = await self._found()
        rows = "".join(plan_row(plan, active) for plan in plans)
        return PlanningResult(output=f"Available plans:\n{rows}")

    async def _get_plan(self, plan_id: str | None) -> PlanningResult:
        plan = await self._plan(plan_id or await self._current())
        return PlanningResult(output=self._format_plan(dictionary(plan)))

    async def _set_active_plan(self, plan_id: str | None) -> PlanningResult:
        plan_id = _needed(plan_id, "plan_id", "set_active")
        plan = await self._plan(plan_id)
        if plan.own:
            await self._book.make_active(plan_id)
        self._activate(plan_id)
        return await self._said(f"Plan '{plan_id}' is now the active plan.", plan_id)

    async def _mark_step(
        self,
        plan_id: str | None,
        step_index: int | None,
        step_status: str | None,
        step_notes: str | None,
    ) -> PlanningResult:
        plan_id = plan_id or await self._current()
        run_here = plan_id in self._sinks
        plan = await (self._plan(plan_id) if run_here else self._own(plan_id))
        if step_index is None:
            raise ToolError("Parameter `step_index` is required for command: mark_step")
        if step_index not in range(len(plan.steps)):
            hint = f"Valid indices range from 0 to {len(plan.steps) - 1}."
            raise ToolError(f"Invalid step_index: {step_index}. {hint}")
        if step_status and step_status not in PlanStepStatus.get_all_statuses():
            hint = f"Valid statuses are: {', '.join(PlanStepStatus)}"
            raise ToolError(f"Invalid step_status: {step_status}. {hint}")
        if run_here:
            self._sinks[plan_id](step_index, step_status, step_notes or None)
        else:
            await self._book.mark(plan_id, step_index, step_status, step_notes or None)
        return await self._said(f"Step {step_index} updated in plan '{plan_id}'.", plan_id)

    async def _delete_plan(self, plan_id: str | None) -> PlanningResult:
        plan_id = _needed(plan_id, "plan_id", "delete")
        await self._own(plan_id)
        active = await self._found()
        await self._book.remove(plan_id)
        self._activate(None if active == plan_id else active)
        return PlanningResult(output=f"Plan '{plan_id}' has been deleted.")

    def _format_plan(self, plan: PlanDict) -> str:
        return plan_text(Kept.of(str(plan["plan_id"]), plan))

    async def _said(self, what: str, plan_id: str) -> PlanningResult:
        """Returns what was done, and the plan as it is now."""
        shown = self._format_plan(dictionary(await self._plan(plan_id)))
        return PlanningResult(output=f"{what}\n\n{shown}")

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


def _needed(value: str | None, name: str, command: str) -> str:
    if not value:
        raise ToolError(f"Parameter `{name}` is required for command: {command}")
    return value


def _texts(steps: object) -> list[str] | None:
    if not isinstance(steps, (list, tuple)):
        return None
    texts = [step for step in cast("list[object]", steps) if isinstance(step, str)]
    return texts if len(texts) == len(cast("list[object]", steps)) else None
