"""Runs the steps of a planning flow: the engine starts each one, the flow's methods do it."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from plansmith.engine.outcome import named
from plansmith.errors import (
    InputNeeded,
    OutcomeUnknown,
    PlansmithError,
    ToolBusy,
    ToolFailed,
)
from plansmith.formats.dialect import in_order
from plansmith.plan.capability import AgentSpec
from plansmith.plan.data import Json
from plansmith.plan.refs import value_text
from plansmith.plan.run import Run
from plansmith.ports import Call
from plansmith_compat.openmanus.dialect import split_tag
from plansmith_compat.openmanus.schema import AgentState
from plansmith_compat.openmanus.tool import PlanningTool
from plansmith_compat.openmanus.tools import ToolError
from plansmith_planner.context.fence import fence

_CUT_OFF: Final = "Terminated: Reached max steps"
_SAID_NOTHING: Final = "(the agent said nothing)"


class StepFlow(Protocol):
    """The flow that a step belongs to, with the methods that do the step."""

    agents: dict[str, Any]
    active_plan_id: str
    current_step_index: int | None
    planning_tool: PlanningTool

    @property
    def repeatable(self) -> bool: ...
    @property
    def step_timeout_s(self) -> float: ...
    @property
    def steps_now(self) -> StepTable: ...
    def key_of(self, tag: str | None) -> str: ...
    async def run(self) -> Run: ...
    async def stop(self, reason: str, *, finished: bool = False) -> None: ...
    async def choose_step(self) -> tuple[int | None, dict[str, Any] | None, Any]: ...
    async def do_step(self, executor: Any, step_info: dict[str, Any]) -> Any: ...


@dataclass(slots=True)
class RunningStep:
    """A step that the engine has started, while the methods of the flow do it."""

    flow: StepFlow
    index: int
    info: dict[str, Any]
    task: str
    call: Call
    agent_ended: bool = False
    error: Exception | None = None
    marks: list[str] = field(default_factory=list[str])

    def mark(self, status: str | None, notes: str | None) -> None:
        """Takes a mark of this step: the engine writes it when the step ends."""
        if notes:
            self.call.progress(notes)
        if status:
            self.marks.append(status)
        if status == "blocked":
            self.error = ToolFailed(notes or "the step was marked as blocked")


# Set while the flow's methods do a step of the engine; empty when a program calls them itself.
_RUNNING: Final[ContextVar[RunningStep | None]] = ContextVar("running_step", default=None)


def running_step(flow: StepFlow) -> RunningStep | None:
    """Returns the step of this flow that the caller is doing; an agent may have its own flow."""
    step = _RUNNING.get()
    return step if step is not None and step.flow is flow else None


class StepTable:
    """The steps that a flow runs now, by their places; takes their marks."""

    def __init__(self, plan_id: str) -> None:
        self._plan_id = plan_id
        self.running: dict[int, RunningStep] = {}
        self.failures: dict[int, str] = {}

    def mark(self, index: int, status: str | None, notes: str | None) -> None:
        """Takes the mark of a step that runs; others are for the engine to mark."""
        if index not in self.running:
            why = f"Plan '{self._plan_id}' is run by a flow: only its run changes it."
            raise ToolError(why)
        self.running[index].mark(status, notes)


class FlowAgent:
    """An agent of a flow as the engine sees it; the flow's methods choose and call it."""

    def __init__(self, flow: StepFlow, key: str, name: str) -> None:
        about = str(getattr(flow.agents[key], "description", "") or "")
        self.spec = AgentSpec(name=name, description=about)
        self.timeout_s = flow.step_timeout_s
        self._flow = flow
        self._key = key

    async def work(self, task: str, inputs: Mapping[str, Json], call: Call) -> Json:
        """Has the flow do the step; fails if its agent ran out of turns."""
        del inputs
        flow = self._flow
        index, text = await self._place(call)
        step = RunningStep(flow, index, {"text": text, **self._type(text)}, task, call)
        token = _RUNNING.set(step)
        flow.steps_now.running[index] = step
        try:
            return await self._do(step)
        finally:
            flow.steps_now.running.pop(index, None)
            _RUNNING.reset(token)

    async def _do(self, step: RunningStep) -> str:
        flow = self._flow
        try:
            index, info, executor = await flow.choose_step()
        except Exception as error:  # a subclass broke before anything was done
            raise ToolFailed(named(error)) from error
        if index is None or info is None:
            await flow.stop("the flow has no step to do")
            raise ToolBusy("the flow has no step to do")
        if index != step.index:
            hint = "steps run in the order of the plan: change the plan with planning_tool first"
            raise ToolFailed(f"step {index} was chosen, but step {step.index} is next", hint=hint)
        flow.current_step_index = index
        answer = await flow.do_step(executor, info)
        if step.error is not None:
            flow.steps_now.failures[index] = failure_text(step.error)
            raise self._failure(step, step.error)
        said = str(answer) if answer is not None else ""
        last = said.strip().rsplit("\n", 1)[-1]
        if last.startswith(_CUT_OFF):
            raise ToolFailed(f"the agent was cut off: {last}", hint="give it more turns")
        if getattr(executor, "state", None) == AgentState.FINISHED:
            await flow.stop("the agent is finished", finished=True)
        return said if said.strip() else _SAID_NOTHING

    def _failure(self, step: RunningStep, error: Exception) -> Exception:
        """Returns the error for the engine; what may be tried again goes by `ToolBusy`."""
        known = isinstance(error, (InputNeeded, OutcomeUnknown, ToolBusy))
        if known or "blocked" in step.marks:
            return error
        if isinstance(error, ToolFailed):
            return ToolBusy(error.message, hint=error.hint)
        again = self._flow.repeatable and not step.agent_ended
        return ToolBusy(named(error)) if again else error

    async def _place(self, call: Call) -> tuple[int, str]:
        """Returns the place of the step that is called, and its text."""
        run = await self._flow.run()
        name = call.key.removeprefix(f"{run.id}/").split("/", 1)[0]
        kept = await self._flow.planning_tool.refresh(self._flow.active_plan_id)
        index = places(run).index(name)
        return index, kept.steps[index] if kept else ""

    def _type(self, text: str) -> dict[str, str]:
        """Returns the kind of a step: its tag, else the agent that the plan names."""
        tag = split_tag(text)[0].lower()
        if self._flow.key_of(tag) != self._key:
            return {"type": self._key}
        return {"type": tag} if tag else {}


def places(run: Run) -> list[str]:
    """Returns the ids of a run's steps in the order in which the tool shows them."""
    return [step.id for step in in_order(run.plan) if not step.disabled] if run.plan else []


def more_about(step: RunningStep) -> str:
    """Returns what an agent is told of a step beyond its text: the whole of it, an answer."""
    parts: list[str] = []
    if step.task not in (step.info["text"], split_tag(step.info["text"])[1]):
        parts.append(f"The step in full:\n{fence('the step', step.task)}")
    if failure := step.flow.steps_now.failures.get(step.index):
        told = "This step was tried before and failed. Do not repeat what it already did:"
        parts.append(f"{told}\n{fence('the error', failure)}")
    if step.call.reply:
        answer = fence("the person's answer", value_text(step.call.reply.answer))
        parts.append(f"You asked the person a question in this step:\n{answer}")
    return "".join(f"\n\n{each}" for each in parts)


def failure_text(error: BaseException) -> str:
    """Returns what an agent's error says, for the text that a step returns."""
    return error.message if isinstance(error, PlansmithError) else str(error)
