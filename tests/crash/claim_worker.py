"""A process that executes a run, and may stop itself right after an append.

python -m tests.crash.claim_worker URL FOLDER RUN LEASE_S [stop=N] [force]
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from plansmith import Plan, tool
from plansmith.app import Plansmith
from plansmith.errors import RunBusy
from plansmith.plan.data import Content, Json
from plansmith.plan.events import Event
from plansmith.plan.limits import Limits
from plansmith.store.sqlite import SqliteStore
from plansmith.store.urls import sqlite_path
from plansmith_postgres.store import PostgresStore

PLAN = Plan.model_validate(
    {
        "goal": "act twice",
        "steps": [
            {"id": "a", "tool": "act", "inputs": {"name": "a"}},
            {"id": "b", "tool": "act", "inputs": {"name": "b"}, "after": ["a"]},
        ],
    }
)


def tools(folder: Path) -> list[Any]:
    """One tool that notes each call in a file, with its process, and then waits for a file."""

    @tool(effect="write")
    async def act(name: str) -> str:
        """Act."""
        with (folder / "effects").open("a") as file:
            file.write(f"{name} {os.getpid()}\n")
        while not (folder / f"go-{name}").exists():  # noqa: ASYNC110 - another process writes it
            await asyncio.sleep(0.02)
        return name

    return [act]


class _Stopping:
    """Stops this process (SIGSTOP) when the Nth append is durable, before anyone hears of it."""

    stop_after = 0

    async def append(
        self, events: Sequence[Event], values: Sequence[Json | Content] = (), **told: Any
    ) -> None:
        await super().append(events, values, **told)  # type: ignore[misc]
        self.stop_after -= 1
        if self.stop_after == 0:
            os.kill(os.getpid(), signal.SIGSTOP)


class StoppingSqlite(_Stopping, SqliteStore):
    """On SQLite."""


class StoppingPostgres(_Stopping, PostgresStore):
    """On PostgreSQL."""


def opened(url: str) -> StoppingSqlite | StoppingPostgres:
    """A store that may stop this process."""
    if url.startswith("sqlite:"):
        return StoppingSqlite(sqlite_path(url))
    return StoppingPostgres(url)


async def main(url: str, folder: Path, run: str, lease_s: float, options: Sequence[str]) -> None:
    """Execute the run as far as it goes, and print how it stands."""
    store = opened(url)
    async with Plansmith(tools=tools(folder), store=store, limits=Limits(lease_s=lease_s)) as smith:
        try:
            if "force" in options:
                await smith.resume(run, by="ada", force=True)
            for each in options:
                if each.startswith("stop="):
                    store.stop_after = int(each[5:])
            sys.stdout.write(f"{(await smith.run(run)).status.value}\n")
        except RunBusy as busy:
            sys.stdout.write(f"busy: {busy}\n")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2]), sys.argv[3], float(sys.argv[4]), sys.argv[5:]))
