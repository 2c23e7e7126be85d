"""Calls a tool or an agent once; puts secrets in, hides them in results, names the outcome."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, NamedTuple, Protocol, cast

import jsonschema_rs

from plansmith.engine.units import Unit, cited, resolved
from plansmith.errors import InputNeeded, OutcomeUnknown, PlansmithError, ToolBusy, ToolFailed
from plansmith.plan.capability import Effect, ToolSpec
from plansmith.plan.data import Json, flaws
from plansmith.plan.plan import Plan
from plansmith.plan.problem import Problem, problem
from plansmith.plan.refs import SECRET_MARK, put_secrets, secret_names
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
from plansmith.ports import Advice, Agent, Call, Clock, Secrets, ToolSource


def with_secrets(
    unit: Unit, inputs: dict[str, Json], secrets: Secrets | None, results: Mapping[str, Json]
) -> dict[str, Json]:
    """Returns the inputs with the values of the secrets that the plan names."""
    step = unit.step
    if not isinstance(step, ToolStep) or secrets is None:
        return inputs
    values = {name: secrets.reveal(name, step.tool) for name in secret_names(step.inputs)}
    if not values:
        return inputs
    filled = cast("dict[str, Json]", put_secrets(step.inputs, values))
    return resolved(replace(unit, step=step.replace(inputs=filled)), results)


def hiding_call(call: Call, secrets: Secrets) -> Call:
    """Returns a call that hides secrets in its progress and advice."""

    def progress(text: str) -> None:
        call.progress(cast("str", secrets.hide(text)))

    def advise(advice: Advice, reason: str) -> None:
        call.advise(advice, cast("str", secrets.hide(reason)))

    return replace(call, progress=progress, advise=advise)


def hiding_question(need: InputNeeded, secrets: Secrets) -> InputNeeded:
    """Returns a call's question with its secrets hidden."""
    return InputNeeded(
        cast("str", secrets.hide(need.message)),
        schema=cast("dict[str, Any] | None", secrets.hide(cast("Json", need.schema))),
        options=[cast("str", secrets.hide(each)) for each in need.options],
        state=secrets.hide(need.state),
        link=cast("str", secrets.hide(need.link)),
    )


class SecretUse(NamedTuple):
    """A secret that a step names; `tool` is empty if it is used outside of a tool's inputs."""

    step: str
    name: str
    tool: str


def secret_uses(plan: Plan) -> tuple[SecretUse, ...]:
    """Returns the secrets that a plan names."""
    content = plan.content
    if content is not None and SECRET_MARK not in content:
        return ()
    uses: list[SecretUse] = []
    for step in plan.steps:
        inner: StepFields = step.each if isinstance(step, MapStep) else step
        given = secret_names(inner.inputs) if isinstance(inner, ToolStep) else []
        for name in secret_names(step.to_json()):
            tool = inner.tool if isinstance(inner, ToolStep) and name in given else ""
            uses.append(SecretUse(step.id, name, tool))
    return tuple(uses)


def secret_problems(uses: Iterable[SecretUse], secrets: Secrets | None) -> Iterator[Problem]:
    """Yields a problem for each secret that is unknown or used outside of a tool's inputs."""
    for step, name, tool in uses:
        if not tool:
            flaw: str = Sentence("ps.secret_shown", name=name)
        else:
            flaw = secrets.flaw(name, tool) if secrets else Sentence("ps.no_secret", name=name)
        if flaw:
            hint = Sentence("hint.set_secret", name=name)
            yield problem("PS501", flaw, hint=hint, step=step, path=("inputs",))


MakeComposer = Callable[[str, Call, Mapping[str, Json], ReplyStyle], Awaitable[str]]
DEFAULT_TIMEOUT: Final = 300.0
LONGEST_ERROR: Final = 10_000


@dataclass(frozen=True, slots=True)
class Done:
    """The call gave a result."""

    value: Json


@dataclass(frozen=True, slots=True)
class Failed:
    """The call gave no result and changed nothing; `again` if another try may help."""

    error: str
    again: bool = False
    kind: Literal["tool", "time", "reference", "result"] = "tool"


@dataclass(frozen=True, slots=True)
class Unsure:
    """The call may have taken effect; `again` if its key makes another try harmless."""

    reason: str
    again: bool = False
    kind: Literal["tool", "time", "reference", "result"] = "tool"


@dataclass(frozen=True, slots=True)
class Asks:
    """The call needs an answer from a person."""

    need: InputNeeded


Outcome = Done | Failed | Unsure | Asks


