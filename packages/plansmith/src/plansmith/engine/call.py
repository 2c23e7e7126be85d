"""Makes the calls of steps, within their time; decides about those that a crash cut off."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any, Final, Literal, NamedTuple, cast

import jsonschema_rs

from plansmith.check.schemas import BadSchema, validator, why_not_valid
from plansmith.engine.journal import Journal
from plansmith.engine.outcome import (
    Asks,
    Differs,
    Done,
    Failed,
    Outcome,
    Wanted,
    error_text,
    question_flaw,
    with_class_name,
)
from plansmith.engine.units import Unit, cited, named_unit, resolved
from plansmith.errors import (
    InputNeeded,
    OutcomeUnknown,
    PlansmithError,
    ToolBusy,
    ToolFailed,
    failure_of_call,
)
from plansmith.plan import events as e
from plansmith.plan.capability import Effect, ToolSpec, effect_of
from plansmith.plan.data import Json, flaws
from plansmith.plan.ids import question_name
from plansmith.plan.plan import Plan
from plansmith.plan.preview import CallPreview
from plansmith.plan.question_options import UNKNOWN_OPTIONS
from plansmith.plan.refs import put_secrets, secret_names
from plansmith.plan.run import Run, StepStatus
from plansmith.plan.sentence import Sentence
from plansmith.plan.steps import MAX_TIMEOUT_S, AgentStep, ReplyStep, ReplyStyle, ToolStep
from plansmith.ports import (
    Advice,
    Agent,
    Call,
    Clock,
    PreviewingSource,
    Secrets,
    TimeLimited,
    ToolSource,
)

Compose = Callable[[str, Call, Mapping[str, Json], ReplyStyle], Awaitable[str]]
DEFAULT_TIMEOUT: Final = 300.0
_PREVIEW_S: Final = 60.0
_MAX_SHOWN: Final = 500
_DIED: Final = Sentence("the process ended during the call")


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
        return min(MAX_TIMEOUT_S, seconds or DEFAULT_TIMEOUT)

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

    async def difference(
        self, unit: Unit, inputs: dict[str, Json], call: Call
    ) -> Differs | Failed | None:
        """Returns what a call would do, if that is something else than a person saw, or fails."""
        if self.previews(unit) is None:
            return None
        now = await self.preview(unit, inputs) or CallPreview()
        is_own = call.attempt > 1 and now.done  # by its own first try
        if now.hash != call.seen and not is_own:
            return Differs(now)
        return Failed(now.fails) if now.fails else None  # if it succeeded, nobody saw that

    def previews(self, unit: Unit) -> PreviewingSource | None:
        """Returns the source that says what a call would do; None if it does not say."""
        source: object = self.tools.get(unit.callee) if unit.step.kind == "tool" else None
        return source if isinstance(source, PreviewingSource) else None

    async def preview(self, unit: Unit, inputs: Mapping[str, Json]) -> CallPreview | None:
        """Returns what a call would do, as its tool says; None if it does not say."""
        if (source := self.previews(unit)) is None:
            return None
        try:
            async with asyncio.timeout(_PREVIEW_S):  # the tool may change its copy
                shown = await source.preview(unit.callee, deepcopy(dict(inputs)))
            broken = next(flaws(shown.to_json()), None) if shown is not None else None
            fails = broken.message if broken is not None else ""
        except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever a tool raises is its own
            shown, fails = None, with_class_name(error)
        shown = CallPreview(fails=fails) if fails else shown
        if shown is None or self.secrets is None:
            return shown
        return CallPreview.model_validate(self.secrets.hide(shown.to_json()))

    def _failed(self, unit: Unit, error: BaseException) -> Outcome:
        """Returns the outcome of a call that raised an error; raises a cancellation again.

        Only what a tool raises to say that nothing was changed is a certain failure.
        """
        match error:
            case TimeoutError():  # its own: what takes too long here is cancelled
                return self.failure_after_call(
                    unit, with_class_name(error), kind="time", again=True
                )
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
                return self.failure_after_call(unit, with_class_name(error))

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
        why = why_not_valid(check, value) if check is not None else ""
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
        case Differs() | Wanted():
            return outcome  # hidden where it was shown
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


class PreparedCall(NamedTuple):
    """A call, made once its start is written."""

    unit: Unit
    inputs: dict[str, Json]
    call: Call


class RunningCalls:
    """Makes calls within their time limits; `ended` gets the outcome of each, unless cancelled.

    One timer watches all calls: a timer for each would cost 5 % of the processor time of a short
    step.
    """

    def __init__(
        self,
        callees: Callees,
        results: Mapping[str, Json],
        journal: Journal,
        ended: Callable[[str, Outcome], None],
    ) -> None:
        self._callees, self._results, self._ended = callees, results, ended
        self._journal = journal
        self._is_cancelled = False
        self.running: dict[str, asyncio.Task[None]] = {}
        # When each call has to end, by the time of the event loop; never, once it took longer.
        self._deadlines: dict[str, float] = {}
        self._timer: asyncio.TimerHandle | None = None

    def launch(self, started: Iterable[PreparedCall]) -> None:
        """Makes calls whose starts are written."""
        loop = asyncio.get_running_loop()
        for prepared in started:
            self.running[prepared.unit.name] = loop.create_task(self._work(prepared))

    def look(self, unit: Unit, inputs: dict[str, Json], question: e.QuestionAsked) -> None:
        """Asks a tool what a call would do, before a person is asked for consent to it."""

        async def look() -> None:
            shown = await self._callees.preview(unit, inputs)
            self._ended(unit.name, Wanted(question, inputs, shown))

        self.running[unit.name] = asyncio.get_running_loop().create_task(look())

    def _set_deadline(self, unit: Unit) -> None:
        """Gives a call its time limit as it begins: what held it up before does not count."""
        limit = asyncio.get_running_loop().time() + self._callees.timeout(unit)
        self._deadlines[unit.name] = limit
        if self._timer is None or limit < self._timer.when():
            self._stop_late()

    def _stop_late(self) -> None:
        """Cancels the calls that take too long, and comes again at the next limit."""
        loop = asyncio.get_running_loop()
        for name, limit in self._deadlines.items():
            if limit <= loop.time():
                self._deadlines[name] = inf
                self.running[name].cancel()
        if self._timer is not None:
            self._timer.cancel()
        limit = min(self._deadlines.values(), default=inf)
        self._timer = loop.call_at(limit, self._stop_late) if limit < inf else None

    async def _work(self, prepared: PreparedCall) -> None:
        unit, inputs, call = prepared
        try:
            self._set_deadline(unit)
            outcome = await self._differing(prepared) if call.seen else None
            if outcome is None:
                outcome = await self._callees.call(unit, inputs, call, self._results)
        except asyncio.CancelledError:
            if self._is_cancelled:
                raise
            if self._deadlines.get(unit.name) == inf:
                outcome = self._callees.late(unit)
            else:  # the callee cancelled itself: record an end, since the run waits for one
                within = Sentence("the call was cancelled from within")
                outcome = self._callees.failure_after_call(unit, within, again=True)
        except Exception as error:  # noqa: BLE001 - the run would wait for the end for ever
            outcome = self._callees.failure_after_call(unit, with_class_name(error), again=True)
        self._deadlines.pop(unit.name, None)
        self._ended(unit.name, outcome)

    async def _differing(self, prepared: PreparedCall) -> Outcome | None:
        """Asks the tool once more what a person saw, which may take long enough to lose the run."""
        since = self._journal.now()
        if (found := await self._callees.difference(*prepared)) is None:
            await self._journal.keep_claim(since)
        return found

    async def cancel(self, grace_s: float) -> None:
        """Cancels all calls, and waits for them a little; functions in threads are given up."""
        self._is_cancelled = True
        if self._timer is not None:
            self._timer.cancel()
        for task in self.running.values():
            task.cancel()
        if self.running:
            await asyncio.wait(self.running.values(), timeout=grace_s)


def settle_after_crash(
    run: Run, templates: Mapping[str, Plan], callees: Callees
) -> list[e.AnyBody]:
    """Returns the events that settle the calls left running by a dead process.

    Reads and keyed calls are repeated, and a person is asked about all others. Map and plan steps,
    which make no call themselves, stay open.
    """
    if run.plan is None:
        return []
    bodies: list[e.AnyBody] = []
    for name, step in run.steps.items():
        if step.status is not StepStatus.RUNNING:
            continue
        unit = named_unit(run.plan, name, templates)
        if unit is not None and unit.is_group:
            continue
        if unit is not None and callees.is_repeatable(unit):
            unsure = not callees.is_read(unit)
            again = e.StepFailed(step=name, error=_DIED, again=True, unsure=unsure, died=True)
            bodies.append(again)
        else:
            asked = unknown_question(name, _DIED, callee=unit.callee if unit else "")
            bodies += [e.StepUnknown(step=name, reason=_DIED, died=True), asked]
    return bodies


def unknown_question(name: str, reason: str, *, callee: str = "") -> e.QuestionAsked:
    """Returns the question to a person how a step ended whose end was not recorded."""
    why = reason if len(reason) <= _MAX_SHOWN else f"{reason[:_MAX_SHOWN]}…"
    text = Sentence(
        "It is not known whether {callee} took effect in the step '{step}' ({reason}). Did it?",
        callee=callee or name,
        step=name,
        reason=why,
    )
    question = question_name("unknown", name)
    return e.QuestionAsked(
        question=question, text=text, options=UNKNOWN_OPTIONS, step=name, kind="unknown"
    )
