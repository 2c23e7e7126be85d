"""Call: one call of a tool, an agent or the composer, and what is known for certain afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, Protocol, cast

import jsonschema_rs

from plansmith.errors import InputNeeded, OutcomeUnknown, PlansmithError, ToolBusy, ToolFailed
from plansmith.plan.capability import Effect, ToolSpec
from plansmith.plan.data import Json, flaws
from plansmith.plan.sentence import Sentence
from plansmith.plan.steps import LONGEST_TIMEOUT_S, AgentStep, ReplyStep, ReplyStyle, ToolStep
from plansmith.planner.checking.names import DROPPED
from plansmith.planner.checking.schemas import BadSchema, validator
from plansmith.ports import Agent, Call, Clock, Secrets, ToolSource
from plansmith.runner.sealing import sealed_call, sealed_need, unsealed
from plansmith.runner.units import Unit, cited

MakeComposer = Callable[[str, Call, Mapping[str, Json], ReplyStyle], Awaitable[str]]
DEFAULT_TIMEOUT: Final = 300.0
LONGEST_ERROR: Final = 10_000


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
    """Nobody knows whether the effect happened; `again` when its key makes another try harmless."""

    reason: str
    again: bool = False
    kind: Literal["tool", "time", "reference", "result"] = "tool"


@dataclass(frozen=True, slots=True)
class Asks:
    """The call cannot go on without the person's word."""

    need: InputNeeded


Outcome = Done | Failed | Unsure | Asks


class Early(Protocol):
    """Calls that were made before their plan stood, and that steps may take."""

    def promise(self, unit: Unit, inputs: Mapping[str, Json]) -> str:
        """The key of the call that a unit will take instead of making its own, or nothing."""
        ...

    def take(self, unit: Unit, call: Call) -> Awaitable[Outcome] | None:
        """The call that was promised to a unit, once."""
        ...


@dataclass(frozen=True, slots=True)
class Callees:
    """What can be called, by name."""

    clock: Clock
    tools: Mapping[str, ToolSource] = field(default_factory=dict[str, ToolSource])
    specs: Mapping[str, ToolSpec] = field(default_factory=dict[str, ToolSpec])
    agents: Mapping[str, Agent] = field(default_factory=dict[str, Agent])
    compose: MakeComposer | None = None
    early: Early | None = None
    secrets: Secrets | None = None
    _validators: dict[str, jsonschema_rs.Validator] = field(
        default_factory=dict[str, jsonschema_rs.Validator], repr=False
    )

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

    def prefetched(self, unit: Unit, inputs: Mapping[str, Json]) -> str:
        """The key of an early read that the unit takes, or nothing: then it calls for itself."""
        return self.early.promise(unit, inputs) if self.early else ""

    def timeout(self, unit: Unit) -> float:
        """The time a call may take."""
        spec = self.specs.get(unit.callee)
        own = spec.timeout_s if spec is not None else None
        return min(unit.step.timeout_s or own or DEFAULT_TIMEOUT, LONGEST_TIMEOUT_S)

    async def call(
        self,
        unit: Unit,
        inputs: dict[str, Json],
        call: Call,
        results: Mapping[str, Json] | None = None,
    ) -> Outcome:
        """Make the call. Whatever happens is an outcome; only cancellation is raised.

        `results` are there for inputs with secrets, which are filled anew.
        """
        begun = self.early.take(unit, call) if self.early else None
        if begun is not None:
            return await begun
        if self.secrets is None:
            return await self._try(unit, inputs, call, results or {})
        try:
            private = unsealed(unit, inputs, self.secrets, results or {})
        except PlansmithError as error:
            return Failed(str(error))
        outcome = await self._try(unit, private, sealed_call(call, self.secrets), results or {})
        return _sealed(outcome, self.secrets)

    async def _try(
        self, unit: Unit, inputs: dict[str, Json], call: Call, results: Mapping[str, Json]
    ) -> Outcome:
        seconds = self.timeout(unit)
        try:
            async with asyncio.timeout(seconds):
                value = await self._make(unit, inputs, call, results)
        except TimeoutError:
            return self.lost(unit, Sentence("step.timeout", seconds=f"{seconds:g}"), kind="time")
        except OutcomeUnknown as lost:
            return self.lost(unit, said(lost))
        except InputNeeded as need:
            return _asks(need)
        except ToolBusy as busy:
            return Failed(said(busy), again=True)
        except ToolFailed as failed:
            return Failed(said(failed))
        except (asyncio.CancelledError, KeyboardInterrupt):
            raise
        except BaseException as error:  # noqa: BLE001 - whatever a tool raises is its own
            return self._broken(unit, named(error))
        flaw = self._flaw(unit, value)
        return self._broken(unit, flaw, kind="result") if flaw else Done(value)

    def _broken(self, unit: Unit, why: str, *, kind: Literal["tool", "result"] = "tool") -> Outcome:
        """A call that went wrong without a word on its effect: a read has failed, that is all."""
        return Failed(why, kind=kind) if self.is_read(unit) else self.lost(unit, why, kind=kind)

    def lost(
        self, unit: Unit, why: str, *, kind: Literal["tool", "time", "result"] = "tool"
    ) -> Outcome:
        """A call of which nobody knows the end: made again where that does no harm, else asked."""
        if self.is_read(unit):
            return Failed(why, again=True, kind=kind)
        return Unsure(why, again=self.is_repeatable(unit), kind=kind)

    async def _make(
        self, unit: Unit, inputs: dict[str, Json], call: Call, results: Mapping[str, Json]
    ) -> Json:
        match unit.step:
            case ToolStep(tool=name):
                if name not in self.tools:
                    hint = DROPPED.get(name, "")
                    raise ToolFailed(Sentence("step.no_tool", name=name), hint=hint)
                return await self.tools[name].call(name, inputs, call)
            case AgentStep(agent=name):
                if name not in self.agents:
                    raise ToolFailed(Sentence("step.no_agent", name=name))
                more = cast("dict[str, Json]", inputs["inputs"])
                return await self.agents[name].work(str(inputs["task"]), more, call)
            case ReplyStep():
                style = unit.step.style
                if self.compose is None or style == "exact":
                    return str(inputs["instruction"])
                return await self.compose(unit.step.instruction, call, cited(unit, results), style)
            case _:
                raise ToolFailed(f"a {unit.step.kind} step is not called")

    def _flaw(self, unit: Unit, value: Json) -> str:
        """Why a result does not count as one, or nothing."""
        broken = next(flaws(value), None)
        if broken is not None:
            return Sentence("step.not_json", reason=broken.message)
        if not isinstance(unit.step, ToolStep):
            empty = value is None or (isinstance(value, str) and not value.strip())
            return Sentence("step.empty_result") if empty else ""
        spec = self.specs.get(unit.step.tool)
        if spec is None or spec.output_schema is None:
            return ""
        try:
            self._validator(spec.name, spec.output_schema).validate(value)
        except jsonschema_rs.ValidationError as error:
            return Sentence("step.schema_misfit", reason=error.message)
        except ValueError:
            return ""
        return ""

    def _validator(self, tool: str, schema: Mapping[str, Json]) -> jsonschema_rs.Validator:
        """The tool's schema, made ready once and not for every call."""
        if tool not in self._validators:
            self._validators[tool] = validator(schema)
        return self._validators[tool]


