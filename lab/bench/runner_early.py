"""Time to first action: a model writes ten steps at an even pace; when does the first start?"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import Final

from plansmith import Plansmith, tool
from plansmith.plan.limits import Limits
from plansmith.ports import Delta, ModelDone, Prompt, TextDelta, Usage
from plansmith_planner.settings import PlannerSettings

STEPS: Final = 10
PIECES: Final = 8


class SlowModel:
    """Writes a plan as slowly as a model does, and notes when its first step was complete."""

    name = "slow"

    def __init__(self, step_s: float) -> None:
        self.step_s = step_s
        self.first_step_at = 0.0

    async def stream(self, prompt: Prompt) -> AsyncIterator[Delta]:
        """The plan, in even pieces."""
        del prompt
        opening = '{"goal": "look", "steps": ['
        for place in range(STEPS):
            step = {"id": f"s{place}", "tool": "look", "inputs": {"at": f"place {place}"}}
            text = opening + json.dumps(step)
            size = -(-len(text) // PIECES)
            for start in range(0, len(text), size):
                await asyncio.sleep(self.step_s / PIECES)
                if not place and start + size >= len(text):
                    self.first_step_at = time.perf_counter()
                yield TextDelta(text[start : start + size])
            opening = ", "
        yield TextDelta("]}")
        yield ModelDone(Usage(), self.name)


async def first_action(*, early: bool, step_s: float) -> tuple[float, float]:
    """Seconds until the first step's text was complete, and until the step started."""
    started: list[float] = []

    @tool(effect="read")
    async def look(at: str) -> str:
        """Looks somewhere."""
        started.append(time.perf_counter())
        return at

    model = SlowModel(step_s)
    settings = PlannerSettings(triage=False)
    limits = Limits(early_start=early)
    async with Plansmith(model=model, tools=[look], settings=settings, limits=limits) as smith:
        start = time.perf_counter()
        run = await smith.plan("look around")
        run = await smith.run(run.id)
    assert run.status == "done", run.reason
    return model.first_step_at - start, started[0] - start
