"""A server removes runs that are older than the settings keep them, once a day."""

from __future__ import annotations

import asyncio
import io
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.waiting import until

from plansmith import Plan, tool
from plansmith.store.sqlite import SqliteStore
from plansmith.testing import FakeClock
from plansmith_cli.config import Settings
from plansmith_cli.server_wiring import ServerWiring
from plansmith_server.ops.logs import Log
from plansmith_server.serve import make_state
from plansmith_server.state import ServerState
from plansmith_server.upkeep import prune_daily

NOW = datetime(2026, 1, 1, tzinfo=UTC)
PLAN = Plan.model_validate({"goal": "g", "steps": [{"id": "a", "tool": "look"}]})


@tool(effect="read")
def look() -> str:
    """Looks."""
    return "seen"


def state(folder: Path, keep: str, clock: FakeClock) -> ServerState:
    settings = Settings(store=f"sqlite:///{folder / 'runs.db'}", keep_runs=keep)
    store = SqliteStore(folder / "runs.db", now=clock.now)
    return make_state(
        ServerWiring(settings), log=Log(io.StringIO()), tools=[look], store=store, clock=clock
    )


async def one_run(server: ServerState) -> str:
    return (await server.smith.run((await server.smith.submit(PLAN)).id)).id


async def test_old_runs_go_at_the_start_and_a_day_later(tmp_path: Path) -> None:
    clock = FakeClock(NOW)
    server = state(tmp_path, "2d", clock)
    first = await one_run(server)
    await clock.advance(timedelta(days=1, hours=12).total_seconds())
    second = await one_run(server)
    task = asyncio.create_task(prune_daily(server))
    try:
        await until(lambda: clock.sleepers > 0)
        assert await server.smith.store.runs() == [first, second]
        await clock.advance(86_400)
        await until(lambda: clock.sleepers > 0)
        assert await server.smith.store.runs() == [second]
    finally:
        task.cancel()
        await server.smith.close()
