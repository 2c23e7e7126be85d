"""OpenManus' planning tool: seven commands with its exact texts, and stored plans."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any, Final, cast

from pydantic import Field, PrivateAttr

from plansmith.arguments import store_of
from plansmith.clock import SystemClock
from plansmith.errors import StaleWriter
from plansmith.plan.events import Actor
from plansmith.ports import Clock, JournalStore
from plansmith.store.memory import MemoryStore
from plansmith.store.urls import open_store
from plansmith_compat.calling import await_value, in_own_loop
from plansmith_compat.openmanus import book
from plansmith_compat.openmanus.book import PlanBook, PlanDict, PlanStepStatus, StoredPlan
from plansmith_compat.openmanus.schema import BaseTool, ToolError, ToolResult

_TRIES: Final = 5
_STATUSES: Final = PlanStepStatus.get_all_statuses()
# What does each command, with which parameters; a subclass may override the methods.
_COMMANDS: Final = {
    "create": ("_create_plan", "plan_id", "title", "steps"),
    "update": ("_update_plan", "plan_id", "title", "steps"),
    "list": ("_list_plans",),
    "get": ("_get_plan", "plan_id"),
    "set_active": ("_set_active_plan", "plan_id"),
    "mark_step": ("_mark_step", "plan_id", "step_index", "step_status", "step_notes"),
    "delete": ("_delete_plan", "plan_id"),
}


_PARAMETERS: Final[dict[str, Any]] = json.loads(
    Path(__file__).with_name("planning.json").read_text(encoding="utf-8")
)
_PROPERTIES: Final[dict[str, Any]] = _PARAMETERS["properties"]
# Takes the marks of a plan while a flow runs it.
MarkSink = Callable[[int, str | None, str | None], None]


class PlanningResult(ToolResult):
    """The text that a command gives."""

    output: str = ""


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
    parameters: dict[str, Any] | None = Field(default_factory=lambda: deepcopy(_PARAMETERS))

    _book: PlanBook = PrivateAttr()
    _raises: bool = PrivateAttr(default=False)
    _url: str = PrivateAttr(default="")
    _active: str | None = PrivateAttr(default=None)
    _has_looked: bool = PrivateAttr(default=False)
    _is_activation_unsaved: bool = PrivateAttr(default=False)
    # One table a plan, always the same object, so that a program may hold on to it and write into
    # it; and the plans as they were when they were last shown.
    _plans: dict[str, PlanDict] = PrivateAttr(default_factory=dict[str, PlanDict])
    _known: dict[str, StoredPlan] = PrivateAttr(default_factory=dict[str, StoredPlan])
    _sinks: dict[str, MarkSink] = PrivateAttr(default_factory=dict[str, MarkSink])

    def __init__(
        self,
        *,
        store: str | JournalStore = "memory",
        clock: Clock | None = None,
        by: Actor = book.AGENT,
        raises: bool = False,
        **fields: Any,
    ) -> None:
        super().__init__(**fields)
        self._book = PlanBook(store_of(store), clock or SystemClock(), by=by)
        self._raises = raises
        self._url = store if isinstance(store, str) and store != "memory" else ""

    @property
    def book(self) -> PlanBook:
        return self._book

    @property
    def plans(self) -> dict[str, PlanDict]:
        """The plans by id; what a program writes into them is stored with the next command.

        As of now if the store is in memory, else as of the last command.
        """
        same = self._plans.keys() == self._known.keys()
        if same and not any(map(self._differs, self._plans)):
            self._look()
        return self._plans

    @property
    def _current_plan_id(self) -> str | None:
        if not self._has_looked:
            self._look()
        return self._active

    @_current_plan_id.setter
    def _current_plan_id(self, plan_id: str | None) -> None:
        self._activate(plan_id)
        self._is_activation_unsaved = plan_id is not None

    def _look(self) -> None:
        """Reads the plans in a thread of its own, for code that cannot wait for the store."""
        if not isinstance(self._book.store, MemoryStore) and (
            not self._url or self._has_looked or self._plans
        ):
            return

        async def read() -> tuple[list[StoredPlan], str | None]:
            # The thread of this code waits meanwhile, so that nobody else uses a store in memory.
            store = open_store(self._url) if self._url else self._book.store
            book = PlanBook(store, SystemClock())
            try:
                return await book.all(), await book.active()
            finally:
                if self._url:
                    await store.close()

        plans, active = in_own_loop(read())
        self._show_all(plans)
        if not self._has_looked:
            self._activate(active)

    def _show(self, stored: StoredPlan) -> None:
        self._known[stored.plan_id] = stored
        self._plans.setdefault(stored.plan_id, {}).update(deepcopy(stored.plan))

    def _show_all(self, plans: Sequence[StoredPlan]) -> None:
        for plan_id in self._plans.keys() - {each.plan_id for each in plans}:
            self._forget(plan_id)
        for each in plans:
            self._show(each)

    def _forget(self, plan_id: str) -> None:
        self._known.pop(plan_id, None)
        self._plans.pop(plan_id, None)

    def _differs(self, plan_id: str) -> bool:
        plan, known = self._plans[plan_id], self._known.get(plan_id)
        return known is None or any(plan.get(name) != each for name, each in known.plan.items())

    async def execute(self, *, command: str = "", **given: Any) -> PlanningResult:
        try:
            _check(command, given)
            await self.save()
            done = await self._with_retry(command, given)
            await self.refresh(given.get("plan_id") or self._active)
        except ToolError as error:
            if self._raises:
                raise
            return PlanningResult(error=error.message)
        return done

    async def save(self) -> None:
        """Stores what a program has written into `plans` since the last command."""
        for plan_id in self._known.keys() - self._plans.keys():
            _require_own(self._known[plan_id])
            await self._book.remove(plan_id)
            self._forget(plan_id)
        for plan_id in [each for each in self._plans if self._differs(each)]:
            await self._write(plan_id)
            await self.refresh(plan_id)
        if self._is_activation_unsaved and self._active in self._plans:
            await self._book.make_active(str(self._active))
        self._is_activation_unsaved = False

    async def _write(self, plan_id: str) -> None:
        steps, before = self._plans[plan_id].get("steps"), self._known.get(plan_id)
        if _texts(steps) is None or not isinstance(steps, list):
            raise ToolError(f"plans[{plan_id!r}]['steps'] must be a list of strings")
        want = book.whole(plan_id, self._plans[plan_id])
        unknown = [each for each in want["step_statuses"] if each not in _STATUSES]
        if unknown:
            message = f"plans[{plan_id!r}]['step_statuses'] has an unknown status: {unknown[0]}"
            raise ToolError(message)
        if before is None:
            await self._book.create(plan_id, want["title"], want["steps"])
        else:
            _require_own(before)
            await self._book.revise(plan_id, want["title"], want["steps"])
        now = (await self._plan(plan_id)).plan
        for index in range(len(want["steps"])):
            status, note = want["step_statuses"][index], want["step_notes"][index]
            if (status, note) != (now["step_statuses"][index], now["step_notes"][index]):
                await self._book.mark(plan_id, index, status, note)

    async def refresh(self, plan_id: str | None) -> StoredPlan | None:
        """Brings the table of a plan up to date, and returns the plan."""
        found = await self._book.find(plan_id) if plan_id else None
        if found is not None:
            self._show(found)
        elif plan_id:
            self._forget(plan_id)
        return found

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
        await self._book.store.close()

    async def _with_retry(self, command: str, given: Mapping[str, Any]) -> PlanningResult:
        """Does a command; again if another process changed the same plan first."""
        method, *names = _COMMANDS[command]
        tries = 0
        while True:
            try:
                # An override may be a plain function, as all of them are in OpenManus.
                made = getattr(self, method)(*(given.get(name) for name in names))
                return cast("PlanningResult", await await_value(made))
            except StaleWriter:
                tries += 1
                if tries == _TRIES:
                    raise

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
        return await self._with_plan(f"Plan created successfully with ID: {plan_id}", plan_id)

    async def _update_plan(
        self, plan_id: str | None, title: str | None, steps: Sequence[str] | None
    ) -> PlanningResult:
        plan_id = _needed(plan_id, "plan_id", "update")
        _require_own(await self._plan(plan_id))
        texts = _texts(steps) if steps else None
        if steps and texts is None:
            raise ToolError("Parameter `steps` must be a list of strings for command: update")
        if title or texts:
            await self._book.revise(plan_id, title, texts)
        return await self._with_plan(f"Plan updated successfully: {plan_id}", plan_id)

    async def _list_plans(self) -> PlanningResult:
        plans = await self._book.all()
        self._show_all(plans)
        if not plans:
            none = "No plans available. Create a plan with the 'create' command."
            return PlanningResult(output=none)
        active, rows = await self._active_plan_id(), "Available plans:\n"
        for each in plans:
            mark = " (active)" if each.plan_id == active else ""
            rows += f"• {each.plan_id}{mark}: {each.plan['title']} - {book.progress(each.plan)}\n"
        return PlanningResult(output=rows)

    async def _get_plan(self, plan_id: str | None) -> PlanningResult:
        stored = await self._plan(plan_id or await self._current())
        return PlanningResult(output=self._format_plan(stored.plan))

    async def _set_active_plan(self, plan_id: str | None) -> PlanningResult:
        plan_id = _needed(plan_id, "plan_id", "set_active")
        if (await self._plan(plan_id)).own:
            await self._book.make_active(plan_id)
        self._activate(plan_id)
        return await self._with_plan(f"Plan '{plan_id}' is now the active plan.", plan_id)

    async def _mark_step(
        self,
        plan_id: str | None,
        step_index: int | None,
        step_status: str | None,
        step_notes: str | None,
    ) -> PlanningResult:
        plan_id = plan_id or await self._current()
        stored, sink = await self._plan(plan_id), self._sinks.get(plan_id)
        if sink is None:
            _require_own(stored)
        if step_index is None:
            raise ToolError("Parameter `step_index` is required for command: mark_step")
        count = len(stored.plan["steps"])
        if step_index not in range(count):
            hint = f"Valid indices range from 0 to {count - 1}."
            raise ToolError(f"Invalid step_index: {step_index}. {hint}")
        if step_status and step_status not in _STATUSES:
            hint = f"Valid statuses are: {', '.join(PlanStepStatus)}"
            raise ToolError(f"Invalid step_status: {step_status}. {hint}")
        if sink is not None:
            sink(step_index, step_status, step_notes or None)
        else:
            await self._book.mark(plan_id, step_index, step_status, step_notes or None)
        return await self._with_plan(f"Step {step_index} updated in plan '{plan_id}'.", plan_id)

    async def _delete_plan(self, plan_id: str | None) -> PlanningResult:
        plan_id = _needed(plan_id, "plan_id", "delete")
        _require_own(await self._plan(plan_id))
        active = await self._active_plan_id()
        await self._book.remove(plan_id)
        self._activate(None if active == plan_id else active)
        return PlanningResult(output=f"Plan '{plan_id}' has been deleted.")

    def _format_plan(self, plan: PlanDict) -> str:
        return book.plan_text(book.whole(str(plan["plan_id"]), plan))

    async def _with_plan(self, what: str, plan_id: str) -> PlanningResult:
        plan = self._format_plan((await self._plan(plan_id)).plan)
        return PlanningResult(output=f"{what}\n\n{plan}")

    def _activate(self, plan_id: str | None) -> None:
        self._active, self._has_looked = plan_id, True

    async def _active_plan_id(self) -> str | None:
        """Returns the active plan; the first time from the store."""
        if not self._has_looked:
            self._activate(await self._book.active())
        return self._active

    async def _current(self) -> str:
        active = await self._active_plan_id()
        if active is None:
            raise ToolError("No active plan. Please specify a plan_id or set an active plan.")
        return active

    async def _plan(self, plan_id: str) -> StoredPlan:
        found = await self._book.find(plan_id)
        if found is None:
            raise ToolError(f"No plan found with ID: {plan_id}")
        return found


def _check(command: str, given: Mapping[str, Any]) -> None:
    if command not in _COMMANDS:
        allowed = f"Allowed commands are: {', '.join(_COMMANDS)}"
        raise ToolError(f"Unrecognized command: {command}. {allowed}")
    for name in sorted(given.keys() - _PROPERTIES.keys()):
        known = ", ".join(sorted(_PROPERTIES.keys() - {"command"}))
        raise ToolError(f"Unrecognized parameter: {name}. Allowed parameters are: {known}")
    for name, value in given.items():
        if _PROPERTIES[name]["type"] == "string" and not isinstance(value, str | None):
            raise ToolError(f"Parameter `{name}` must be a string for command: {command}")


def _require_own(stored: StoredPlan) -> None:
    if not stored.own:
        raise ToolError(f"Plan '{stored.plan_id}' is run by a flow: only its run changes it.")


def _needed(value: str | None, name: str, command: str) -> str:
    if not value:
        raise ToolError(f"Parameter `{name}` is required for command: {command}")
    return value


def _texts(steps: object) -> list[str] | None:
    listed = cast("Sequence[object]", steps) if isinstance(steps, (list, tuple)) else None
    if listed is None or not all(isinstance(step, str) for step in listed):
        return None
    return cast("list[str]", [*listed])
