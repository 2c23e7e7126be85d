"""A process that runs a 20-step plan on a SQLite store and dies at a chosen append.

python -m tests.crash.worker STORE SERVICE RUN|new APPENDS before|after
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from plansmith import Effect, Plan, ToolSpec
from plansmith.app import Plansmith
from plansmith.errors import RunBusy
from plansmith.plan.data import Content, Json
from plansmith.plan.events import Event
from plansmith.plan.limits import Limits
from plansmith.ports import Call
from plansmith.store.sqlite import SqliteStore

KINDS = ("read", "keyed", "write", "read")


def twenty_steps() -> Plan:
    """Twenty steps of all effects, partly in a chain and partly side by side."""
    steps: list[dict[str, Any]] = [
        {
            "id": f"s{number}",
            "tool": KINDS[number % 4],
            "inputs": {"name": f"s{number}"},
            "after": [f"s{number - 2}"] if number > 1 else [],
        }
        for number in range(20)
    ]
    return Plan.model_validate({"goal": "twenty", "steps": steps})


class DyingStore(SqliteStore):
    """Dies with SIGKILL before or after its Nth append."""

    appends_left = 10**9
    when = "after"

    async def append(
        self, events: Sequence[Event], values: Sequence[Json | Content] = (), **told: Any
    ) -> None:
        self.appends_left -= 1
        if self.appends_left < 0 and self.when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        await super().append(events, values, **told)
        if self.appends_left < 0:
            os.kill(os.getpid(), signal.SIGKILL)


class Service:
    """The world outside: one line a call in a file, written before the call returns."""

    def __init__(self, path: Path) -> None:
        self.path = path

    async def tools(self) -> list[ToolSpec]:
        return [
            ToolSpec(
                name=name,
                effect=Effect.READ if name == "read" else Effect.WRITE,
                idempotent=name == "keyed",
            )
            for name in ("read", "keyed", "write")
        ]

    async def call(self, tool: str, arguments: Mapping[str, Json], call: Call) -> Json:
        line = f"{tool} {arguments['name']} {call.key}\n".encode()
        descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(descriptor, line)
        os.close(descriptor)
        return {"name": arguments["name"]}


async def main(store: Path, service: Path, run_id: str, appends: int, when: str) -> None:
    """Start or go on with the run, and print its id and status."""
    dying = DyingStore(store)
    app = Plansmith(tools=[Service(service)], store=dying, limits=Limits(width=3))
    if run_id == "new":
        plan = twenty_steps()
        run = await app.submit(plan)
        await app.decide(run.id, approve=plan.hash, by="ada")
        sys.stdout.write(f"{run.id}\n")
        sys.stdout.flush()
        run_id = run.id
    dying.appends_left, dying.when = appends, when
    try:
        sys.stdout.write(f"{(await app.runs.run(run_id)).status.value}\n")
    except RunBusy:
        sys.stdout.write("busy\n")
    await app.close()


if __name__ == "__main__":
    asyncio.run(
        main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]), sys.argv[5])
    )
