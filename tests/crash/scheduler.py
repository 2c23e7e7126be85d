"""A process that keeps the schedules of a store on a clock sixty times as fast as the world's.

python -m tests.crash.scheduler STORE FOLDER ZERO CALLS never|claim|create|call
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.crash.halting import halting_store
from tests.crash.worker import Service

from plansmith import Plan
from plansmith.app import Plansmith
from plansmith.plan.data import Json
from plansmith.ports import Call, Document
from plansmith.schedules.schedule import Fire, FireState

START = datetime(2026, 1, 1, tzinfo=UTC)
STEP = {"id": "m", "tool": "keyed", "inputs": {"name": "m"}}
PLAN = Plan.model_validate({"goal": "act", "steps": [STEP]})


class FastClock:
    """A minute a second, counted from a moment that several processes share."""

    def __init__(self, zero: float) -> None:
        self._zero = zero

    def now(self) -> datetime:
        return START + timedelta(minutes=time.time() - self._zero)

    def monotonic(self) -> float:
        return time.monotonic() * 60

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / 60)


def claims(documents: Sequence[Document]) -> bool:
    """Whether a fire is claimed in these documents."""
    fires = [Fire.model_validate_json(each.body) for each in documents if each.kind == "fire"]
    return any(each.state is FireState.CLAIMED for each in fires)


class Dying(Service):
    """A service whose caller is killed once it has acted."""

    async def call(self, tool: str, arguments: Mapping[str, Json], call: Call) -> Json:
        await super().call(tool, arguments, call)
        os.kill(os.getpid(), signal.SIGKILL)
        return None


async def main(store: str, folder: Path, zero: float, calls: int, when: str) -> None:
    """Keep the schedules until the service was called so often, by whomever."""
    halting = halting_store(store)
    if when == "claim":
        halting.halt(write="put_documents", only=claims)
    elif when == "create":
        halting.halt(only=lambda events: events[0].number == 1)
    service = Dying(folder) if when == "call" else Service(folder)
    smith = Plansmith(tools=[service], store=halting, clock=FastClock(zero))
    keeping = asyncio.ensure_future(smith.schedules.run_forever())
    while len(service.calls) < calls:
        await asyncio.wait([keeping], timeout=0.02)
    keeping.cancel()
    await smith.schedules.carried()
    await smith.close()


if __name__ == "__main__":
    _, store, folder, zero, calls, when = sys.argv
    asyncio.run(main(store, Path(folder), float(zero), int(calls), when))
