"""Stories with rules, their processes killed with -9 at every append, edited and replanned."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.crash.rule_stories import STORIES, Shop
from tests.crash.rule_worker import Life, Worker

from plansmith.plan.events import StepDone, verify_chain
from plansmith.plan.fold import fold
from plansmith.plan.run import Run
from plansmith.store.sqlite import SqliteStore

LONG = bool(os.environ.get("PLANSMITH_LONG"))
KILLED = -signal.SIGKILL
MOST_APPENDS = 200
# Which appends are tried in an ordinary run: every so many, in each story from another one on.
STEP = {"kill": 25, "edit": 40, "replan": 40}
# An ordinary run edits and replans every third story, each kind others.
CASES = [
    (name, kind)
    for place, name in enumerate(STORIES)
    for offset, kind in enumerate(STEP)
    if LONG or kind == "kill" or place % 3 == offset
]


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    """The process that makes the processes of the stories."""
    with Worker() as made:
        yield made


async def told(folder: Path) -> dict[str, Any]:
    """Tells how a story ended: by the shop's books, and by the journals."""
    store = SqliteStore(folder / "store.db")
    runs: dict[str, Any] = {}
    for run_id in sorted(await store.runs()):
        events = list(await store.events(run_id))
        verify_chain(events)
        done = [each.body.step for each in events if isinstance(each.body, StepDone)]
        assert len(done) == len(set(done))
        run = fold(events)
        runs["undo" if "-undo" in run_id else "run"] = {
            "status": str(run.status),
            "steps": {
                name: (str(each.status), each.rule, await _result(store, run, name))
                for name, each in run.steps.items()
            },
        }
    await store.close()
    return {"deeds": Shop(folder / "shop.txt").deeds(), **runs}


async def _result(store: SqliteStore, run: Run, name: str) -> Any:
    """The result of a step; after a lost call, the one that the person told."""
    digest = run.steps[name].result_hash
    return await store.get(digest) if digest else None


async def ended(worker: Worker, life: Life) -> dict[str, Any]:
    """Lives a story to its end without any trouble; tells how it ended."""
    assert worker.live(life) == 0
    return await told(Path(life.folder))


def kills(name: str, kind: str) -> Iterator[tuple[int, bool]]:
    """The appends at which a process dies, before or after: all, or some for an ordinary run."""
    if LONG:
        yield from ((place, before) for place in range(MOST_APPENDS) for before in (True, False))
    else:
        first = [*STORIES].index(name) * 7 % 10
        for place in range(first, MOST_APPENDS, STEP[kind]):
            yield place, place % 2 == 0


async def all_killed(worker: Worker, folder: Path, name: str, kind: str) -> int:
    """Kills a story at each append, and goes on in another process; returns how many died."""
    replans = kind == "replan"
    (folder / "calm").mkdir()
    calm = Life(str(folder / "calm"), name, change="edit" * (kind == "edit"), replans=replans)
    expected = await ended(worker, calm)
    died = 0
    for place, before in kills(name, kind):
        where = folder / f"{place}{before}"
        where.mkdir()
        first = Life(str(where), name, place, before, replans=replans)
        code = worker.live(first)
        assert code in (0, KILLED)
        if code == 0:
            break
        died += 1
        then = Life(str(where), name, change=calm.change, replans=replans)
        found = await ended(worker, then)
        over = kind == "edit" and "added" not in found["run"]["steps"]  # too late for an edit
        assert over or found == expected, f"killed at append {place}, before it: {before}"
    return died


@pytest.mark.parametrize(("name", "kind"), CASES)
async def test_a_story_with_rules_ends_alike_wherever_its_process_is_killed(
    name: str, kind: str, worker: Worker, tmp_path: Path
) -> None:
    """With `edit` a person changes the plan before it goes on, with `replan` a model does."""
    assert await all_killed(worker, tmp_path, name, kind) > 0


@pytest.mark.long
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("name", STORIES)
async def test_a_story_whose_processes_die_again_and_again_ends_alike(
    name: str, seed: int, worker: Worker, tmp_path: Path
) -> None:
    (tmp_path / "calm").mkdir()
    (tmp_path / "wild").mkdir()
    replans = seed % 4 == 0
    expected = await ended(worker, Life(str(tmp_path / "calm"), name, replans=replans))
    deaths = random.Random(f"{name} {seed}")
    for _ in range(8):
        place, before = deaths.randrange(1, 9), deaths.random() < 0.5
        worker.live(Life(str(tmp_path / "wild"), name, place, before, replans=replans))
    assert await ended(worker, Life(str(tmp_path / "wild"), name, replans=replans)) == expected
