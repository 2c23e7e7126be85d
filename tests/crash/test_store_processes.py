"""One SQLite store used by several real processes, from a cleanly closed file on."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import sys
from pathlib import Path
from typing import Any

import pytest
from tests import forked
from tests.contract.threads import story
from tests.crash.test_several_servers import serving
from tests.e2e.test_server_restart import TOOLS
from tests.worker_processes import Workers

from plansmith.plan.thread import ThreadState, fold_thread
from plansmith.store.doctor import diagnose, verify
from plansmith.store.sqlite import SqliteStore
from plansmith.testing.contracts import journal
from plansmith_planner.threads.store import ThreadStore, check_threads

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What a process that does everything with a store says of its locks and of open files."""
    folder = tmp_path_factory.mktemp("kept")

    async def begin() -> None:
        store = SqliteStore(folder / "runs.db")
        await store.append(journal("a", 3))
        await store.close()

    asyncio.run(begin())
    (folder / "notes.md").write_text("what can be seen")
    done = forked.run(
        [sys.executable, "-m", "tests.crash.store_keeper", str(folder / "runs.db")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return str(done.stdout).splitlines()


def test_a_process_keeps_its_locks_on_the_store_through_every_operation(report: list[str]) -> None:
    counts = dict(line.split(": ") for line in report[:-1])
    assert {"doctor", "verify", "file tool", "folder tool"} < set(counts)
    # One on the file, one on the shared memory: without them another process deletes the log.
    assert all(int(count) >= 2 for count in counts.values()), counts


def test_nobody_but_sqlite_opens_the_files_of_the_store(report: list[str]) -> None:
    assert report[-1] == "opened: []"


PLAN: dict[str, Any] = {
    "goal": "see",
    "steps": [{"id": "a", "kind": "tool", "tool": "quick", "inputs": {"name": "cli"}}],
}


async def run_by_command(workers: Workers) -> str:
    """`plansmith run` as a process of its own; the id of its run."""
    words = ("run", "plan.json", "--no-input", "--tools", "tools.py")
    code, run = await workers.command(*words)
    assert code == 0, run
    return str(run["id"])


async def test_a_server_and_commands_on_one_store_lose_no_run(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "runs.db")
    await store.append(journal("a", 3))
    await store.close()
    (tmp_path / "plan.json").write_text(json.dumps(PLAN))
    (tmp_path / "tools.py").write_text(TOOLS)
    made: list[str] = []
    async with serving(tmp_path, f"sqlite:///{tmp_path / 'runs.db'}", "one") as server:
        client = server.client
        for _ in range(2):
            for _ in range(2):
                answer = await client.post("/v1/runs", json={"plan": PLAN, "mode": "read_only"})
                made.append(answer.json()["id"])
            made += await asyncio.gather(*(run_by_command(server.workers) for _ in range(2)))
        listed = (await client.get("/v1/runs", params={"limit": 100})).json()["items"]
        assert set(made) <= {each["id"] for each in listed}
    again = SqliteStore(tmp_path / "runs.db")
    assert set(made) <= set(await again.runs())
    for run in made:
        assert await verify(again, run) > 1
    await again.close()
    findings = await diagnose(f"sqlite:///{tmp_path / 'runs.db'}")
    assert all(found.level == "ok" for found in findings), findings


@pytest.mark.parametrize("before", [False, True], ids=["new", "open-to-all"])
async def test_the_files_of_a_store_are_its_owners_alone(tmp_path: Path, *, before: bool) -> None:
    path = tmp_path / "runs.db"
    mask = os.umask(0)
    try:
        if before:
            store = SqliteStore(path)
            await store.append(journal("a", 1))
            await store.close()
            path.chmod(0o644)
        store = SqliteStore(path)
        await store.append(journal("b", 1))
        await store.runs()
        files = [path, Path(f"{path}-wal"), Path(f"{path}-shm")]
        assert [stat.S_IMODE(file.stat().st_mode) for file in files] == [0o600] * 3
        await store.close()
    finally:
        os.umask(mask)


# One thread written by several processes, some of them killed


MANY = 1_000_000


async def writer(url: str, name: str, count: int) -> asyncio.subprocess.Process:
    return await forked.create_subprocess_exec(
        *(sys.executable, "-m", "tests.crash.store_writer", url, "talk", name, str(count)),
        stdout=asyncio.subprocess.PIPE,
        cwd=ROOT,
    )


async def test_processes_that_write_one_thread_at_once_keep_it_in_order_and_lose_nothing(
    tmp_path: Path,
) -> None:
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    store = SqliteStore(tmp_path / "runs.db")
    assert await ThreadStore(store).append_entries(story("trip")[:1])
    follower = asyncio.ensure_future(ThreadStore(store).wait_thread("trip", after=40))
    killed = await writer(url, "killed", MANY)
    others = [await writer(url, name, 15) for name in ("ann", "bob")]
    assert killed.stdout is not None
    acknowledged = [await killed.stdout.readline() for _ in range(5)]
    killed.kill()
    acknowledged += (await killed.stdout.read()).splitlines()
    outputs = [(await each.communicate())[0].splitlines() for each in others]
    await asyncio.wait_for(follower, 60)
    state = fold_thread(ThreadState("trip"), await ThreadStore(store).thread_entries("trip"))
    texts = {each.number: each.text for each in state.messages}
    names = ["killed", "ann", "bob"]
    for name, lines in zip(names, (acknowledged, *outputs), strict=True):
        # A line that a kill cut off is not acknowledged.
        for number, turn in (line.split() for line in lines if len(line.split()) == 2):
            assert texts[int(number)] == f"{name} {int(turn)}"
    assert sum(text.startswith("ann") for text in texts.values()) == 15
    assert sum(text.startswith("bob") for text in texts.values()) == 15
    # All or none: no message without what it was taken for.
    assert all(each.run == each.text.replace(" ", "-") for each in state.messages)
    assert await ThreadStore(store).thread_of("bob-14") == "trip"
    [listed] = await ThreadStore(store).threads(limit=2)
    assert (listed.messages, listed.last) == (len(texts), state.last)
    await store.close()
    assert "error" not in {each.level for each in await diagnose(url, checks=[check_threads])}
