"""The child process that reads databases and tables, call after call, within limits.

`subprocesses` starts it. When its pipe closes, the parent has ended, and it exits at once.
"""

from __future__ import annotations

import json
import os
import pickle
import queue
import resource
import signal
import threading
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

from plansmith import errors
from plansmith.errors import PlansmithError, ToolFailed
from plansmith.plan.data import stored_json
from plansmith.plan.sentence import Sentence, stored_sentence
from plansmith.ports import Call
from plansmith_desk.toolset import Job

NOBODY_ASKED: Final = 75  # it took no call: one that was on its way can be made anew
CANCEL: Final = b"cancel"
MAX_LENGTH: Final = 32 * 1024 * 1024
# What Python, the drivers and the stacks of their threads take beside a query.
_HEADROOM: Final = 256 * 1024 * 1024
_MAPPED: Final = 1024 * 1024 * 1024
_WORN: Final = 256 * 1024 * 1024
_FILE: Final = 2 * 1024 * 1024 * 1024
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_STATM: Final = Path("/proc/self/statm")  # on Linux


def main(handle: int) -> None:
    """Handles one call after another that come through a pipe."""
    # Ctrl-C is for the parent; when it ends, our pipe closes.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    pipe = Connection(handle)
    calls: queue.SimpleQueue[tuple[bytes, Job]] = queue.SimpleQueue()

    def listen() -> None:
        job = Job(Call(key=""))
        try:
            while True:
                text = pipe.recv_bytes()
                if text == CANCEL:
                    job.given_up = True
                else:
                    job = Job(Call(key=""))
                    calls.put((text, job))
        finally:
            os._exit(1)

    threading.Thread(target=listen, daemon=True).start()
    while True:
        try:
            text, job = calls.get(timeout=120.0)
        except queue.Empty:
            os._exit(NOBODY_ASKED)
        pipe.send_bytes(_reply(text, job))


def _reply(text: bytes, job: Job) -> bytes:
    try:
        try:
            work, arguments, limits = pickle.loads(text)  # noqa: S301 - it comes from our own parent
            _limit(**limits)
            result = {"value": work(job, **arguments)}
        except MemoryError:
            raise
        except PlansmithError as error:
            result = _failure(error)
        except Exception as error:  # noqa: BLE001 - any failure is reported to the caller
            result = {"error": "Exception", "message": f"{type(error).__name__}: {error}"}
        pages = int(_STATM.read_text(encoding="ascii").split()[1]) if _STATM.exists() else 0
        reply = _encoded(result | {"worn": pages * _PAGE > _WORN})
        if len(reply) <= MAX_LENGTH:
            return reply
        large = ToolFailed(
            Sentence("the result is too large"), hint=Sentence("ask for fewer columns")
        )
        return _encoded(_failure(large) | {"worn": True})
    except MemoryError:
        return _encoded({"error": "MemoryError", "worn": True})


def _encoded(message: dict[str, Any]) -> bytes:
    """Writes a reply: as JSON, since nobody trusts a child; numbers keep their digits."""
    try:
        return stored_json(message)
    except ValueError:  # half a letter, or no number: the other side says what is wrong
        return json.dumps(message).encode()


def _failure(error: PlansmithError) -> dict[str, Any]:
    known = next(each for each in type(error).__mro__ if each.__module__ == errors.__name__)
    texts = {"message": stored_sentence(error.message), "hint": stored_sentence(error.hint)}
    return {"error": known.__name__, **texts}


def _limit(*, memory_bytes: int, cpu_s: int, writes: bool) -> None:
    """Sets the limits of one call; only soft ones, so that the next call may have others."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    spent = int(used.ru_utime + used.ru_stime) + 1
    wanted = {
        # Memory that can be written, and where a system does not count that, all that is mapped.
        resource.RLIMIT_DATA: memory_bytes + _HEADROOM,
        resource.RLIMIT_AS: memory_bytes + _HEADROOM + _MAPPED,
        resource.RLIMIT_CPU: spent + cpu_s,
        # What a query puts aside on disk; a database that is written may be any size.
        resource.RLIMIT_FSIZE: resource.RLIM_INFINITY if writes else _FILE,
        resource.RLIMIT_CORE: 0,
    }
    for kind, most in wanted.items():
        hard = resource.getrlimit(kind)[1]
        bounds = [each for each in (most, hard) if each != resource.RLIM_INFINITY]
        soft = min(bounds, default=resource.RLIM_INFINITY)
        # macOS does not know every limit; there the engines' own ones are all there is.
        with suppress(ValueError, OSError):
            resource.setrlimit(kind, (soft, hard))
