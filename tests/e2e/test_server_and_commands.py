"""A server beside a command line on one store, and with a queue before what executes runs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.crash.test_several_servers import Machine, serving
from tests.needs import lacks
from tests.postgres import installed, private_server
from tests.waiting import until

from plansmith_cli.doctor import diagnose

NOTE = {"id": "n", "tool": "act", "inputs": {"name": "once", "seconds": 0.01}}
HANG = {"id": "n", "tool": "act", "inputs": {"name": "paid"}}
ASK = {"id": "which", "question": "Which?"}
ON_TOOLS = ("--tools", "tools.py")


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Machine]:
    async with serving(tmp_path, f"sqlite:///{tmp_path / 'runs.db'}", "") as machine:
        yield machine


async def begin(server: Machine, *steps: dict[str, Any]) -> Any:
    return await server.post("/v1/runs", {"plan": {"goal": "g", "steps": [*steps]}})


async def command(server: Machine, *words: str) -> Any:
    code, said = await server.workers.command(*words)
    assert code == 0, said
    return said


async def killed(
    server: Machine, check: Callable[[str], Awaitable[None]], *steps: dict[str, Any]
) -> str:
    """A run of a command that is stopped in the middle of an endless call, and killed then."""
    workers = server.workers
    (workers.folder / "plan.json").write_text(json.dumps({"goal": "g", "steps": [*steps]}))
    code, run = await workers.command("run", "plan.json", "--no-input", *ON_TOOLS)
    assert code == 5, run
    process = await workers.begin("approve", run["id"], run["hash"], "--go", *ON_TOOLS)
    await until(lambda: bool(workers.effects) or process.returncode is not None)
    process.send_signal(signal.SIGSTOP)
    try:
        await check(run["id"])
    finally:
        process.kill()
        await process.wait()
    return str(run["id"])


async def test_what_is_decided_and_answered_on_the_command_line_goes_on_once_in_the_server(
    server: Machine,
) -> None:
    run = await begin(server, ASK, {**NOTE, "after": ["which"]})
    await command(server, "approve", run["id"], run["hash"])
    await server.until(run["id"], "asking")
    await command(server, "answer", run["id"], "this one")
    state = await server.until(run["id"], "done")
    assert state["steps"]["which"]["result"] == "this one"
    assert state["steps"]["n"]["attempts"] == 1
    run = await begin(server, NOTE)
    # Both could execute it.
    await command(server, "approve", run["id"], run["hash"], "--go", *ON_TOOLS)
    await server.until(run["id"], "done")
    assert server.workers.effects == ["once", "once"]


async def test_a_run_of_a_command_that_is_killed_beside_a_server_is_taken_over_and_asks(
    server: Machine,
) -> None:
    async def is_refused(run: str) -> None:
        answer = await server.client.post(f"/v1/runs/{run}/resume", json={})
        assert (answer.status_code, answer.json()["code"]) == (409, "run_busy")

    run = await killed(server, is_refused, HANG, {**NOTE, "id": "m", "after": ["n"]})
    # Nobody restarts anything: a run that nobody runs is not left standing as "running".
    state = await server.until(run, "asking")
    assert [each["question"] for each in state["questions"]] == ["unknown:n"]
    assert server.workers.effects == ["paid"]
    await server.post(f"/v1/runs/{run}/answers", {"question": "unknown:n", "answer": "done"})
    await server.until(run, "done")
    assert server.workers.effects == ["paid", "once"]


async def test_a_run_that_another_process_is_at_is_not_deleted_and_then_leaves_a_tombstone(
    server: Machine,
) -> None:
    async def is_refused(run: str) -> None:
        answer = await server.client.delete(f"/v1/runs/{run}")
        assert (answer.status_code, answer.json()["code"]) == (409, "run_busy")
        assert "wait for it, or stop that process" in answer.json()["hint"]
        assert (await server.run(run))["status"] == "cancelled"

    run = await killed(server, is_refused, HANG)
    assert (await server.client.delete(f"/v1/runs/{run}")).status_code == 204
    assert (await server.client.get(f"/v1/runs/{run}")).status_code == 404
    # It happened, and although the journal is gone somebody is told that it may have.
    assert server.workers.effects == ["paid"]
    findings = await diagnose(server.workers.url)
    [found] = [each for each in findings if each.subject == f"run {run}"]
    assert found.level == "warning"
    assert "nobody knew whether act took effect (step n, called at 20" in found.message


ROOT = Path(__file__).parents[2]
# DBOS leaves connections of its own (ours are asynchronous) to the garbage collector.
DBOS_LEAVES = ("-W", "ignore:<psycopg.Connection object:ResourceWarning")
# Those that open the file of a store beside the server are left out: here it is a database.
SERVER = "packages/plansmith-server/tests/e2e"
STORIES = (
    *(f"{SERVER}/test_server_{name}.py" for name in ("runs", "events")),
    "tests/e2e/test_page_story.py",
)


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("stories", STORIES)
def test_the_stories_of_the_server_are_the_same_with_a_queue(stories: str) -> None:
    if installed() is None:
        lacks("initdb")
    with private_server() as server:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *DBOS_LEAVES, stories],
            env=os.environ | {"PLANSMITH_TEST_ENGINE_STORE": server.new_database("stories")},
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stdout[-5000:]
