"""Part of every written program: runs one step by its rules, and the parts of a step."""

from __future__ import annotations

# JSON is `Any` here, to keep programs plain; the strict mode has no use for that.
# pyright: basic
import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

from plansmith.planner.yes_or_no import goes_on
from plansmith.programs.parts.calling import Call, Tool, try_call
from plansmith.programs.parts.values import Json, StepError, Values

TRIES = 3
DEEPEST = 5
# How a step ended: `status` is done, skipped, failed, left_out or not_run; the others if they are.
Outcome = dict[str, Any]


class LeftOut(Exception):
    """A person said no, and so a step is left out."""


class Value(NamedTuple):
    """A value that stands in for a result."""

    value: Json


class Again(NamedTuple):
    """How often something is done again, and after how many seconds."""

    at_most: int
    every: float = 0


class Repeat(NamedTuple):
    """Until when a step is run again: a condition, in words too, that may name it (`own`)."""

    own: str
    until: Callable[[Values], bool]
    said: str
    at_most: int
    every: float = 0


class Question(NamedTuple):
    """What a person is asked; what acts and waits for it is left out after a no (`gate`).

    With the gate `yes` it is left out after everything that is not a yes.
    """

    text: str
    options: tuple[str, ...] = ()
    schema: dict[str, Json] | None = None
    gate: str = ""


@dataclass(frozen=True)
class Step:
    """A step: its function, what it waits for, and its rules.

    It is skipped with any step of `skipped_with`, and with all of one group of `skipped_with_all`.
    """

    run: Callable[[Running, Values], Awaitable[Json]]
    needs: tuple[str, ...] = ()
    when: Callable[[Values], bool] | None = None
    otherwise: Value | None = None
    repeat: Repeat | None = None
    on_error: str | Value = "fail"
    retry: Again | None = None
    timeout_s: float | None = None
    skipped_with: tuple[str, ...] = ()
    skipped_with_all: tuple[tuple[str, ...], ...] = ()
    tells: bool = False
    each: Step | None = None


@dataclass(frozen=True)
class Unit:
    """A step to run, or a part of one: its name, and the values that only it has."""

    name: str
    plan: str
    id: str
    bound: dict[str, Json] = field(default_factory=dict[str, Json])
    depth: int = 0
    is_item: bool = False
    collects: bool = False


PLANS: dict[str, dict[str, Step]] = {}  # by id: those of the plan (""), and of its templates
TOOLS: dict[str, Tool] = {}


class Engine(Protocol):
    """What carries a program: makes calls, waits, asks, and runs parts side by side."""

    async def call(
        self, unit: Unit, attempt: int, callee: str, arguments: dict[str, Json], timeout_s: float
    ) -> dict[str, Json]:
        """Makes one call, at most once."""
        ...

    async def ask(self, unit: Unit, question: Question) -> Json:
        """Asks a person."""
        ...

    async def sleep(self, unit: Unit, seconds: float) -> None:
        """Waits."""
        ...

    async def parts(
        self, units: Sequence[Unit], known: Mapping[str, Outcome], width: int
    ) -> list[Outcome]:
        """Runs units, at most so many at a time, each after those that it needs."""
        ...


def found_step(unit: Unit) -> Step:
    """Returns the step of a unit; for an item of a map, the inner one."""
    step = PLANS[unit.plan][unit.id]
    return step.each if unit.is_item and step.each is not None else step


async def run_unit(engine: Engine, unit: Unit, outcomes: Mapping[str, Outcome]) -> Outcome:
    """Runs a step by its rules, after the steps that it needs; returns how it ended."""
    step = found_step(unit)
    stopped = None if unit.is_item else stopped_by_need(step, outcomes)
    if stopped is not None:
        return stopped
    values = values_of(unit, step, outcomes)
    try:
        if step.when is not None and not holds(step.when, values):
            return skipped(step.otherwise, "when")
        running = Running(engine, unit, step, outcomes)
        if step.repeat is not None:
            value = await run_rounds(running, step.repeat, values)
        else:
            value = await step.run(running, values)
    except LeftOut:
        return {"status": "left_out"}
    except StepError as error:
        return failed(unit, step, error)
    return {"status": "done", "value": value}


