"""An agent for the tests of every face: it notes what it is asked, and gives what it is told."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from plansmith import AgentSpec, Effect
from plansmith.plan.data import Json
from plansmith.ports import Call


class Member:
    """Gives its results in turn, the last one for ever; raises errors, waits for events."""

    def __init__(self, name: str = "researcher", *results: Any, **card: Any) -> None:
        self.spec = AgentSpec(name=name, **{"effect": Effect.READ, **card})
        self.results = list(results)
        self.calls: list[tuple[str, dict[str, Json]]] = []

    @property
    def tasks(self) -> list[str]:
        return [task for task, _ in self.calls]

    async def work(self, task: str, inputs: Mapping[str, Json], call: Call) -> Json:
        self.calls.append((task, dict(inputs)))
        result: Any = f"{self.spec.name}: {task}"
        if self.results:
            result = self.results.pop(0) if len(self.results) > 1 else self.results[0]
        if isinstance(result, asyncio.Event):
            await result.wait()
            return "done"
        if isinstance(result, Exception):
            raise result
        found: Json = result
        return found
