"""Early: reads that start while their plan is still being written, kept only where still used."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from plansmith.plan.capability import Effect, ToolSpec
from plansmith.plan.data import Json, content_hash
from plansmith.plan.steps import AnyStep, ToolStep
from plansmith.ports import Call, ToolSource


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
        self._calls: dict[str, asyncio.Task[Json]] = {}

    def start(self, step: AnyStep) -> None:
        """Start a step, if it may be started before anyone has looked at it."""
        if not isinstance(step, ToolStep) or step.disabled or step.needs():
            return
        spec = self._specs.get(step.tool)
        if spec is None or spec.effect is not Effect.READ or len(self._calls) >= self._most:
            return
        key = _key(step.tool, step.inputs)
        if key not in self._calls and not list(step.found()):
            work = self._tools[step.tool].call(step.tool, step.inputs, Call(key=f"early/{key}"))
            self._calls[key] = asyncio.ensure_future(work)

    def take(self, tool: str, inputs: Mapping[str, Json]) -> asyncio.Task[Json] | None:
        """The call of exactly this tool with exactly these inputs, once, if there was one."""
        return self._calls.pop(_key(tool, dict(inputs)), None)

    async def drop(self) -> None:
        """Let go of what no step asked for."""
        tasks = list(self._calls.values())
        self._calls = {}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _key(tool: str, inputs: Mapping[str, Json]) -> str:
    return content_hash([tool, dict(inputs)])