def stopped_by_need(step: Step, outcomes: Mapping[str, Outcome]) -> Outcome | None:
    """Returns how a step ends that cannot run because of what it needs; None if it can."""
    ends = [outcomes[need]["status"] for need in step.needs]
    if "left_out" in ends:
        return {"status": "left_out"}
    if "failed" in ends or "not_run" in ends:
        return {"status": "not_run"}
    gone = {
        name for name, end in outcomes.items() if end["status"] == "skipped" and "value" not in end
    }
    found = [name for name in step.skipped_with if name in gone]
    found += [group[0] for group in step.skipped_with_all if group and gone.issuperset(group)]
    if not found:
        return None
    return skipped(step.otherwise, "error" if outcomes[found[0]]["rule"] == "error" else "need")


def skipped(instead: Value | None, rule: str) -> Outcome:
    """Returns the end of a step that is skipped, with what stands in for its result."""
    end: Outcome = {"status": "skipped", "rule": rule}
    return end if instead is None else {**end, "value": instead.value}


def failed(unit: Unit, step: Step, error: StepError) -> Outcome:
    """Returns how a step ends that failed, as its `on_error` says."""
    wanted = step.on_error
    if unit.collects and wanted == "fail":
        wanted = "collect"
    if isinstance(wanted, Value):
        return skipped(wanted, "error")
    if wanted == "collect":
        return skipped(Value({"error": {"kind": error.kind, "message": error.message}}), "error")
    if wanted == "skip":
        return skipped(step.otherwise, "error")
    return {"status": "failed", "error": error.message, "kind": error.kind}


def holds(condition: Callable[[Values], bool], values: Values) -> bool:
    """Tells whether a condition holds; fails if that cannot be said."""
    try:
        return condition(values)
    except StepError as error:
        raise StepError(f"its condition cannot be decided: {error.message}") from None


def values_of(unit: Unit, step: Step, outcomes: Mapping[str, Outcome]) -> Values:
    """Returns the results that a unit can refer to."""
    known = {name: end["value"] for name, end in outcomes.items() if "value" in end}
    gone = [name for name, end in outcomes.items() if end["status"] == "skipped"]
    texts = {name: WORDS["skipped"].format(step=name) for name in gone if name not in known}
    return Values({**EARLIER, **known, **unit.bound}, texts if step.tells else None)


WORDS = {"skipped": "('{step}' was skipped)"}
EARLIER: dict[str, Json] = {}  # results of earlier runs that the plan uses


async def run_rounds(running: Running, repeat: Repeat, values: Values) -> Json:
    """Runs a step again and again until its condition holds; returns the last result."""
    engine, unit = running.engine, running.unit
    check_depth(unit)
    for number in range(1, repeat.at_most + 1):
        if number > 1 and repeat.every:
            await engine.sleep(unit, repeat.every)
        one = replace(unit, name=f"{unit.name}/{number}", depth=unit.depth + 1)
        try:
            value = await running.step.run(replace(running, unit=one), values)
        except StepError:
            raise StepError(f"1 of {number} parts failed: {one.name}") from None
        if repeat.until(Values({**values, repeat.own: value})):
            return value
    raise StepError(f"after {repeat.at_most} rounds it is still not so that {repeat.said}")


def check_depth(unit: Unit) -> None:
    """Fails if a step with parts is nested too deep."""
    if unit.depth >= DEEPEST:
        raise StepError(f"{unit.name} is nested more than {DEEPEST} levels deep")


