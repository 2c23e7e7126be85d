"""Runs heavy work in child processes with a memory limit, so that only the child can crash."""

from __future__ import annotations

import atexit
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Pipe
from pathlib import Path
from typing import Any, Final, cast

from plansmith import errors
from plansmith.errors import OutcomeUnknown, PlansmithError, ToolBusy, ToolFailed
from plansmith.plan.data import Json, parse_json
from plansmith.plan.sentence import Sentence, read_sentence
from plansmith.ports import TENANT
from plansmith_desk.sandbox.subprocess_main import CANCEL, MAX_LENGTH, NOBODY_ASKED
from plansmith_desk.toolset import Job, watched

Work = Callable[..., object]  # of a module, so that a child finds it by its name

_ROOT: Final = str(Path(errors.__file__).parents[1])
# A Python without the environment finds its own packages, and ours where they were found here.
_START: Final = (
    "import sys; sys.path.append(sys.argv[1]); "
    "from plansmith_desk.sandbox.subprocess_main import main; main(int(sys.argv[2]))"
)
_MOST: Final = 4  # at the same time, for each of those who share this process
_IDLE: Final = 1  # kept for the next call, since a start takes a third of a second
_LOOK_S: Final = 0.05
_GRACE_S: Final = 8.0
# Where libraries and a person's own settings are found; nothing that could be a secret.
_KEPT: Final = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "TZ")


@dataclass(frozen=True, kw_only=True, slots=True)
class ProcessLimits:
    """Limits of one call; `writes` says that a crash leaves its outcome unknown.

    A child that goes on after its seconds is killed when `grace_s` is over too.
    """

    seconds: float
    memory_bytes: int
    writes: bool = False
    grace_s: float = _GRACE_S


class Subprocesses:
    """A pool of child processes; each handles one call at a time."""

    def __init__(self) -> None:
        self._owner = os.getpid()
        self._idle: list[_Child] = []
        self._lock = threading.Lock()
        self._slots: dict[str, threading.Semaphore] = {}

    def call(
        self, work: Work, arguments: Mapping[str, Any], *, limits: ProcessLimits, job: Job | None
    ) -> Json:
        """Runs a function of a module with a job and arguments in a child; returns its result."""
        bounds = {
            "memory_bytes": limits.memory_bytes,
            # Two threads of an engine, and the time that it takes to be interrupted.
            "cpu_s": int(2 * limits.seconds) + 10,
            "writes": limits.writes,
        }
        data = pickle.dumps((work, dict(arguments), bounds))
        with self._take_child(limits, job) as child:
            reply = child.ask(data, limits, job)
        if reply is None and child.process.returncode == NOBODY_ASKED:
            # It had just gone to rest, and the call never reached it.
            return self.call(work, arguments, limits=limits, job=job)
        if reply is None:
            raise _child_died(child, limits)
        kind = reply.get("error")
        if kind is None:
            return cast("Json", reply["value"])
        if kind == "MemoryError":
            raise _too_much(limits.memory_bytes)
        known = getattr(errors, kind, None)
        if isinstance(known, type) and issubclass(known, PlansmithError):
            raise known(read_sentence(reply["message"]), hint=read_sentence(reply["hint"]))
        raise ToolFailed(reply["message"])

    def close(self) -> None:
        with self._lock:
            children, self._idle = self._idle, []
        for each in children if self._owner == os.getpid() else ():
            each.end()

    @contextmanager
    def _take_child(self, limits: ProcessLimits, job: Job | None) -> Generator[_Child]:
        """Waits for a slot and gives a child, which is kept if it still runs with little memory."""
        end = time.monotonic() + limits.seconds
        with self._lock:
            slots = self._slots.setdefault(TENANT.get(), threading.Semaphore(_MOST))
        while not slots.acquire(timeout=_LOOK_S):
            if time.monotonic() > end or (job is not None and job.given_up):
                raise ToolBusy(
                    Sentence("too many queries are running"), hint=Sentence("try it again later")
                )
        try:
            with self._lock:
                if self._owner != os.getpid():
                    # A fork has the parent's pipes, which are not its own to speak through.
                    self._owner, self._idle = os.getpid(), []
                gone = [each for each in self._idle if each.process.poll() is not None]
                self._idle = [each for each in self._idle if each not in gone]
                waiting = self._idle.pop() if self._idle else None
            for each in gone:
                each.end()
            child = waiting or _Child()
            try:
                yield child
            finally:
                with self._lock:
                    is_kept = not child.is_worn and len(self._idle) < _IDLE
                    self._idle += [child] if is_kept else []
                if not is_kept:
                    child.end()
        finally:
            slots.release()


