"""Engine of a written program: asyncio, a task for each step; nothing is kept after a crash."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from uuid import uuid4

from plansmith.programs.parts.calling import Call
from plansmith.programs.parts.rules import (
    PLANS,
    Outcome,
    Question,
    Unit,
    make_call,
    run_parts,
)
from plansmith.programs.parts.terminal import Terminal, finish, flags, read_answers
from plansmith.programs.parts.values import Json

WIDTH = 16


class AsyncioEngine:
    """Runs steps in tasks, and at most `WIDTH` calls at a time."""

    def __init__(self, answers: Mapping[str, Json]) -> None:
        self._run = uuid4().hex
        self._width = asyncio.Semaphore(WIDTH)
        self._terminal = Terminal(answers)

    async def call(
        self, unit: Unit, attempt: int, callee: str, arguments: dict[str, Json], timeout_s: float
    ) -> dict[str, Json]:
        """Makes one call."""
        call = Call(f"{self._run}/{unit.name}", attempt)
        async with self._width:
            return await make_call(call, callee, arguments, timeout_s)

    async def ask(self, unit: Unit, question: Question) -> Json:
        """Asks a person."""
        return await self._terminal.ask(unit, question)

    async def sleep(self, unit: Unit, seconds: float) -> None:
        """Waits."""
        del unit
        await asyncio.sleep(seconds)

    async def parts(
        self, units: Sequence[Unit], known: Mapping[str, Outcome], width: int
    ) -> list[Outcome]:
        """Runs units, at most so many at a time."""
        return await run_parts(self, units, known, width)


async def run_plan(answers: Mapping[str, Json]) -> dict[str, Outcome]:
    """Runs all steps; returns how each ended."""
    units = [Unit(name, "", name) for name in PLANS[""]]
    ends = await AsyncioEngine(answers).parts(units, {}, len(units) or 1)
    return dict(zip(PLANS[""], ends, strict=True))


def main() -> int:
    """Runs the plan and prints its results."""
    args = flags(sys.modules[__name__].__doc__ or "").parse_args()
    return finish(asyncio.run(run_plan(read_answers(args.answers))), args.out)
