"""A server and the command line on one store: what one decides, the other notices, once."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests import forked

from plansmith.store.doctor import diagnose

TOOLS = """
import pathlib
import time

from plansmith.tools.functions import tool

HERE = pathlib.Path(__file__).parent


@tool(effect="write")
def note(text: str) -> str:
    "Write a line down."
    with (HERE / "notes.txt").open("a") as file:
        file.write(f"{text}\\n")
    return text


@tool(effect="write")
def hang(text: str) -> str:
    "Write a line down and take for ever."
    note(text)
    (HERE / "began").touch()
    while True:
        time.sleep(1)
"""
NOTE = {"id": "n", "tool": "note", "inputs": {"text": "once"}}
ASK = {"id": "which", "question": "Which?"}


class Desk:
    """A folder with a server in it, and commands beside the server."""

    def __init__(self, folder: Path, client: httpx.Client) -> None:
        self.folder = folder
        self.client = client

    def _parts(self, words: Sequence[str]) -> list[str]:
        own = ["--store", "sqlite:///runs.db", "--tools", "tools.py", "--model", "demo"]
        return [sys.executable, "-m", "plansmith_cli", *words, *own]

    def command(self, *words: str) -> subprocess.CompletedProcess[str]:
        return forked.run(
            self._parts(words),
            cwd=self.folder,
            env=_environment(self.folder),
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            check=False,
        )

    def approved(self, *steps: dict[str, Any]) -> list[str]:
        """The words of a command that approves and executes a plan, which a command submitted."""
        (self.folder / "plan.json").write_text(json.dumps({"goal": "g", "steps": [*steps]}))
        made = self.command("run", "plan.json", "--no-input")
        run, digest = re.findall(r"plansmith approve (\S+) (\S+)", made.stdout + made.stderr)[0]
        return ["approve", run, digest, "--go"]

    def killed(self, words: Sequence[str], before: Callable[[], None]) -> None:
        """A command that is stopped in the middle of the call that takes for ever, then killed."""
        with forked.Popen(
            self._parts(words),
            cwd=self.folder,
            env=_environment(self.folder),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as process:
            while not (self.folder / "began").exists():
                assert process.poll() is None
                time.sleep(0.02)
            process.send_signal(signal.SIGSTOP)
            try:
                before()
            finally:
                process.send_signal(signal.SIGKILL)
                (self.folder / "began").unlink()

    def begin(self, *steps: dict[str, Any]) -> Any:
        answer = self.client.post("/v1/runs", json={"plan": {"goal": "g", "steps": [*steps]}})
        assert answer.status_code == 202, answer.text
        return answer.json()

    def until(self, run: str, status: str) -> Any:
        """The run once it stands so, as the server tells it; each look waits for an event."""
        with self.client.stream("GET", "/v1/events", params={"run": run}) as stream:
            for line in stream.iter_lines():
                if line.startswith("data:"):
                    state = self.client.get(f"/v1/runs/{run}").json()
                    if state["status"] == status:
                        return state
        raise AssertionError("the stream ended")

    @property
    def notes(self) -> list[str]:
        path = self.folder / "notes.txt"
        return path.read_text().splitlines() if path.exists() else []


def _environment(folder: Path) -> dict[str, str]:
    home = {"XDG_DATA_HOME": str(folder / "data"), "XDG_CONFIG_HOME": str(folder / "config")}
    return {**os.environ, **home}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    tmp_path = tmp_path_factory.mktemp("desk")
    (tmp_path / "config/plansmith").mkdir(parents=True)
    (tmp_path / "config/plansmith/config.toml").write_text("[run]\ngrace_s = 0.2\n")
    (tmp_path / "tools.py").write_text(TOOLS)
    words = ["serve", "--port", "0", "--no-browser", "--model", "demo", "--tools", "tools.py"]
    words += ["--store", "sqlite:///runs.db", "--token-file", "token"]
    with forked.Popen(
        [sys.executable, "-m", "plansmith_cli", *words],
        cwd=tmp_path,
        env=_environment(tmp_path),
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        url = ""
        for line in process.stderr:
            url = url or "".join(re.findall(r"http://[\d.:]+", line))
            if '"ready"' in line:
                break
        # Read on, so that the process never waits for us.
        draining = threading.Thread(target=process.stderr.read)
        draining.start()
        headers = {"Authorization": f"Bearer {(tmp_path / 'token').read_text().strip()}"}
        try:
            with httpx.Client(base_url=url, headers=headers, timeout=120) as client:
                yield Desk(tmp_path, client)
        finally:
            process.terminate()
            process.wait(120)
            draining.join()


@pytest.fixture
def intake(served: Desk) -> Desk:
    """The server of all these tests, before an empty sheet of notes."""
    (served.folder / "notes.txt").unlink(missing_ok=True)
    return served


def test_what_is_decided_and_answered_on_the_command_line_goes_on_once_in_the_server(
    intake: Desk,
) -> None:
    run = intake.begin(ASK, {**NOTE, "after": ["which"]})
    done = intake.command("approve", run["id"], run["hash"])
    assert done.returncode == 0, done.stderr
    intake.until(run["id"], "asking")
    done = intake.command("answer", run["id"], "this one")
    assert done.returncode == 0, done.stderr
    state = intake.until(run["id"], "done")
    assert state["steps"]["which"]["result"] == "this one"
    assert state["steps"]["n"]["attempts"] == 1
    run = intake.begin(NOTE)
    done = intake.command("approve", run["id"], run["hash"], "--go")  # both could execute it
    assert done.returncode == 0, done.stderr
    intake.until(run["id"], "done")
    assert intake.notes == ["once", "once"]


def test_a_run_of_a_command_that_is_killed_beside_a_server_is_taken_over_and_asks(
    intake: Desk,
) -> None:
    words = intake.approved({**NOTE, "tool": "hang"}, {**NOTE, "id": "m", "after": ["n"]})
    run = words[1]

    def refused() -> None:
        answer = intake.client.post(f"/v1/runs/{run}/resume", json={})
        assert (answer.status_code, answer.json()["code"]) == (409, "run_busy")

    intake.killed(words, refused)
    # Nobody restarts anything: a run that nobody runs is not left standing as "running".
    state = intake.until(run, "asking")
    assert [each["question"] for each in state["questions"]] == ["unknown:n"]
    assert intake.notes == ["once"]
    answer = {"question": "unknown:n", "answer": "done"}
    assert intake.client.post(f"/v1/runs/{run}/answers", json=answer).status_code == 200
    intake.until(run, "done")
    assert intake.notes == ["once", "once"]


def test_a_run_that_another_process_is_at_is_not_deleted_and_then_leaves_a_tombstone(
    intake: Desk,
) -> None:
    words = intake.approved({**NOTE, "tool": "hang", "inputs": {"text": "paid"}})
    run = words[1]

    def refused() -> None:
        answer = intake.client.delete(f"/v1/runs/{run}")
        assert (answer.status_code, answer.json()["code"]) == (409, "run_busy")
        assert "wait for it, or stop that process" in answer.json()["hint"]
        assert intake.client.get(f"/v1/runs/{run}").json()["status"] == "cancelled"

    intake.killed(words, refused)
    assert intake.client.delete(f"/v1/runs/{run}").status_code == 204
    assert intake.client.get(f"/v1/runs/{run}").status_code == 404
    # It happened, and although the journal is gone somebody is told that it may have.
    assert intake.notes == ["paid"]
    findings = asyncio.run(diagnose(f"sqlite:///{intake.folder}/runs.db"))
    [found] = [each for each in findings if each.subject == f"run {run}"]
    assert found.level == "warning"
    assert "nobody knew whether hang took effect (step n, called at 20" in found.message
