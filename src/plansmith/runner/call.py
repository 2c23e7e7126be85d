"""Call: one call of a tool, an agent or the composer, and what is known for certain afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, cast

import jsonschema_rs

from plansmith.errors import InputNeeded, PlansmithError, ToolBusy, ToolFailed
from plansmith.plan.capability import Effect, ToolSpec
from plansmith.plan.data import Json, flaws
from plansmith.plan.steps import AgentStep, ReplyStep, ToolStep
from plansmith.ports import Agent, Call, Clock, ToolSource
from plansmith.runner.early import EarlyReads
from plansmith.runner.units import Unit

MakeComposer = Callable[[str, Call], Awaitable[str]]
DEFAULT_TIMEOUT: Final = 300.0


@dataclass(frozen=True, slots=True)
class Done:
    """The call gave a result."""

    value: Json


@dataclass(frozen=True, slots=True)
class Failed:
    """The call gave none, for certain; `again` when another try may help."""

    error: str
    again: bool = False
    kind: Literal["tool", "time", "reference", "result"] = "tool"


@dataclass(frozen=True, slots=True)
class Unsure:
    """Nobody knows whether the effect happened."""

    reason: str


@dataclass(frozen=True, slots=True)
class Asks:
    """The call cannot go on without the person's word."""

    need: InputNeeded


Outcome = Done | Failed | Unsure | Asks


@dataclass(frozen=True, slots=True)
class Callees:
    """What can be called, by name."""

    clock: Clock
    tools: Mapping[str, ToolSource] = field(default_factory=dict[str, ToolSource])
    specs: Mapping[str, ToolSpec] = field(default_factory=dict[str, ToolSpec])
    agents: Mapping[str, Agent] = field(default_factory=dict[str, Agent])
    compose: MakeComposer | None = None
    early: EarlyReads | None = None

    def is_repeatable(self, unit: Unit) -> bool:
        """Whether a call may be made again when nobody knows how the first one ended."""
        match unit.step:
            case ToolStep():
                spec = self.specs.get(unit.step.tool)
                return spec is not None and (spec.effect is Effect.READ or spec.idempotent)
            case AgentStep():
                agent = self.agents.get(unit.step.agent)
                return agent is not None and agent.spec.effect is Effect.READ
            case _:
                return True

    def is_read(self, unit: Unit) -> bool:
        """Whether a call changes nothing; what nobody knows counts as changing something."""
        match unit.step:
            case ToolStep():
                spec = self.specs.get(unit.step.tool)
                return spec is not None and spec.effect is Effect.READ
            case AgentStep():
                agent = self.agents.get(unit.step.agent)
                return agent is not None and agent.spec.effect is Effect.READ
            case _:
                return True

    def timeout(self, unit: Unit) -> float:
        """The time a call may take."""
        spec = self.specs.get(unit.callee)
        own = spec.timeout_s if spec is not None else None
        return unit.step.timeout_s or own or DEFAULT_TIMEOUT

    async def call(self, unit: Unit, inputs: dict[str, Json], call: Call) -> Outcome:
        """Make the call. Whatever happens is an outcome; only cancellation is raised."""
        seconds = self.timeout(unit)
        try:
            async with asyncio.timeout(seconds):
                value = await self._make(unit, inputs, call)
        except TimeoutError:
            late = f"no result after {seconds:g} s"
            return (
                Failed(late, again=True, kind="time") if self.is_repeatable(unit) else Unsure(late)
            )
        except InputNeeded as need:
            return Asks(need)
        except ToolBusy as busy:
            return Failed(str(busy), again=True)
        except PlansmithError as error:
            return Failed(str(error))
        except Exception as error:  # noqa: BLE001 - whatever a tool raises is its failure, not ours
            return Failed(f"{type(error).__name__}: {error}")
        flaw = self._flaw(unit, value)
        return Failed(flaw, kind="result") if flaw else Done(value)

    async def _make(self, unit: Unit, inputs: dict[str, Json], call: Call) -> Json:
        match unit.step:
            case ToolStep(tool=name):
                if name not in self.tools:
                    raise ToolFailed(f"there is no tool called {name!r}")
                begun = self.early.take(name, inputs, call) if self.early else None
                return await (begun or self.tools[name].call(name, inputs, call))
            case AgentStep(agent=name):
                if name not in self.agents:
                    raise ToolFailed(f"there is no agent called {name!r}")
                more = cast("dict[str, Json]", inputs["inputs"])
                return await self.agents[name].work(str(inputs["task"]), more, call)
            case ReplyStep():
                text = str(inputs["instruction"])
                return await self.compose(text, call) if self.compose else text
            case _:
                raise ToolFailed(f"a {unit.step.kind} step is not called")

    def _flaw(self, unit: Unit, value: Json) -> str:
        """Why a result does not count as one, or nothing."""
        broken = next(flaws(value), None)
        if broken is not None:
            return f"the result is not JSON: {broken.message}"
        if not isinstance(unit.step, ToolStep):
            empty = value is None or (isinstance(value, str) and not value.strip())
            return "the result is empty" if empty else ""
        spec = self.specs.get(unit.step.tool)
        if spec is None or spec.output_schema is None:
            return ""
        try:
            jsonschema_rs.validate(spec.output_schema, value)
        except jsonschema_rs.ValidationError as error:
            return f"the result does not fit the tool's own schema: {error.message}"
        except ValueError:
            return ""
        return ""