def said(error: BaseException) -> str:
    """The words of an error as text that can be kept: a tool's own may be none, or endless."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - also its words are its own
        return Sentence("step.cannot_say")
    return kept_text(text)


def named(error: BaseException) -> str:
    """The words of an error, with its name where it is none of ours."""
    is_ours = isinstance(error, PlansmithError)
    return said(error) if is_ours else f"{type(error).__name__}: {said(error)}"


def kept_text(text: object) -> str:
    """A tool's words as text that a journal can hold."""
    if isinstance(text, Sentence):
        return text
    words = str(text).encode("utf-8", "backslashreplace").decode()
    return words if len(words) <= LONGEST_ERROR else f"{words[:LONGEST_ERROR]}…"


def _asks(need: InputNeeded) -> Outcome:
    """A question; one whose answer could never be checked would never be settled."""
    # Whatever a tool has put there: it is not held to the types.
    words: list[Any] = [need.message, need.link, *need.options]
    flaw = next(flaws([need.state, need.schema, *words]), None)
    if flaw is not None or not all(isinstance(each, str) for each in words):
        why = flaw.message if flaw is not None else Sentence("step.question_not_text")
        return Failed(Sentence("step.bad_question", reason=why))
    try:
        validator(need.schema or {})
    except BadSchema as error:
        return Failed(Sentence("step.bad_question_schema", reason=str(error)))
    return Asks(need)


def _hidden(text: str, secrets: Secrets) -> str:
    """A text without any secret; a sentence of ours stays one where it holds none."""
    hidden = str(secrets.hide(text))
    return text if hidden == text else hidden


def _sealed(outcome: Outcome, secrets: Secrets) -> Outcome:
    """What came of a call, without any secret."""
    match outcome:
        case Done(value):
            return Done(secrets.hide(value))
        case Failed(error):
            return replace(outcome, error=_hidden(error, secrets))
        case Unsure(reason):
            return replace(outcome, reason=_hidden(reason, secrets))
        case Asks(need):
            return Asks(sealed_need(need, secrets))