@dataclass(frozen=True)
class Running:
    """A step that runs: what its function can do."""

    engine: Engine
    unit: Unit
    step: Step
    outcomes: Mapping[str, Outcome]

    async def tool(self, name: str, arguments: dict[str, Json]) -> Json:
        """Calls a tool; a failed call is made again as the step's `retry` says."""
        return await self._call(f"tool:{name}", arguments)

    async def agent(self, name: str, task: str, inputs: dict[str, Json]) -> Json:
        """Gives an agent a task in words."""
        return await self._call(f"agent:{name}", {"task": task, "inputs": inputs})

    async def word(self, instruction: str) -> Json:
        """Has a text written as an instruction says."""
        return await self._call("reply", {"instruction": instruction})

    async def reply(self, words: str) -> Json:
        """Returns a text as it is."""
        if not words.strip():
            raise StepError("the result is empty", "result")
        return words

    async def ask(self, question: Question) -> Json:
        """Asks a person; a no leaves out what only waits for a yes."""
        answer = await self.engine.ask(self.unit, question)
        agreed = goes_on(answer, question.text, question.options) if question.gate else True
        if agreed is False or (agreed is None and question.gate == "yes"):
            raise LeftOut
        return answer

    async def map_items(self, items: Json, width: int) -> Json:
        """Runs the inner step for every item of a list; returns the list of results."""
        check_depth(self.unit)
        if not isinstance(items, list):
            kind = type(items).__name__
            raise StepError(f"{self.unit.name} goes over a list, and this is a {kind}")
        units = [
            replace(
                self.unit,
                name=f"{self.unit.name}/{place}",
                bound={**self.unit.bound, "item": item},
                depth=self.unit.depth + 1,
                is_item=True,
                collects=self.step.on_error == "collect",
            )
            for place, item in enumerate(items)
        ]
        ends = await self.engine.parts(units, self.outcomes, width)
        check_parts(units, ends)
        return [end["value"] for end in ends if "value" in end]

    async def run_template(self, name: str, parameters: dict[str, Json]) -> Json:
        """Runs the steps of a template; returns their results by id."""
        check_depth(self.unit)
        units = [
            Unit(
                f"{self.unit.name}/{each}", name, each, {"params": parameters}, self.unit.depth + 1
            )
            for each in PLANS[name]
        ]
        ends = await self.engine.parts(units, {}, len(units) or 1)
        check_parts(units, ends)
        found = zip(units, ends, strict=True)
        return {unit.id: end["value"] for unit, end in found if "value" in end}

    async def _call(self, callee: str, arguments: dict[str, Json]) -> Json:
        tool, tries, unsure = TOOLS[callee], 0, False
        seconds = self.step.timeout_s or tool.timeout_s
        while True:
            tries += 1
            end = await self.engine.call(self.unit, tries, callee, arguments, seconds)
            if "value" in end:
                return end["value"]
            unsure = unsure or end["unsure"]
            if not is_repeated(self.step.retry, tries, end, unsure=unsure):
                raise StepError(end["error"], end["kind"])
            pause = self.step.retry.every if self.step.retry else 0.5 * 2 ** (tries - 1)
            await self.engine.sleep(self.unit, pause)


def is_repeated(retry: Again | None, tries: int, end: dict[str, Json], *, unsure: bool) -> bool:
    """Tells whether a failed call is made again: never one that may have taken effect."""
    if end["unsure"] and not end["again"]:
        return False
    if retry is None:
        return bool(end["again"]) and tries < TRIES
    return tries <= retry.at_most and (bool(end["again"]) or not unsure)


def check_parts(units: Sequence[Unit], ends: Sequence[Outcome]) -> None:
    """Fails if a part failed; if parts were only left out, so is the whole step."""
    pairs = list(zip(units, ends, strict=True))
    lost = [unit.name for unit, end in pairs if end["status"] in ("failed", "left_out")]
    if not lost:
        return
    if not any(end["status"] == "failed" for end in ends):
        raise LeftOut
    raise StepError(f"{len(lost)} of {len(units)} parts failed: {', '.join(lost[:5])}")


async def run_parts(
    engine: Engine, units: Sequence[Unit], known: Mapping[str, Outcome], width: int
) -> list[Outcome]:
    """Runs units in tasks, each after those that it needs; one that raises stops no other."""
    limit = asyncio.Semaphore(width)
    tasks: dict[str, asyncio.Task[Outcome]] = {}

    async def one(unit: Unit) -> Outcome:
        needs = () if unit.is_item else found_step(unit).needs
        before = {need: await tasks[need] for need in needs}
        async with limit:
            return await run_unit(engine, unit, {**known, **before})

    for unit in units:
        tasks[unit.name if unit.is_item else unit.id] = asyncio.create_task(one(unit))
    ends = await asyncio.gather(*tasks.values(), return_exceptions=True)
    for end in ends:
        if isinstance(end, BaseException):
            raise end
    return [end for end in ends if not isinstance(end, BaseException)]


def unseen() -> dict[str, Json]:
    """Returns the failure of a call that acts, and that a process began which then died."""
    why = "nobody saw how the call ended: it may have taken effect"
    return {"error": why, "kind": "tool", "again": False, "unsure": True}


async def make_call(
    call: Call, callee: str, arguments: dict[str, Json], timeout_s: float
) -> dict[str, Json]:
    """Makes one call of a tool, an agent or a writer; returns its value or its failure."""
    may_be_empty = callee.startswith("tool:")
    return await try_call(TOOLS[callee], arguments, call, timeout_s, may_be_empty=may_be_empty)
