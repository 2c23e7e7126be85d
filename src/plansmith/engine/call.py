"""Calls a tool or an agent once, with secrets put in and out; says what is certain afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, Protocol, cast

import jsonschema_rs

from plansmith.engine.units import Unit, cited, resolved
from plansmith.errors import InputNeeded, OutcomeUnknown, PlansmithError, ToolBusy, ToolFailed
from plansmith.plan.capability import Effect, ToolSpec
from plansmith.plan.data import Json, flaws
from plansmith.plan.plan import Plan
from plansmith.plan.problem import Problem, problem
from plansmith.plan.refs import put_secrets, secret_names
from plansmith.plan.sentence import Sentence
from plansmith.plan.steps import (
    LONGEST_TIMEOUT_S,
    AgentStep,
    MapStep,
    ReplyStep,
    ReplyStyle,
    StepFields,
    ToolStep,
)
from plansmith.planner.check.names import DROPPED
from plansmith.planner.check.schemas import BadSchema, validator
from plansmith.ports import Advice, Agent, Call, Clock, Secrets, ToolSource, Usage


def unsealed(
    unit: Unit, inputs: dict[str, Json], secrets: Secrets | None, results: Mapping[str, Json]
) -> dict[str, Json]:
    """The inputs with the values of the secrets that the plan itself names."""
    step = unit.step
    if not isinstance(step, ToolStep) or secrets is None:
        return inputs
    values = {name: secrets.reveal(name, step.tool) for name in secret_names(step.inputs)}
    if not values:
        return inputs
    filled = cast("dict[str, Json]", put_secrets(step.inputs, values))
    return resolved(replace(unit, step=step.replace(inputs=filled)), results)


def sealed_call(call: Call, secrets: Secrets) -> Call:
    """A call whose words carry no secret."""

    def text(said: str) -> str:
        return cast("str", secrets.hide(said))

    def progress(said: str) -> None:
        call.progress(text(said))

    def advise(advice: Advice, reason: str) -> None:
        call.advise(advice, text(reason))

    def spend(usage: Usage) -> None:
        call.spend(usage)

    return replace(call, progress=progress, advise=advise, spend=spend)


def sealed_need(need: InputNeeded, secrets: Secrets) -> InputNeeded:
    """A question without any secret in it."""
    return InputNeeded(
        cast("str", secrets.hide(need.message)),
        schema=cast("dict[str, Any] | None", secrets.hide(cast("Json", need.schema))),
        options=[cast("str", secrets.hide(each)) for each in need.options],
        state=secrets.hide(need.state),
        link=cast("str", secrets.hide(need.link)),
    )


def secret_problems(plan: Plan, secrets: Secrets | None) -> Iterator[Problem]:
    """Secrets that are unknown, or named where they would end up in words."""
    for step in plan.steps:
        inner: StepFields = step.each if isinstance(step, MapStep) else step
        for name in secret_names(step.to_json()):
            if isinstance(inner, ToolStep) and name in secret_names(inner.inputs):
                flaw = (
                    secrets.flaw(name, inner.tool)
                    if secrets
                    else Sentence("ps.no_secret", name=name)
                )
            else:
                flaw = Sentence("ps.secret_shown", name=name)
            if flaw:
                hint = Sentence("hint.set_secret", name=name)
                yield problem("PS501", flaw, hint=hint, step=step.id, path=("inputs",))


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


class Prefetched(Protocol):
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
    early: Prefetched | None = None
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