class _Child:
    """One child process."""

    def __init__(self) -> None:
        self.is_late = False
        self.is_worn = True  # it has ended, or still holds much memory
        self._pipe, other = Pipe()
        with other:
            self.process = subprocess.Popen(  # noqa: S603 - our own code
                [sys.executable, "-I", "-c", _START, _ROOT, str(other.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[other.fileno()],
                env={name: os.environ[name] for name in _KEPT if name in os.environ}
                # Each thread would map an arena of its own, and mapped memory is what is limited.
                | {"MALLOC_ARENA_MAX": "2"},
                start_new_session=True,
            )

    def ask(self, data: bytes, limits: ProcessLimits, job: Job | None) -> dict[str, Any] | None:
        """Returns the child's reply; None if it died. Kills it at a limit."""
        self.is_worn = True
        seconds = limits.seconds + limits.grace_s
        deadline = time.monotonic() + seconds
        sent = cancelled = False

        def stop() -> None:
            """Asks a child whose call was given up to end, and kills it when time is up."""
            nonlocal cancelled, deadline
            if sent and not cancelled and job is not None and job.given_up:
                cancelled, deadline = True, min(deadline, time.monotonic() + _GRACE_S)
                with suppress(OSError):
                    self._pipe.send_bytes(CANCEL)
            if time.monotonic() > deadline:
                self.is_late = True
                self._kill()

        try:
            with watched(stop, job=job, seconds=seconds):
                self._pipe.send_bytes(data)
                sent = True
                reply = self._pipe.recv_bytes(MAX_LENGTH)
        except (EOFError, OSError):
            self.end()
            return None
        except BaseException:
            self.end()
            raise
        found = cast("dict[str, Any]", parse_json(reply))
        self.is_worn = bool(found["worn"])
        return found

    def _kill(self) -> None:
        # Not once it was taken leave of: its number may be somebody else's by then.
        if self.process.poll() is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)

    def end(self) -> None:
        self._kill()
        self._pipe.close()
        self.process.wait()


def _too_much(memory_bytes: int) -> ToolFailed:
    size = f"{memory_bytes / 2**30:g} GB" if memory_bytes >= 2**30 else f"{memory_bytes >> 20} MB"
    hint = Sentence("narrow it: fewer rows or columns, a filter, a smaller join")
    return ToolFailed(Sentence("the query needed more than {size} of memory", size=size), hint=hint)


def _child_died(child: _Child, limits: ProcessLimits) -> PlansmithError:
    """Makes the failure for a child that died; a write may have been done before."""
    code = child.process.returncode
    if limits.writes:
        return OutcomeUnknown(
            Sentence("the process that changed the database ended before it could answer")
        )
    if child.is_late or code == -signal.SIGXCPU:
        hint = Sentence("ask for less: fewer rows, a filter, a LIMIT")
        return ToolFailed(
            Sentence("the query took longer than {seconds} s", seconds=f"{limits.seconds:g}"),
            hint=hint,
        )
    why = _too_much(limits.memory_bytes)
    return ToolFailed(
        Sentence("{why}, or crashed its process (code {code})", why=why.message, code=code),
        hint=why.hint,
    )


SUBPROCESSES: Final = Subprocesses()
atexit.register(SUBPROCESSES.close)
