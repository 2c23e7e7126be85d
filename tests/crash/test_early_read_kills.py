"""A process that is killed while it reads early: the run goes on, and the read is told."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

from tests import forked

from plansmith import Plansmith, RunStatus
from plansmith.plan import events as e
from plansmith.plan.events import PrefetchEnded, PrefetchStarted
from plansmith.store.sqlite import SqliteStore
from plansmith.testing import FakeTool, FakeTools, ScriptedModel
from plansmith_planner.settings import PlannerSettings

CHILD = """
import asyncio, json, sys
from pathlib import Path
from plansmith import Effect, Plansmith, ToolSpec
from plansmith.store.sqlite import SqliteStore
from plansmith_planner.settings import PlannerSettings
from plansmith.store.sqlite import SqliteStore
from plansmith_cli.config import Settings
from plansmith.ports import TextDelta

class Half:
    name = "half"
    async def stream(self, *_, **__):
        yield TextDelta('{"steps": [{"id": "a", "tool": "look", "inputs": {"q": "x"}}, ')
        await asyncio.Event().wait()

class Look:
    async def tools(self):
        return [ToolSpec(name="look", input_schema={}, effect=Effect.READ)]
    async def call(self, tool, arguments, call):
        print("reading", flush=True)
        await asyncio.Event().wait()

settings = PlannerSettings(triage=False)
app = Plansmith(model=Half(), tools=[Look()], store=SqliteStore(sys.argv[1]), settings=settings)
asyncio.run(app.plan("look at it"))
"""


async def test_a_killed_early_read_is_told_as_unknown_and_the_run_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    child = forked.Popen(
        [sys.executable, "-c", CHILD, str(path)], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert await asyncio.to_thread(child.stdout.readline) == "reading\n"
    os.kill(child.pid, signal.SIGKILL)
    await asyncio.to_thread(child.communicate)

    tools = FakeTools(FakeTool("look", ["seen"]))
    model = ScriptedModel({"steps": [{"id": "a", "tool": "look", "inputs": {"q": "x"}}]})
    settings = PlannerSettings(triage=False)
    app = Plansmith(model=model, tools=[tools], store=SqliteStore(path), settings=settings)
    await app.runs.resume_all()
    [listed] = await app.runs()
    run = await app.runs.run(listed.id)
    assert run.status is RunStatus.DONE
    assert len(tools.calls) == 1
    bodies = [each.body for each in await app.store.events(run.id)]
    kinds = [type(body) for body in bodies]
    assert kinds[:3] == [e.RunCreated, PrefetchStarted, PrefetchEnded]
    dead = run.prefetches[f"{run.id}/early/1"]
    assert (dead.over, dead.ended_at, dead.result) == (True, None, "")
    assert "not known how it ended" in dead.error
    assert "not known how it ended" in run.report
    await app.close()
