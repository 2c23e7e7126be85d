"""A replan that drops an approved effect, at the command line: no flag agrees to it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from tests.unit.cli.conftest import Cli

from plansmith import Effect, RunStatus
from plansmith.app import Plansmith
from plansmith.errors import ToolFailed
from plansmith.plan.limits import Limits
from plansmith.testing import FakeTool, FakeTools, ScriptedModel
from plansmith_planner.settings import PlannerSettings

BROKEN: dict[str, Any] = {"id": "b", "tool": "broken", "inputs": {"name": "x"}}
NOTE: dict[str, Any] = {"id": "n", "tool": "note", "inputs": {"text": "hello"}, "after": ["b"]}
LOOK: dict[str, Any] = {"id": "l", "tool": "look", "inputs": {"name": "x"}}


async def _replanned(store: str) -> tuple[str, str]:
    """A run whose replan, which waits for a person, only reads where a note was approved."""
    drafts = [{"goal": "note it", "steps": [BROKEN, NOTE]}, {"goal": "look", "steps": [LOOK]}]
    tools = FakeTools(
        FakeTool("look"),
        FakeTool("broken", [ToolFailed("no")]),
        FakeTool("note", [1], Effect.WRITE),
    )
    async with Plansmith(
        model=ScriptedModel(*drafts),
        tools=[tools],
        store=store,
        limits=Limits(first_wait_s=0),
        settings=PlannerSettings(triage=False),
    ) as smith:
        run = await smith.plan("note it", by="ada")
        assert run.plan is not None
        await smith.decide(run.id, approve=run.plan.hash, by="ada")
        run = await smith.run(run.id)
        assert run.status is RunStatus.REVIEWING
        assert run.plan is not None
        return run.id, run.plan.hash


def test_a_flag_for_plans_that_only_read_does_not_agree_to_a_dropped_effect(
    cli: Cli, tmp_path: Path
) -> None:
    (tmp_path / "store").mkdir()
    run, digest = asyncio.run(_replanned(f"sqlite:///{tmp_path / 'store' / 'runs.db'}"))
    code, _, err = cli("go", run, "--tools", "tools.py", "--yes-read-only", "--no-input")
    assert code == 5
    assert 'no longer calls note(text="hello"), which you approved' in err
    code, out, _ = cli("go", run, "--tools", "tools.py", "--approve-plan", digest)
    assert code == 7
    assert 'Not done, although it was approved: note(text="hello")' in out.replace("\\", "")
