"""A process that keeps the schedules of a store on a clock sixty times as fast as the world's.

python -m tests.crash.scheduler STORE SERVICE ZERO CALLS never|claim|create|call
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

from plansmith import Effect, Plan, ToolSpec
from plansmith.app import Plansmith
from plansmith.plan.data import Json
from plansmith.plan.schedules import Fire, FireState
from plansmith.ports import Call, Record

START = datetime(2026, 1, 1, tzinfo=UTC)
PLAN = Plan.model_validate({"goal": "mark", "steps": [{"id": "m", "tool": "mark"}]})


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


def claims(records: Sequence[Record]) -> bool:
    """Whether a fire is claimed in these records."""
    fires = [Fire.model_validate_json(each.body) for each in records if each.kind == "fire"]
    return any(each.state is FireState.CLAIMED for each in fires)


class Service:
    """The world outside: one line a call."""

    def __init__(self, path: Path, *, dies: bool = False) -> None:
        self.path = path
        self.dies = dies

    async def tools(self) -> list[ToolSpec]:
        return [ToolSpec(name="mark", effect=Effect.WRITE, idempotent=True)]

    async def call(self, tool: str, arguments: Mapping[str, Json], call: Call) -> Json:
        descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(descriptor, f"{call.key}\n".encode())
        os.close(descriptor)
        if self.dies:
            os.kill(os.getpid(), signal.SIGKILL)
        return None


def called(service: Path) -> int:
    return len(service.read_text().split()) if service.exists() else 0


async def main(store: str, service: Path, zero: float, calls: int, when: str) -> None:
    """Keep the schedules until the service was called so often, by whomever."""
    halting = halting_store(store)
    if when == "claim":
        halting.halt(write="put_records", only=claims)
    elif when == "create":
        halting.halt(only=lambda events: events[0].number == 1)
    smith = Plansmith(
        tools=[Service(service, dies=when == "call")], store=halting, clock=FastClock(zero)
    )
    keeping = asyncio.ensure_future(smith.schedules.keep())
    while called(service) < calls:
        await asyncio.wait([keeping], timeout=0.02)
    keeping.cancel()
    await smith.schedules.carried()
    await smith.close()


if __name__ == "__main__":
    _, store, service, zero, calls, when = sys.argv
    asyncio.run(main(store, Path(service), float(zero), int(calls), when))