class Prefetched(Protocol):
    """Reads that were started before the plan was complete, for steps to use."""

    def promise(self, unit: Unit, inputs: Mapping[str, Json]) -> str:
        """Returns the key of the early call that a unit will use; empty if there is none."""
        ...

    def take(self, unit: Unit, call: Call) -> Awaitable[Outcome] | None:
        """Returns the call that was promised to a unit, once."""
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
        """Tells whether a call may be repeated when nobody knows how the first one ended."""
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
        """Tells whether a call changes nothing; an unknown tool or agent may change something."""
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
        """Returns the key of the early read that the unit will use; empty if there is none."""
        return self.early.promise(unit, inputs) if self.early else ""

    def timeout(self, unit: Unit) -> float:
        """Returns the time limit of a call in seconds."""
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
        """Makes the call. Every failure is an outcome; only cancellation is raised.

        `results` are needed to fill inputs with secrets again.
        """
        begun = self.early.take(unit, call) if self.early else None
        if begun is not None:
            return await begun
        if self.secrets is None:
            return await self._try(unit, inputs, call, results or {})
        try:
            private = with_secrets(unit, inputs, self.secrets, results or {})
        except PlansmithError as error:
            return Failed(str(error))
        outcome = await self._try(unit, private, hiding_call(call, self.secrets), results or {})
        return _hide_secrets(outcome, self.secrets)

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
            return self.lost(unit, error_text(lost))
        except InputNeeded as need:
            return _asks(need)
        except ToolBusy as busy:
            return Failed(error_text(busy), again=True)
        except ToolFailed as failed:
            return Failed(error_text(failed))
        except (asyncio.CancelledError, KeyboardInterrupt):
            raise
        except BaseException as error:  # noqa: BLE001 - whatever a tool raises is its own
            return self._broken(unit, named(error))
        flaw = self._flaw(unit, value)
        return self._broken(unit, flaw, kind="result") if flaw else Done(value)

    def _broken(self, unit: Unit, why: str, *, kind: Literal["tool", "result"] = "tool") -> Outcome:
        """Returns the outcome of a call with an error that says nothing about its effect."""
        return Failed(why, kind=kind) if self.is_read(unit) else self.lost(unit, why, kind=kind)

    def lost(
        self, unit: Unit, why: str, *, kind: Literal["tool", "time", "result"] = "tool"
    ) -> Outcome:
        """Returns the outcome of a call whose end is unknown: repeated if harmless, else asked."""
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
        """Says why a result is not usable; empty if it is."""
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
        """Returns the validator of a tool's output schema, compiled once."""
        if tool not in self._validators:
            self._validators[tool] = validator(schema)
        return self._validators[tool]


def error_text(error: BaseException) -> str:
    """Returns the message of an error as text for the journal; a tool's own may be anything."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - `__str__` of a tool's error may raise anything
        return Sentence("step.cannot_say")
    return kept_text(text)


def named(error: BaseException) -> str:
    """Returns the message of an error, with its class name unless it is one of Plansmith's."""
    is_ours = isinstance(error, PlansmithError)
    return error_text(error) if is_ours else f"{type(error).__name__}: {error_text(error)}"


def kept_text(text: object) -> str:
    """Returns a tool's text in a form that a journal can store."""
    if isinstance(text, Sentence):
        return text
    clean = str(text).encode("utf-8", "backslashreplace").decode()
    return clean if len(clean) <= LONGEST_ERROR else f"{clean[:LONGEST_ERROR]}…"


def _asks(need: InputNeeded) -> Outcome:
    """Returns a call's question, or a failure if an answer to it could never be checked."""
    # A tool may have put anything there.
    texts: list[Any] = [need.message, need.link, *need.options]
    flaw = next(flaws([need.state, need.schema, *texts]), None)
    if flaw is not None or not all(isinstance(each, str) for each in texts):
        why = flaw.message if flaw is not None else Sentence("step.question_not_text")
        return Failed(Sentence("step.bad_question", reason=why))
    try:
        validator(need.schema or {})
    except BadSchema as error:
        return Failed(Sentence("step.bad_question_schema", reason=str(error)))
    return Asks(need)


def _hidden(text: str, secrets: Secrets) -> str:
    """Hides secrets in a text; a `Sentence` without secrets is returned as it is."""
    hidden = str(secrets.hide(text))
    return text if hidden == text else hidden


def _hide_secrets(outcome: Outcome, secrets: Secrets) -> Outcome:
    """Returns the outcome of a call with its secrets hidden."""
    match outcome:
        case Done(value):
            return Done(secrets.hide(value))
        case Failed(error):
            return replace(outcome, error=_hidden(error, secrets))
        case Unsure(reason):
            return replace(outcome, reason=_hidden(reason, secrets))
        case Asks(need):
            return Asks(hiding_question(need, secrets))
