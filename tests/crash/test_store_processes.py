"""One SQLite store used by several processes, of which any is killed or stopped."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import stat
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests import forked
from tests.contract.threads import story
from tests.crash.test_several_servers import Machine, serving, started
from tests.e2e.test_server_restart import TOOLS
from tests.worker_processes import Workers

from plansmith import Plan
from plansmith.app import Plansmith
from plansmith.plan.ids import call_key
from plansmith.plan.timing import Timing
from plansmith.store.sqlite import SqliteStore
from plansmith.testing.contracts import journal
from plansmith.verify import verify
from plansmith_cli.doctor import diagnose
from plansmith_planner.threads.entries import ThreadState, fold_thread
from plansmith_planner.threads.store import ThreadStore

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
    assert "error" not in {each.level for each in await diagnose(url)}


# A server, commands and a schedule while any of them is killed or stopped


SEED = int(os.environ.get("PLANSMITH_SEED", "12"))
TURNS, MANY_TURNS = 10, 6000
STEPS: list[dict[str, Any]] = [
    {
        "id": f"s{number}",
        "kind": "tool",
        "tool": "act",
        "inputs": {"name": f"n{number}", "seconds": 0.05},
        "after": [f"s{number - 1}"] if number else [],
    }
    for number in range(4)
]
FOUR_MARKS = Plan.model_validate({"goal": "leave four marks", "steps": STEPS})
HAPPENS = ["post"] * 6 + ["run"] * 2 + ["fire"] + ["kill"] * 3 + ["stop"] * 2
Process = asyncio.subprocess.Process


class Story(Workers):
    """The processes, the file of effects, and the dice."""

    def __init__(self, folder: Path, seed: int) -> None:
        (folder / "plan.json").write_text(FOUR_MARKS.model_dump_json(exclude_defaults=True))
        super().__init__(folder, f"sqlite:///{folder / 'runs.db'}", lease_s=20)
        self.dice = random.Random(seed)
        self.acknowledged: set[str] = set()
        self.server: Machine | None = None
        self.others: list[Process] = []
        self.kills = 0
        self.first = ["kill", "post", "fire", "post", "run", "post"]

    async def spawn(self, *words: str) -> None:
        closed: dict[str, Any] = dict.fromkeys(
            ("stdin", "stdout", "stderr"), asyncio.subprocess.DEVNULL
        )
        tools = ("--tools", str(self.folder / "tools.py"))
        self.others.append(await self.begin(*words, *tools, **closed))

    async def serve(self) -> Machine:
        """The server; it is started if there is none."""
        if self.server is None or self.server.process.returncode is not None:
            if self.server is not None:
                await self.server.client.aclose()
            self.server = await started(self, "")
            self.server.client.timeout = httpx.Timeout(10)
        return self.server

    async def post(self, client: httpx.AsyncClient) -> None:
        """A run over HTTP; what was answered is acknowledged."""
        with suppress(httpx.HTTPError):
            made = await client.post("/v1/runs", json={"plan": FOUR_MARKS.to_json()})
            if made.status_code == 202:
                run = made.json()
                self.acknowledged.add(run["id"])
                path = f"/v1/runs/{run['id']}/decision"
                await client.post(path, json={"approve": run["hash"]})

    async def turn(self, schedule: str) -> None:
        """One thing that happens: a run begins somewhere, or a process is hit."""
        server = await self.serve()
        # Each of them once, and then as it falls.
        match self.first.pop() if self.first else self.dice.choice(HAPPENS):
            case "post":
                await self.post(server.client)
            case "run":
                await self.spawn(
                    "run", "plan.json", "--approve-plan", FOUR_MARKS.hash, "--no-input"
                )
            case "fire":
                await self.spawn("schedule", "run-now", schedule)
            case "kill":
                self.hit(signal.SIGKILL)
            case _:
                await self.stop_a_while()
        self.others = [each for each in self.others if each.returncode is None]
        await asyncio.sleep(self.dice.uniform(0.0, 0.6))

    def hit(self, how: signal.Signals) -> Process | None:
        processes = [*self.others, *([self.server.process] if self.server else [])]
        alive = [each for each in processes if each.returncode is None]
        if not alive:
            return None
        victim = self.dice.choice(alive)
        with suppress(ProcessLookupError):
            victim.send_signal(how)
            self.kills += how is signal.SIGKILL
        return victim

    async def stop_a_while(self) -> None:
        """A process that is stopped keeps its runs, and goes on with them."""
        victim = self.hit(signal.SIGSTOP)
        await asyncio.sleep(self.dice.uniform(0.1, 0.8))
        if victim is not None:
            with suppress(ProcessLookupError):
                victim.send_signal(signal.SIGCONT)

    async def end(self) -> None:
        """Let the commands end and kill the server."""
        async with asyncio.timeout(120):
            for each in self.others:
                await each.wait()
        await self.stop_all()
        if self.server is not None:
            await self.server.client.aclose()


async def settle(story: Story, smith: Plansmith) -> None:
    """Go on with all that was left, and answer by what really happened."""
    for _ in range(50):
        await smith.runs.resume_all()
        waiting = [each for each in await smith.runs.all() if not each.status.over]
        begun = [run for run in waiting if run.questions or run.is_approved]
        if not begun:
            return
        for run in begun:
            for question in run.questions:
                step = question.removeprefix("unknown:")
                key = call_key(run.id, step, run.steps[step].call_mark)
                word = "done" if key in story.keys else "retry"
                await smith.answer(run.id, question, word, by="ada")
            await smith.runs.run(run.id)
    pytest.fail("some run is stuck")


async def play(folder: Path, turns: int, seed: int) -> None:
    story = Story(folder, seed)
    async with story.smith() as smith:
        made = await smith.schedules.create(
            timing=Timing(every_minutes=600),
            plan=FOUR_MARKS,
            approve=FOUR_MARKS.hash,
            overlap="allow",
            by="ada",
        )
    for _ in range(turns):
        await story.turn(made.id)
    await story.end()

    async with story.smith() as smith:
        await settle(story, smith)
        known = {run.id: run for run in await smith.runs.all()}
        marks = Counter(story.keys)
        assert story.acknowledged <= known.keys(), "an acknowledged run is lost"
        assert {key.split("/")[0] for key in marks} <= known.keys(), "a run that acted is lost"
        assert set(marks.values()) <= {1}, "something was done twice"
        for run in known.values():
            assert not run.damage
            await verify(smith.store, run.id)
            if run.is_approved:
                assert run.status.value == "done"
                assert sum(key.startswith(run.id) for key in marks) == len(STEPS)
    findings = await diagnose(story.url)
    assert all(found.level != "error" for found in findings), findings
    assert story.kills
    assert len(known) >= len(story.acknowledged) > 1


@pytest.mark.timeout(900)
async def test_a_server_commands_and_a_schedule_on_one_file_lose_nothing_when_killed(
    tmp_path: Path,
) -> None:
    await play(tmp_path, TURNS, SEED)


@pytest.mark.long
async def test_they_lose_nothing_in_an_hour_either(tmp_path: Path) -> None:
    await play(tmp_path, MANY_TURNS, SEED + 1)
