"""What a server does unasked goes on beside what fails."""

from __future__ import annotations

import asyncio
import io
from pathlib import Path

import pytest
from tests.waiting import until

from plansmith.store.memory import MemoryStore
from plansmith_cli.config import Settings
from plansmith_cli.server_wiring import ServerWiring
from plansmith_server.ops.logs import Log
from plansmith_server.serve import make_state
from plansmith_server.upkeep import upkeep


@pytest.mark.parametrize("failure", [ValueError("no"), None])
async def test_orphans_are_adopted_while_and_although_summing_up_goes_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: Exception | None
) -> None:
    said, adopting = io.StringIO(), asyncio.Event()
    wiring = ServerWiring(Settings(store=f"sqlite:///{tmp_path / 'runs.db'}"))
    server = make_state(wiring, log=Log(said), tools=[], store=MemoryStore())

    async def sum_up() -> None:
        if failure is not None:
            raise failure
        await asyncio.Event().wait()

    async def adopt_orphans() -> None:
        adopting.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(server.smith.runs.lists, "sum_up", sum_up)
    monkeypatch.setattr(server.background, "_adopt_orphans", adopt_orphans)
    tasks = [asyncio.create_task(each) for each in upkeep(server)]
    try:
        await until(adopting.is_set)
        assert server.ready
        await until(lambda: ("runs_not_summed_up" in said.getvalue()) is (failure is not None))
        assert "runs_not_resumed" not in said.getvalue()
    finally:
        for each in tasks:
            each.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.smith.close()
