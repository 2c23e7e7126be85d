"""R1 and R2: a real process killed with -9 at every event boundary of a 20-step plan."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from tests import forked
from tests.crash.worker import Service, twenty_steps

from plansmith import RunStatus, StepStatus
from plansmith.app import Plansmith
from plansmith.plan.events import StepDone, verify_chain
from plansmith.store.sqlite import SqliteStore

ROOT = Path(__file__).parents[2]
ORDINARY = [0, 1, 3, 6, 10, 15]
BOUNDARIES = range(26) if os.environ.get("PLANSMITH_LONG") else ORDINARY


def work(folder: Path, appends: int, when: str) -> subprocess.CompletedProcess[str]:
    """A new run in a process that dies before or after that many appends."""
    return forked.run(
        [
            *(sys.executable, "-m", "tests.crash.worker"),
            *(str(folder / "store.db"), str(folder / "service.txt"), "new", str(appends), when),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("appends", BOUNDARIES)
async def test_a_killed_run_ends_or_asks_and_repeats_nothing_blindly(
    appends: int, when: str, tmp_path: Path
) -> None:
    first = work(tmp_path, appends, when)
    run_id = first.stdout.split()[0]
    if first.returncode == 0:
        assert first.stdout.split()[1] == "done"
    else:
        assert first.returncode == -signal.SIGKILL
    before = SqliteStore(tmp_path / "store.db")
    recorded = [e.body for e in await before.events(run_id) if isinstance(e.body, StepDone)]
    await before.close()

    app = Plansmith(
        tools=[Service(tmp_path / "service.txt")], store=SqliteStore(tmp_path / "store.db")
    )
    run = await app.runs.run(run_id)
    assert run.status in (RunStatus.DONE, RunStatus.ASKING)
    for question in run.questions:
        assert run.steps[question.removeprefix("unknown:")].status is StepStatus.UNKNOWN
        await app.answer(run_id, question, "done")
    run = await app.runs.run(run_id)
    assert run.status is RunStatus.DONE

    store = SqliteStore(tmp_path / "store.db")
    events = list(await store.events(run_id))
    await store.close()
    await app.close()
    verify_chain(events)
    assert len(events) >= len(recorded)
    done = Counter(e.body.step for e in events if isinstance(e.body, StepDone))
    assert done == Counter({step.id: 1 for step in twenty_steps().steps})
    for body in recorded:
        assert run.steps[body.step].result_hash == body.result

    calls = Counter(
        tuple(line.split()) for line in (tmp_path / "service.txt").read_text().splitlines()
    )
    known = {body.step for body in recorded}
    for (tool, name, _), count in calls.items():
        if tool == "write":
            assert count == 1
        if name in known:
            assert count == 1
    assert len({key for _, _, key in calls}) == len(calls)
