"""Runs a compared program to its end: kills it where a case says, restarts it, and answers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Final, Protocol

from lab.bench.compare_cases import PROGRAMS, WAITING, Case, Outcome, outcome
from lab.bench.runner_process import RIVALS

PATIENCE_S: Final = 600.0
# A program that stays while it waits gets this time to store that it waits.
SETTLE_S: Final = 8.0


class Program(Protocol):
    """A program of a job, started and driven the way its framework wants it."""

    def start(self) -> None: ...
    def resume(self) -> None: ...
    def answer(self, word: str) -> None: ...
    def state(self) -> str:
        """Says `running`, `ended`, `crashed` or `failed`."""
        ...

    def kill(self) -> bool:
        """Kills what waits for a person, and says whether anything did."""
        ...

    def close(self) -> None: ...


class PlainProgram:
    """A program that is one process: it ends when it is done, or when it waits for a person."""

    def __init__(self, framework: str, job: str, folder: Path, env: dict[str, str]) -> None:
        python = sys.executable if framework == "plansmith" else str(RIVALS)
        self._command = [python, str(PROGRAMS / f"{framework}_{job}.py")]
        self._folder, self._env = folder, env
        self._processes: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        self._begin("start")

    def resume(self) -> None:
        self._begin("resume")

    def answer(self, word: str) -> None:
        """Answers in a process of its own, beside one that may still wait."""
        self._begin("answer", word)

    def state(self) -> str:
        codes = {process.poll() for process in self._processes}
        if None in codes:
            return "running"
        if -signal.SIGKILL in codes:
            return "crashed"
        return "ended" if codes == {0} else "failed"

    def kill(self) -> bool:
        living = [process for process in self._processes if process.poll() is None]
        for process in living:
            process.kill()
            process.wait()
        return bool(living)

    def close(self) -> None:
        self.kill()

    def _begin(self, *words: str) -> None:
        self._processes = [each for each in self._processes if each.poll() is None]
        with (self._folder / "output.txt").open("ab") as output:
            process = subprocess.Popen(
                [*self._command, *words],
                cwd=self._folder,
                env=self._env,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        self._processes.append(process)


def environment(case: Case, folder: Path) -> dict[str, str]:
    """Returns the environment of a program: its log, where it dies, and no telemetry."""
    return os.environ | {
        "COMPARE_LOG": str(folder / "log.txt"),
        "COMPARE_KILL": "" if case.kill == WAITING else case.kill,
        "COMPARE_READY": str(case.ready),
        "COMPARE_STOCK": str(case.stock),
        "DO_NOT_TRACK": "1",
        "LANGSMITH_TRACING": "false",
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def drive(case: Case, program: Program, folder: Path) -> Outcome:
    """Runs a program to its end, as the operator and the person of a case would."""
    log = folder / "log.txt"
    answered, kills_left = 0, int(case.kill == WAITING)
    deadline = time.monotonic() + PATIENCE_S
    program.start()
    while time.monotonic() < deadline:
        state = program.state()  # first: what is logged before the end is then read
        asks = [line for line in _lines(log) if line.startswith("ask ")]
        if len(asks) > answered:
            _let_settle(program)
            if kills_left:
                kills_left = 0
                if program.kill():
                    program.resume()
            program.answer(_word(case, asks[answered], _lines(log)))
            answered += 1
        elif state == "crashed":
            program.resume()
        elif state != "running":
            return outcome(case, _lines(log), ended=state == "ended")
        time.sleep(0.05)
    return outcome(case, _lines(log), ended=False)


def _let_settle(program: Program) -> None:
    deadline = time.monotonic() + SETTLE_S
    while program.state() == "running" and time.monotonic() < deadline:
        time.sleep(0.05)


def _word(case: Case, ask: str, lines: list[str]) -> str:
    """What a person answers, who knows whether the call that died took effect."""
    kind = ask.partition("\t")[0].removeprefix("ask ")
    call = case.kill.removesuffix(" after").removesuffix(" before")
    results = [line.partition("\t")[2] for line in lines if line.startswith(f"effect {call}\t")]
    if kind == "unknown" and results:
        # What comes after a reservation needs its number; the other jobs use no such result.
        return json.dumps({"done": results[-1]}) if case.job == "booking" else "done"
    return {"approval": "yes", "consent": "allow", "unknown": "retry"}[kind]


def _lines(log: Path) -> list[str]:
    return log.read_text(encoding="utf-8").splitlines() if log.exists() else []
