"""Makes a tool source of built-in tools: checks arguments and runs each call in a thread."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, cast

import jsonschema_rs

from plansmith.check.schemas import BadSchema, validator
from plansmith.errors import Misconfigured, ToolFailed
from plansmith.plan.capability import ToolSpec
from plansmith.plan.data import Json, flaws, plain_numbers
from plansmith.plan.sentence import Sentence, did_you_mean, with_hint
from plansmith.ports import Call
from plansmith.text import clip
from plansmith.tools.threads import run_in_thread

Arguments = Mapping[str, Any]
_LOOK_S: Final = 0.05
TEXT: Final[dict[str, Any]] = {"type": "string"}
NOTES: Final[dict[str, Any]] = {
    "type": "array",
    "items": TEXT,
    "description": "What is not as asked for: what was clipped, guessed or left out.",
}


class Job:
    """A call in a thread: reports progress; once `given_up`, no one waits for its result."""

    def __init__(self, call: Call) -> None:
        self.call, self.given_up = call, False


@contextmanager
def watched(
    stop: Callable[[], object], *, job: Job | None, seconds: float
) -> Generator[threading.Event]:
    """Calls `stop` from another thread when the time is up or the call is given up.

    It is called repeatedly, because a single call could come just before the work begins and have
    no effect. The event says whether it was called.
    """
    done, stopped = threading.Event(), threading.Event()
    end = time.monotonic() + seconds

    def watch() -> None:
        while not done.wait(_LOOK_S):
            if time.monotonic() > end or (job is not None and job.given_up):
                stopped.set()
                stop()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield stopped
    finally:
        done.set()
        watcher.join()


@dataclass(frozen=True, slots=True)
class BuiltIn:
    """A tool: its spec, and the blocking function that does its work."""

    spec: ToolSpec
    work: Callable[[Arguments, Job], Json]


class ToolSet:
    """A tool source made of built-in tools."""

    def __init__(self, tools: Sequence[BuiltIn]) -> None:
        self._tools = {each.spec.name: each for each in tools}
        self._checks = {each.spec.name: _validator(each.spec) for each in tools}

    async def tools(self) -> Sequence[ToolSpec]:
        return [each.spec for each in self._tools.values()]

    async def call(self, tool: str, arguments: Mapping[str, Json], call: Call) -> Json:
        """Checks the arguments against the tool's schema, then runs it in a thread."""
        if tool not in self._tools:
            raise ToolFailed(Sentence("unknown.tool", name=tool))
        given = dict(arguments)
        self._check(tool, given)
        job = Job(call)
        try:
            result: Json = await run_in_thread(partial(self._tools[tool].work, given, job))
        except asyncio.CancelledError:
            job.given_up = True
            raise
        return result

    def _check(self, tool: str, arguments: dict[str, Json]) -> None:
        flaw = next(flaws(arguments), None)
        if flaw is not None:
            raise ToolFailed(f"{tool}: {flaw.message}")
        error = next(self._checks[tool].iter_errors(plain_numbers(arguments)), None)
        if error is not None:
            place = ".".join(map(str, error.instance_path))
            raise ToolFailed(f"{tool}: {place + ': ' if place else ''}{clip(error.message)}")


class PureTools(ToolSet):
    """Tools that only compute, so that a rehearsal can make the call itself."""

    async def rehearse(self, tool: str, inputs: Mapping[str, Json]) -> str:
        """Returns why a call would fail, and what to do; empty if it would not."""
        try:
            await self.call(tool, inputs, Call(key="rehearsal"))
        except ToolFailed as failure:
            return with_hint(failure.message, failure.hint)
        return ""


def _validator(spec: ToolSpec) -> jsonschema_rs.Validator:
    try:
        return validator(spec.input_schema, mask="this")
    except BadSchema as error:
        raise Misconfigured(
            Sentence("the schema of {name} is not valid: {error}", name=spec.name, error=error)
        ) from None


def fields(properties: Mapping[str, Any], *required: str) -> dict[str, Any]:
    """Returns the schema of an object with exactly these fields."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(required),
        "additionalProperties": False,
    }


def string(description: str, **more: Any) -> dict[str, Any]:
    """Returns the schema of a text."""
    return {"type": "string", "description": description, **more}


def whole(description: str, least: int, most: int) -> dict[str, Any]:
    """Returns the schema of a whole number within bounds."""
    return {"type": "integer", "minimum": least, "maximum": most, "description": description}


def flag(description: str) -> dict[str, Any]:
    """Returns the schema of a boolean that is false by default."""
    return {"type": "boolean", "default": False, "description": description}


def items(each: Mapping[str, Any], description: str = "", *, most: int = 0) -> dict[str, Any]:
    """Returns the schema of a list."""
    made: dict[str, Any] = {"type": "array", "items": dict(each)}
    made |= {"description": description} if description else {}
    return made | ({"maxItems": most} if most else {})


def noted(result: dict[str, Json], notes: Sequence[str]) -> dict[str, Json]:
    """Adds notes to a result, if there are any."""
    return result | {"notes": cast("Json", list(notes))} if notes else result


def known(name: str, names: Sequence[str]) -> None:
    """Refuses an unknown column and suggests the nearest name."""
    if name in names:
        return
    names_shown = clip(", ".join(names))
    hint = did_you_mean(name, names, otherwise=Sentence("there are {names}", names=names_shown))
    raise ToolFailed(Sentence("there is no column '{name}'", name=clip(name, 60)), hint=hint)


class DescribedTools:
    """Tool specs without implementation, to plan where the tools cannot run."""

    def __init__(self, specs: Sequence[ToolSpec]) -> None:
        self._specs = list(specs)

    async def tools(self) -> Sequence[ToolSpec]:
        return self._specs

    async def call(self, tool: str, arguments: Mapping[str, Json], call: Call) -> Json:
        """Always fails: there is nothing to call."""
        del arguments, call
        raise ToolFailed(Sentence("{tool} is only described, and cannot be called here", tool=tool))
