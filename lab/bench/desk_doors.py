"""Puts requests of the folder bench through the command line: in this process, or in one each."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

from lab.bench.desk_cases import Ask, Folder
from lab.bench.desk_score import Outcome
from plansmith_cli.main import main
from plansmith_desk.model.files import models_folder

ROOT: Final = Path(__file__).parents[2]
FLAGS: Final = ("--yes-read-only", "--no-input", "--yes", "--json")
_LIMIT_S: Final = 600
_APPROVALS: Final = 3  # a plan, its plan made again, and a consent


class Printed(NamedTuple):
    """What a command said, and its exit code."""

    code: int
    out: str
    err: str


Door = Callable[[Sequence[str], Path, Mapping[str, str]], Printed]


def in_process(argv: Sequence[str], folder: Path, environment: Mapping[str, str]) -> Printed:
    """Runs a command in this process, which keeps the model loaded."""
    out, err = io.StringIO(), io.StringIO()
    with (
        contextlib.chdir(folder),
        _environment(environment),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        code = main(argv)
    return Printed(int(code), out.getvalue(), err.getvalue())


def in_own_process(argv: Sequence[str], folder: Path, environment: Mapping[str, str]) -> Printed:
    """Runs a command as a person does."""
    command = [str(ROOT / "scripts" / "plansmith"), *argv]
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Printed(-1, "", f"no answer in {_LIMIT_S} s")
    return Printed(done.returncode, done.stdout, done.stderr)


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.clear()
    os.environ.update(values)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def own_environment(home: Path) -> dict[str, str]:
    """An environment with a home of its own and the model files of this user."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("XDG_", "PLANSMITH_")) or name == "PLANSMITH_OFFLINE"
    }
    return kept | {"HOME": str(home), "PLANSMITH_MODELS": str(models_folder())}


def answered(ask: Ask, folder: Folder, door: Door, flags: Sequence[str] = ()) -> Outcome:
    """Asks in a fresh copy of the folder; approves what a request to write came to."""
    with tempfile.TemporaryDirectory(prefix="desk-") as scratch:
        home, place = Path(scratch) / "home", Path(scratch) / folder.name
        home.mkdir()
        folder.write(place)
        environment = own_environment(home)

        def call(*argv: str) -> dict[str, Any]:
            return _run_of(door([*argv, *flags], place, environment))

        threaded: tuple[str, ...] = ()
        if ask.before:
            _approved(call, call("ask", ask.before, *FLAGS), may=bool(ask.files))
            threaded = ("--thread", "last")
        started = datetime.now(UTC)
        run = call("ask", ask.text, *threaded, *FLAGS)
        run, approvals = _approved(call, run, may=bool(ask.files))
        return Outcome(run, _files(place), started, datetime.now(UTC), approvals)


def _run_of(printed: Printed) -> dict[str, Any]:
    """The run that a command printed; where it printed none, why."""
    try:
        value = json.loads(printed.out)
    except ValueError:
        value = None
    if isinstance(value, dict) and "status" in value:
        return value
    last = printed.err.strip().splitlines()[-1:] or [f"exit code {printed.code}"]
    return {"status": "failed", "error": last[0]}


def _approved(
    call: Callable[..., dict[str, Any]], run: dict[str, Any], *, may: bool
) -> tuple[dict[str, Any], int]:
    """Approves as the person who asked would: only where the request is to write."""
    approvals = 0
    while may and approvals < _APPROVALS:
        consents = [each for each in run.get("questions") or () if each["kind"] == "consent"]
        if run["status"] == "reviewing" and run.get("hash") and not run.get("questions"):
            call("approve", run["id"], run["hash"], "--no-input", "--json")
        elif consents:
            call("answer", run["id"], consents[0]["question"], "allow", "--no-input", "--json")
        else:
            break
        approvals += 1
        run = call("go", run["id"], "--yes-read-only", "--no-input", "--json")
    return run, approvals


def _files(place: Path) -> dict[str, bytes]:
    """The files of a folder, without those that Plansmith keeps for itself."""
    return {
        path.relative_to(place).as_posix(): path.read_bytes()
        for path in sorted(place.rglob("*"))
        if path.is_file() and not path.relative_to(place).parts[0].startswith(".plansmith")
    }
