"""The child process that reads databases and tables, call after call, within limits.

`subprocesses` starts it. When its input closes, the parent has ended, and it exits at once.
"""

from __future__ import annotations

import json
import os
import queue
import resource
import signal
import struct
import sys
import threading
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

from plansmith import errors
from plansmith.errors import PlansmithError
from plansmith.plan.data import parse_json, stored_json
from plansmith.plan.sentence import stored_sentence
from plansmith.ports import Call
from plansmith.tools.toolset import Job

HEAD: Final = struct.Struct("!Q")
NOBODY_ASKED: Final = 75  # it took no call: one that was on its way can be made anew
CANCEL: Final[dict[str, Any]] = {"cancel": True}
_IDLE_S: Final = 120.0
# What Python, the drivers and the stacks of their threads take beside a query.
_HEADROOM: Final = 256 * 1024 * 1024
_MAPPED: Final = 1024 * 1024 * 1024
_WORN: Final = 256 * 1024 * 1024
_FILE: Final = 2 * 1024 * 1024 * 1024
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


def encoded(message: dict[str, Any]) -> bytes:
    """Writes a message for the other process; numbers keep their digits."""
    try:
        return stored_json(message)
    except ValueError:  # half a letter, or no number: the other side says what is wrong
        return json.dumps(message).encode()


class _CallQueue:
    """The running call, and those that wait."""

    def __init__(self, calls: BinaryIO) -> None:
        self._calls = calls
        self.waiting: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self.job = Job(Call(key=""))

    def listen(self) -> None:
        """Reads calls forever; exits at once when the parent closes the input."""
        try:
            while head := self._calls.read(HEAD.size):
                text = self._calls.read(HEAD.unpack(head)[0])
                message = cast("dict[str, Any]", parse_json(text))
                if message == CANCEL:
                    self.job.give_up()
                else:
                    self.job = Job(Call(key=""))
                    self.waiting.put(message)
        finally:
            os._exit(1)


def main() -> None:
    """Handles one call after another."""
    # Ctrl-C is for the parent; when it ends, our input closes.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    replies = os.fdopen(os.dup(1), "wb")
    # What a library prints must not get between the replies.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    intake = _CallQueue(sys.stdin.buffer)
    threading.Thread(target=intake.listen, daemon=True).start()
    while True:
        try:
            message = intake.waiting.get(timeout=_IDLE_S)
        except queue.Empty:
            os._exit(NOBODY_ASKED)
        reply = _reply(message, intake.job)
        replies.write(HEAD.pack(len(reply)) + reply)
        replies.flush()


def _reply(message: dict[str, Any], job: Job) -> bytes:
    try:
        result = _result(message, job)
        return encoded(result | {"worn": _resident() > _WORN})
    except MemoryError:
        return encoded({"error": "MemoryError", "worn": True})


def _result(message: dict[str, Any], job: Job) -> dict[str, Any]:
    module, _, name = str(message["work"]).partition(":")
    try:
        work = getattr(import_module(module), name)
        _limit(message["limits"])
        return {"value": work(job, **message["arguments"])}
    except MemoryError:
        raise
    except PlansmithError as error:
        failure = {"message": stored_sentence(error.message), "hint": stored_sentence(error.hint)}
        known = next(each for each in type(error).__mro__ if each.__module__ == errors.__name__)
        return {"error": known.__name__, **failure}
    except Exception as error:  # noqa: BLE001 - any failure is reported to the caller
        return {"error": "Exception", "message": f"{type(error).__name__}: {error}"}


def _limit(limits: dict[str, Any]) -> None:
    """Sets the limits of one call; only soft ones, so that the next call may have others."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    spent = int(used.ru_utime + used.ru_stime) + 1
    memory = int(limits["memory_bytes"])
    wanted = {
        # Memory that can be written, and where a system does not count that, all that is mapped.
        resource.RLIMIT_DATA: memory + _HEADROOM,
        resource.RLIMIT_AS: memory + _HEADROOM + _MAPPED,
        resource.RLIMIT_CPU: spent + int(limits["cpu_s"]),
        # What a query puts aside on disk; a database that is written may be any size.
        resource.RLIMIT_FSIZE: resource.RLIM_INFINITY if limits["writes"] else _FILE,
        resource.RLIMIT_CORE: 0,
    }
    for kind, most in wanted.items():
        hard = resource.getrlimit(kind)[1]
        unlimited = resource.RLIM_INFINITY in (hard, most)
        soft = (hard if most == resource.RLIM_INFINITY else most) if unlimited else min(most, hard)
        # macOS does not know every limit; there the engines' own ones are all there is.
        with suppress(ValueError, OSError):
            resource.setrlimit(kind, (soft, hard))


def _resident() -> int:
    try:
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * _PAGE
    except OSError:
        return 0
