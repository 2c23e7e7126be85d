"""R3: two processes conduct the same run on one store, and each step has one recorded result."""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import PIPE
from collections import Counter
from pathlib import Path

import pytest
from tests import forked
from tests.crash.worker import Service, twenty_steps

from plansmith import RunStatus
from plansmith.app import Plansmith
from plansmith.plan.events import RunFinished, StepDone, verify_chain
from plansmith.store.sqlite import SqliteStore

ROOT = Path(__file__).parents[2]
ROUNDS = 20 if os.environ.get("PLANSMITH_LONG") else 2


@pytest.mark.parametrize("round_", range(ROUNDS))
async def test_two_executors_record_each_result_once(round_: int, tmp_path: Path) -> None:
    service = Service(tmp_path / "service.txt")
    app = Plansmith(tools=[service], store=SqliteStore(tmp_path / "store.db"))
    plan = twenty_steps()
    run = await app.submit(plan)
    await app.decide(run.id, approve=plan.hash, by="ada")
    await app.close()

    command = [
        *(sys.executable, "-m", "tests.crash.worker"),
        *(str(tmp_path / "store.db"), str(tmp_path / "service.txt"), run.id, "1000000", "after"),
    ]
    rivals = [
        await forked.create_subprocess_exec(*command, cwd=ROOT, stdout=PIPE, stderr=PIPE)
        for _ in range(2)
    ]
    async with asyncio.timeout(120):
        outputs = [await rival.communicate() for rival in rivals]
    assert [rival.returncode for rival in rivals] == [0, 0], outputs

    app = Plansmith(tools=[service], store=SqliteStore(tmp_path / "store.db"))
    for _ in range(30):
        run = await app.runs.run(run.id)
        if run.status.over:
            break
        for question in list(run.questions):
            await app.answer(run.id, question, "done", by="ada")
    assert run.status is RunStatus.DONE
    events = list(await app.store.events(run.id))
    await app.close()
    verify_chain(events)
    done = Counter(event.body.step for event in events if isinstance(event.body, StepDone))
    assert done == Counter({step.id: 1 for step in plan.steps})
    assert sum(isinstance(event.body, RunFinished) for event in events) == 1
