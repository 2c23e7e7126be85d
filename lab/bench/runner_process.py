"""A process of the runner bench: one engine with a store of its own, asked for measurements."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from pathlib import Path
from typing import Final

from lab.bench.runner_dags import LOG
from lab.bench.runner_extent import is_rival
from lab.bench.runner_figures import Samples

ROOT: Final = Path(__file__).parents[2]
RIVALS: Final = ROOT / ".venv-rivals" / "bin" / "python"
PATIENCE_S: Final = 600.0


class WorkerFailedError(Exception):
    """A process ended without an answer, or gave none in time."""


class Worker:
    """A process that answers one line of JSON for each it is told; its complaints go to a file."""

    def __init__(
        self, name: str, where: str, width: int, *, complaints: Path, log: Path | None = None
    ) -> None:
        self.name = name
        self._complaints = complaints
        python = str(RIVALS) if is_rival(name) else sys.executable
        with complaints.open("wb") as stderr:
            self._process = subprocess.Popen(
                [python, "-m", "lab.bench.runner_worker", name, where, str(width)],
                cwd=ROOT,
                env=os.environ | ({LOG: str(log)} if log else {}),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
            )

    def tell(self, scenario: str, **extent: int) -> None:
        """Ask for a scenario, and do not wait for the answer."""
        assert self._process.stdin
        try:
            print(json.dumps({"scenario": scenario} | extent), file=self._process.stdin, flush=True)
        except BrokenPipeError:
            raise self._failure("ended too early") from None

    def answer(self, patience_s: float = PATIENCE_S) -> Samples:
        """What it found."""
        assert self._process.stdout
        if not select.select([self._process.stdout], [], [], patience_s)[0]:
            raise self._failure(f"gave no answer in {patience_s:.0f} s")
        line = self._process.stdout.readline()
        if not line:
            raise self._failure("ended without an answer")
        found: Samples = json.loads(line)
        return found

    @property
    def is_over(self) -> bool:
        """Whether the process has ended by itself."""
        return self._process.poll() is not None

    def kill(self) -> None:
        """End it with -9."""
        self._process.kill()
        self._process.communicate()

    def _failure(self, what: str) -> WorkerFailedError:
        said = self._complaints.read_text(errors="replace")[-2000:]
        return WorkerFailedError(f"{self.name}: the process {what}\n{said}".rstrip())
