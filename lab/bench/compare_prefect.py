"""Prefect in the comparison: a server on 127.0.0.1, and a process that serves each program."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from lab.bench.compare_cases import PROGRAMS
from lab.bench.runner_process import RIVALS

PATIENCE_S: Final = 600.0
BUSY: Final = 503
STATES: Final = {"COMPLETED": "ended", "CRASHED": "crashed", "FAILED": "failed"}


class PrefectServer:
    """A server of its own, with its database in a folder; nothing is sent anywhere."""

    def __init__(self, folder: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}/api"
        self.env = {
            "DO_NOT_TRACK": "1",
            "PREFECT_API_URL": self.url,
            "PREFECT_HOME": str(folder),
            "PREFECT_LOGGING_TO_API_ENABLED": "false",
            "PREFECT_RUNNER_POLL_FREQUENCY": "1",
            "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
            "PREFECT_SERVER_UI_ENABLED": "false",
        }
        words = ["server", "start", "--host", "127.0.0.1", "--port", str(port)]
        with (folder / "server.txt").open("wb") as output:
            self._process = subprocess.Popen(
                [str(RIVALS.parent / "prefect"), *words],
                env=os.environ | self.env,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._wait()

    def ask(self, path: str, body: object = None) -> Any:
        """Asks the server's API, and again while it says that it is busy."""
        data = None if body is None else json.dumps(body).encode()
        request = Request(self.url + path, data, {"Content-Type": "application/json"})
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                with urlopen(request, timeout=PATIENCE_S) as answer:
                    return json.load(answer)
            except HTTPError as error:
                if error.code != BUSY or time.monotonic() > deadline:
                    raise
                time.sleep(0.5)

    def close(self) -> None:
        _end(self._process)

    def _wait(self) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            try:
                self.ask("/health")
            except (URLError, ConnectionError):
                time.sleep(0.2)
            else:
                return
        self.close()
        raise TimeoutError("the Prefect server did not start")


class PrefectProgram:
    """A flow that is served: the serving process runs it in another one, which may die."""

    def __init__(self, server: PrefectServer, job: str, folder: Path, env: dict[str, str]) -> None:
        self._server, self._job, self._folder = server, job, folder
        self._env = env | server.env
        self._known = {run["id"] for run in self._runs()}
        self._serving = self._serve()

    def start(self) -> None:
        """Does what `prefect deployment run` does."""
        found = self._server.ask(f"/deployments/name/{self._job}/{self._job}")
        self._server.ask(f"/deployments/{found['id']}/create_flow_run", {})

    def resume(self) -> None:
        """Serves again, and does what `prefect flow-run retry` does with a run that crashed."""
        if self._serving.poll() is not None:
            self._serving = self._serve()
        if self.state() == "crashed":
            state = {"type": "SCHEDULED", "message": "Retried"}
            body = {"state": state, "force": True}
            self._server.ask(f"/flow_runs/{self._run()['id']}/set_state", body)

    def answer(self, word: str) -> None:
        """Answers in a process of its own."""
        with (self._folder / "output.txt").open("ab") as output:
            subprocess.run(
                [str(RIVALS), str(PROGRAMS / f"prefect_{self._job}.py"), "answer", word],
                cwd=self._folder,
                env=self._env,
                stdout=output,
                stderr=subprocess.STDOUT,
                check=True,
                timeout=PATIENCE_S,
            )

    def state(self) -> str:
        return STATES.get(self._run()["state_type"], "running")

    def kill(self) -> bool:
        _end(self._serving)
        return True

    def close(self) -> None:
        _end(self._serving)

    def _run(self) -> Any:
        [run] = [run for run in self._runs() if run["id"] not in self._known]
        return run

    def _runs(self) -> Any:
        return self._server.ask("/flow_runs/filter", {})

    def _serve(self) -> subprocess.Popen[bytes]:
        with (self._folder / "output.txt").open("ab") as output:
            process = subprocess.Popen(
                [str(RIVALS), str(PROGRAMS / f"prefect_{self._job}.py"), "serve"],
                cwd=self._folder,
                env=self._env,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        path = f"/deployments/name/{self._job}/{self._job}"
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            try:
                self._server.ask(path)
            except URLError:
                time.sleep(0.2)
            else:
                break
        return process


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends a process with what it has started."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
