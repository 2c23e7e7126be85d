"""Calls a tool or an agent once; puts secrets in, hides them in results, names the outcome."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, cast

import jsonschema_rs

from plansmith.check.schemas import BadSchema, validator
from plansmith.engine.outcome import (
    Asks,
    Done,
    Failed,
    Outcome,
    error_text,
    invalid,
    named,
    question_flaw,
)
from plansmith.engine.units import Unit, cited, resolved
from plansmith.errors import (
    InputNeeded,
    OutcomeUnknown,
    PlansmithError,
    ToolBusy,
    ToolFailed,
    failure_of_call,
)
from plansmith.plan.capability import Effect, ToolSpec, effect_of
from plansmith.plan.data import Json, flaws
from plansmith.plan.refs import put_secrets, secret_names
from plansmith.plan.sentence import Sentence
from plansmith.plan.steps import LONGEST_TIMEOUT_S, AgentStep, ReplyStep, ReplyStyle, ToolStep
from plansmith.ports import Advice, Agent, Call, Clock, Secrets, TimeLimited, ToolSource

Compose = Callable[[str, Call, Mapping[str, Json], ReplyStyle], Awaitable[str]]
DEFAULT_TIMEOUT: Final = 300.0


@dataclass(frozen=True, slots=True)
class Callees:
    """What can be called, by name."""

    clock: Clock
    tools: Mapping[str, ToolSource] = field(default_factory=dict[str, ToolSource])
    specs: Mapping[str, ToolSpec] = field(default_factory=dict[str, ToolSpec])
    agents: Mapping[str, Agent] = field(default_factory=dict[str, Agent])
    compose: Compose | None = None
    secrets: Secrets | None = None
    _validators: dict[str, jsonschema_rs.Validator | None] = field(
        default_factory=dict[str, "jsonschema_rs.Validator | None"], repr=False
    )

    def is_repeatable(self, unit: Unit) -> bool:
        """Tells whether a call may be repeated when nobody knows how the first one ended."""
        spec = self.specs.get(unit.step.tool) if unit.step.kind == "tool" else None
        return self.is_read(unit) or (spec is not None and spec.idempotent)

    def is_read(self, unit: Unit) -> bool:
        """Tells whether a call changes nothing; an unknown tool or agent may change something."""
        return self.effect(unit) is Effect.READ

    def effect(self, unit: Unit) -> Effect:
        """Returns what a call may do; of an unknown tool or agent a change."""
        agent = self.agents.get(unit.callee)
        return effect_of(unit.step, self.specs, {unit.callee: agent.spec} if agent else {})

    def timeout(self, unit: Unit) -> float:
        """Returns the time limit of a call in seconds; an agent may have its own."""
        seconds = unit.step.timeout_s
        if seconds is None:
            callee = self.specs.get(unit.callee) or self.agents.get(unit.callee)
            if isinstance(callee, (ToolSpec, TimeLimited)):
                seconds = callee.timeout_s
        return min(LONGEST_TIMEOUT_S, seconds or DEFAULT_TIMEOUT)

    async def call(
        self,
        unit: Unit,
        inputs: dict[str, Json],
        call: Call,
        results: Mapping[str, Json] | None = None,
    ) -> Outcome:
        """Makes the call. Every failure is an outcome; only cancellation is raised.

        `results` are needed to fill inputs with secrets again. Whoever calls keeps the time limit.
        """
        results, secrets = results or {}, self.secrets
        if secrets is not None:
            try:
                inputs = _with_secrets(unit, inputs, secrets, results)
            except PlansmithError as error:
                return Failed(str(error))
            call = _hiding(call, secrets)
        try:
            value = await self._make(unit, inputs, call, results)
        except BaseException as error:  # noqa: BLE001 - whatever a tool raises is its own
            outcome = self._failed(unit, error)
        else:
            flaw = self.flaw(unit, value)
            outcome = self.failure_after_call(unit, flaw, kind="result") if flaw else Done(value)
        return outcome if secrets is None else _hidden(outcome, secrets)

    def _failed(self, unit: Unit, error: BaseException) -> Outcome:
        """Returns the outcome of a call that raised an error; raises a cancellation again.

        Only what a tool raises to say that nothing was changed is a certain failure.
        """
        match error:
            case TimeoutError():  # its own: what takes too long here is cancelled
                return self.failure_after_call(unit, named(error), kind="time", again=True)
            case OutcomeUnknown():
                why = error_text(error)
                return self.failure_after_call(unit, why, again=error.again, wait=error.retry_after)
            case InputNeeded():
                flaw = question_flaw(error)
                return self.failure_after_call(unit, flaw) if flaw else Asks(error)
            case ToolBusy():
                return Failed(error_text(error), again=True, wait=error.retry_after)
            case ToolFailed():
                return Failed(error_text(error))
            case asyncio.CancelledError() | KeyboardInterrupt():
                raise error
            case _:
                return self.failure_after_call(unit, named(error))

    def late(self, unit: Unit) -> Outcome:
        """Returns the outcome of a call that gave no result within its time limit."""
        why = Sentence("no result after {seconds} s", seconds=f"{self.timeout(unit):g}")
        return self.failure_after_call(unit, why, kind="time", again=True)

    def failure_after_call(
        self,
        unit: Unit,
        why: str,
        *,
        kind: Literal["tool", "time", "result"] = "tool",
        again: bool = False,
        wait: float | None = None,
    ) -> Outcome:
        """Returns the outcome of a call that may have taken effect: repeated if harmless, or asked.

        `again`: whether another try may help. That counts for reads: a change is made again only
        if its tool is idempotent.
        """
        unsure = not self.is_read(unit)
        again = self.is_repeatable(unit) if unsure else again
        return Failed(why, again=again, kind=kind, wait=wait, unsure=unsure)

    def _make(
        self, unit: Unit, inputs: dict[str, Json], call: Call, results: Mapping[str, Json]
    ) -> Awaitable[Json]:
        match unit.step:
            case ToolStep(tool=name) if name in self.tools:
                return self.tools[name].call(name, inputs, call)
            case AgentStep(agent=name) if name in self.agents:
                more = cast("dict[str, Json]", inputs["inputs"])
                return self.agents[name].work(str(inputs["task"]), more, call)
            case ReplyStep(instruction=text, style=style):
                if self.compose is None or style == "exact":
                    return _written(str(inputs["instruction"]))
                return self.compose(text, call, cited(unit, results), style)
            case ToolStep(tool=name):
                why = Sentence("there is no tool called '{name}'", name=name)
            case AgentStep(agent=name):
                why = Sentence("there is no agent called '{name}'", name=name)
            case _:
                raise ToolFailed(Sentence("a {kind} step is not called", kind=unit.step.kind))
        # One that has asked was called before.
        raise failure_of_call(ToolFailed(why), sent=call.reply is not None)

    def flaw(self, unit: Unit, value: Json) -> str:
        """Says why a result is not usable; empty if it is."""
        broken = next(flaws(value), None)
        if broken is not None:
            return Sentence("the result is not JSON: {reason}", reason=broken.message)
        if unit.step.kind != "tool":
            empty = value is None or (isinstance(value, str) and not value.strip())
            return Sentence("the result is empty") if empty else ""
        check = self._validator(unit.step.tool)
        why = invalid(check, value) if check is not None else ""
        if not why:
            return ""
        return Sentence("the result does not fit the tool's own schema: {reason}", reason=why)

    def _validator(self, tool: str) -> jsonschema_rs.Validator | None:
        """Returns what checks the results of a tool; None if it has no sound schema for them."""
        if tool not in self._validators:
            spec = self.specs.get(tool)
            self._validators[tool] = None
            if spec is not None and spec.output_schema is not None:
                with suppress(BadSchema):
                    self._validators[tool] = validator(spec.output_schema)
        return self._validators[tool]


async def _written(text: str) -> str:
    """Returns a reply whose text is given, as a call would."""
    return text


def _with_secrets(
    unit: Unit, inputs: dict[str, Json], secrets: Secrets, results: Mapping[str, Json]
) -> dict[str, Json]:
    """Returns the inputs with the values of the secrets that the plan names."""
    step = unit.step
    names = secret_names(step.inputs) if isinstance(step, ToolStep) else []
    if not isinstance(step, ToolStep) or not names:
        return inputs
    values = {name: secrets.reveal(name, step.tool) for name in names}
    private = cast("dict[str, Json]", put_secrets(step.inputs, values))
    return resolved(unit.with_step(step.replace(inputs=private)), results)


def _hiding(call: Call, secrets: Secrets) -> Call:
    """Returns a call that hides secrets in its progress and advice."""

    def progress(text: str) -> None:
        call.progress(str(secrets.hide(text)))

    def advise(advice: Advice, reason: str) -> None:
        call.advise(advice, str(secrets.hide(reason)))

    return replace(call, progress=progress, advise=advise)


def _hidden(outcome: Outcome, secrets: Secrets) -> Outcome:
    """Returns the outcome of a call with its secrets hidden."""

    def hide(text: str) -> str:
        hidden = str(secrets.hide(text))
        return text if hidden == text else hidden  # a `Sentence` stays one

    match outcome:
        case Done(value):
            return Done(secrets.hide(value))
        case Failed(error):
            return replace(outcome, error=hide(error))
        case Asks(need):
            return Asks(
                InputNeeded(
                    hide(need.message),
                    schema=cast("dict[str, Any] | None", secrets.hide(cast("Json", need.schema))),
                    options=[hide(each) for each in need.options],
                    state=secrets.hide(need.state),
                    link=hide(need.link),
                )
            )
