"""Early: reads that start while their plan is still being written, kept only where still used."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import NamedTuple

from plansmith.plan.capability import Effect, ToolSpec
from plansmith.plan.data import Json, content_hash
from plansmith.plan.secrets import secret_names
from plansmith.plan.steps import AnyStep, ToolStep
from plansmith.ports import Call, ToolSource


class _Words:
    """What an early call says: kept until its step starts, then passed on."""

    def __init__(self) -> None:
        self._kept: list[Callable[[Call], None]] = []
        self._call: Call | None = None

    def pass_on(self, call: Call) -> None:
        """Hand over what was said, and from now on all that follows."""
        self._call = call
        for word in self._kept:
            word(call)

    def as_call(self, key: str) -> Call:
        """The circumstances of the early call."""
        return Call(
            key=key,
            progress=lambda text: self._say(lambda call: call.progress(text)),
            spend=lambda usage: self._say(lambda call: call.spend(usage)),
            advise=lambda advice, reason: self._say(lambda call: call.advise(advice, reason)),
        )

    def _say(self, word: Callable[[Call], None]) -> None:
        if self._call is not None:
            word(self._call)
        else:
            self._kept.append(word)


class _Begun(NamedTuple):
    task: asyncio.Task[Json]
    words: _Words


class EarlyReads:
    """Calls that change nothing, made before they are approved: reads with inputs of their own.

    A step whose inputs come from other steps waits, since what it would send is not known yet.
    """

    def __init__(
        self,
        tools: Mapping[str, ToolSource],
        specs: Mapping[str, ToolSpec],
        *,
        most: int = 4,
    ) -> None:
        self._tools = tools
        self._specs = specs
        self._most = most
        self._calls: dict[str, _Begun] = {}

    def start(self, step: AnyStep) -> None:
        """Start a step, if it may be started before anyone has looked at it."""
        if not isinstance(step, ToolStep) or step.disabled or step.needs():
            return
        spec = self._specs.get(step.tool)
        if spec is None or spec.effect is not Effect.READ or len(self._calls) >= self._most:
            return
        key = _key(step.tool, step.inputs)
        given = not list(step.found()) and not secret_names(step.inputs)
        if key not in self._calls and given:
            words = _Words()
            work = self._tools[step.tool].call(
                step.tool, step.inputs, words.as_call(f"early/{key}")
            )
            self._calls[key] = _Begun(asyncio.ensure_future(work), words)

    def take(self, tool: str, inputs: Mapping[str, Json], call: Call) -> asyncio.Task[Json] | None:
        """The call of exactly this tool with exactly these inputs, once, if there was one."""
        begun = self._calls.pop(_key(tool, dict(inputs)), None)
        if begun is None:
            return None
        begun.words.pass_on(call)
        return begun.task

    async def drop(self) -> None:
        """Let go of what no step asked for."""
        tasks = [begun.task for begun in self._calls.values()]
        self._calls = {}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _key(tool: str, inputs: Mapping[str, Json]) -> str:
    return content_hash([tool, dict(inputs)])
