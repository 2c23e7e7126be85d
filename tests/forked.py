"""Python processes that begin with everything imported, for tests that need many of them.

A start of Python that imports Plansmith costs a second or two of processor time. Here one process
imports it once and forks itself for each command `python -m MODULE …`, `python -c PROGRAM …` or
`python FILE …`. What it forks is a process as any other and a child of the caller: with its own id,
environment, folder, pipes and terminal; it can be waited for, stopped and killed. A test whose
subject is the start itself uses `subprocess`; commands that are not Python are started as ever.
"""

from __future__ import annotations

import asyncio
import atexit
import ctypes
import fcntl
import gc
import importlib
import inspect
import io
import json
import os
import pkgutil
import runpy
import signal
import socket
import socketserver
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn

ROOT = Path(__file__).parents[1]
STARTED = subprocess.Popen
# Not imported before: what starts threads, which a fork does not take along, and programs.
LATER = ("plansmith_desk.model.gguf", "plansmith_cli.__main__")
# Plansmith imports this only when a model of a provider is asked.
BESIDES = ("pydantic_ai.models.openai",)
MAX_LENGTH = 1 << 20
PR_SET_CHILD_SUBREAPER = 36
# What a fork cannot do as a start does, with the values that ask for nothing.
LEFT_OUT = {
    "executable": None,
    "preexec_fn": None,
    "pass_fds": (),
    "shell": False,
    "gid": None,
    "gids": None,
    "uid": None,
    "umask": -1,
    "process_group": -1,
}


class Popen(STARTED[Any]):
    """As `subprocess.Popen`; a command of this Python is forked."""

    def _execute_child(self, *options: Any) -> None:
        original = STARTED._execute_child  # type: ignore[attr-defined]
        request = inspect.signature(original).bind(self, *options).arguments
        if not _can_fork(request):
            original(self, *options)
            return
        given = (request["p2cread"], request["c2pwrite"], request["errwrite"])
        streams = [own if stream == -1 else stream for own, stream in enumerate(given)]
        self.pid = _Server.running().fork(
            request["args"][1:],
            streams,
            folder=os.fspath(request["cwd"] or Path.cwd()),
            environment=dict(os.environ if request["env"] is None else request["env"]),
            new_session=request["start_new_session"],
        )
        self._child_created = True
        names = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
        self._close_pipe_fds(*(request[name] for name in names))  # type: ignore[attr-defined]


class _Own(str):
    """The path of this Python, in a command that is to be forked."""

    __slots__ = ()


class _MarkedPopen(Popen):
    """Forks what the functions below asked for, and nothing that others start."""

    def _execute_child(self, *options: Any) -> None:
        words: Any = self.args
        kind: Any = Popen if isinstance(words[0], _Own) else STARTED
        kind._execute_child(self, *options)


@contextmanager
def _marked(program: str | Path) -> Iterator[str]:
    """The program, marked if it is this Python, while what starts programs looks for the mark."""
    subprocess.Popen = _MarkedPopen  # type: ignore[misc]
    try:
        yield _Own(program) if program == sys.executable else str(program)
    finally:
        subprocess.Popen = STARTED  # type: ignore[misc]


def run(
    command: Sequence[str | Path], *, check: bool, **options: Any
) -> subprocess.CompletedProcess[Any]:
    """As `subprocess.run`; a command of this Python is forked."""
    with _marked(command[0]) as program:
        return subprocess.run([program, *command[1:]], check=check, **options)


async def create_subprocess_exec(
    program: str, *words: str | Path, **options: Any
) -> asyncio.subprocess.Process:
    """As that of asyncio; a command of this Python is forked."""
    with _marked(program) as own:
        return await asyncio.create_subprocess_exec(own, *words, **options)


CALLER = """#!{python} -IS
import json, os, socket, sys

with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as forking:
    forking.connect({address!r})
    asked = json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)])
    socket.send_fds(forking, [asked.encode()], [0, 1, 2])
    sys.exit(int(forking.recv(100)))
"""


@contextmanager
def command_for_scripts(path: Path) -> Iterator[None]:
    """While it is open, the file at this path is a command `plansmith` that forks, for a shell."""
    address = f"\0{path}"[-100:]
    path.write_text(CALLER.format(python=sys.executable, address=address))
    path.chmod(0o755)
    with _Commands(address, _Command) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,)).start()
        try:
            yield
        finally:
            server.shutdown()


class _Commands(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    socket_type = socket.SOCK_SEQPACKET


class _Command(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        request, streams, _, _ = socket.recv_fds(self.request, MAX_LENGTH, 3)
        words, folder, environment = json.loads(request)
        process = Popen(
            [sys.executable, "-m", "plansmith_cli", *words],
            cwd=folder,
            env=environment,
            stdin=streams[0],
            stdout=streams[1],
            stderr=streams[2],
        )
        for stream in streams:
            os.close(stream)
        code = process.wait()
        self.request.send(str(code if code >= 0 else 128 - code).encode())


def _can_fork(request: dict[str, Any]) -> bool:
    """Whether a command is one of this Python that needs nothing which only a start can give."""
    words, environment = request["args"], request["env"] or {}
    if isinstance(words, str | bytes) or sys.platform != "linux":
        return False
    if len(words) < 2 or str(words[0]) != sys.executable:
        return False
    is_command = words[1] in ("-m", "-c") or not str(words[1]).startswith("-")
    is_plain = all(request.get(name, value) == value for name, value in LEFT_OUT.items())
    own_seed = environment.get("PYTHONHASHSEED") != os.environ.get("PYTHONHASHSEED")
    return is_command and is_plain and not (environment and own_seed)


class _Server:
    """The process that forks, and the connection to it."""

    _one: _Server | None = None
    _starting = threading.Lock()

    def __init__(self) -> None:
        self._ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._asking = threading.Lock()
        with theirs:
            self._process = STARTED(
                [sys.executable, "-m", "tests.forked", str(theirs.fileno())],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )
        atexit.register(self._stop)

    @classmethod
    def running(cls) -> _Server:
        with cls._starting:
            cls._one = cls._one or cls()
            return cls._one

    def fork(
        self,
        words: Sequence[str | Path],
        streams: Sequence[int],
        *,
        folder: str,
        environment: dict[str, str],
        new_session: bool,
    ) -> int:
        """Fork a process with these standard streams; return its id."""
        request = {
            "words": [str(word) for word in words],
            "folder": folder,
            "environment": environment,
            "new_session": new_session,
        }
        with self._asking, _adopting():
            socket.send_fds(
                self._ours, [json.dumps(request).encode("utf-8", "surrogateescape")], streams
            )
            return int(self._ours.recv(MAX_LENGTH))

    def _stop(self) -> None:
        self._ours.close()
        self._process.wait()


@contextmanager
def _adopting() -> Iterator[None]:
    """Children whose parent ends are ours meanwhile, and can be waited for."""
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    assert prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0, os.strerror(ctypes.get_errno())
    try:
        yield
    finally:
        prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def _serve(connection: socket.socket) -> None:
    """Forks until the other side is gone; each fork becomes the command it was asked for."""
    gc.disable()  # what is imported stays, and a fork need not copy it to look for garbage
    _import_all()
    while True:
        message, streams, _, _ = socket.recv_fds(connection, MAX_LENGTH, 3)
        if not message:
            return
        request = json.loads(message)
        _import(request["words"])
        gc.freeze()
        own = _fork_twice()
        if not own:
            gc.enable()
            _become(request, streams)
            _end(_run_to_the_end(*request["words"]))
        connection.send(str(own).encode())
        for stream in streams:
            os.close(stream)


def _import_all() -> None:
    packages = [each for each in pkgutil.iter_modules() if each.name.startswith("plansmith")]
    for package in packages:
        path = importlib.import_module(package.name).__path__
        for module in pkgutil.walk_packages(path, f"{package.name}."):
            if not module.name.startswith(LATER):
                importlib.import_module(module.name)
    for name in BESIDES:
        importlib.import_module(name)


def _fork_twice() -> int:
    """A child of a child that is over: it goes to whoever adopts. Its id, or 0 inside of it."""
    read, write = os.pipe()
    between = os.fork()
    if not between:
        if own := os.fork():
            os.write(write, str(own).encode())
            os._exit(0)
        return 0
    os.waitpid(between, 0)
    own = int(os.read(read, 100))
    os.close(read)
    os.close(write)
    return own


def _import(words: Sequence[str]) -> None:
    """Import what a command runs, so that the next of its kind has it."""
    if words[0] == "-m":
        with suppress(Exception):  # the command itself will tell
            importlib.import_module(words[1])


def _become(request: dict[str, Any], streams: Sequence[int]) -> None:
    """Run the command in this process as a start of Python would."""
    for own, stream in enumerate(streams):
        os.dup2(stream, own)
    for number in [int(each.name) for each in Path("/proc/self/fd").iterdir()]:
        if number > 2:
            with suppress(OSError):  # the list itself is closed by now
                os.close(number)
    if request["new_session"]:
        os.setsid()
        if os.isatty(0):
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    # A shell that runs tests in the background lets them ignore it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    time.tzset()
    _open_streams(through=bool(os.environ.get("PYTHONUNBUFFERED")))
    is_file = not request["words"][0].startswith("-")
    near = Path(request["folder"], request["words"][0]).parent if is_file else request["folder"]
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:1] = [str(near), *filter(None, paths)]


def _run_to_the_end(first: str, *rest: str) -> int:
    """Run a program; return its exit code, which is below zero for a signal."""
    try:
        _run(first, *rest)
    except SystemExit as end:
        if isinstance(end.code, int | None):
            return end.code or 0
        sys.stderr.write(f"{end.code}\n")
        return 1
    except BaseException as error:  # noqa: BLE001 - as the end of a program, whatever it is
        sys.excepthook(type(error), error, error.__traceback__)
        return -signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1
    return 0


def _run(first: str, *rest: str) -> None:
    if first == "-c":
        sys.argv = ["-c", *rest[1:]]
        exec(compile(rest[0], "<string>", "exec", dont_inherit=True), {"__name__": "__main__"})
    elif first == "-m":
        sys.argv = list(rest)
        sys.modules.pop(rest[0], None)
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    else:
        sys.argv = [first, *rest]
        runpy.run_path(first, run_name="__main__")


def _end(code: int) -> NoReturn:
    """End as Python does, but leave the memory to the system: to free it, a fork would copy it."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):
            stream.flush()
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code & 0xFF)


def _open_streams(*, through: bool) -> None:
    sys.stdin = sys.__stdin__ = open(0, encoding="utf-8")  # type: ignore[misc]  # noqa: SIM115
    sys.stdout = sys.__stdout__ = _writer(1, "strict", through=through)  # type: ignore[misc]
    sys.stderr = sys.__stderr__ = _writer(2, "backslashreplace", through=through)  # type: ignore[misc]


def _writer(number: int, errors: str, *, through: bool) -> io.TextIOWrapper:
    raw = open(number, "wb", 0 if through else -1)  # noqa: SIM115
    lines = number == 2 or os.isatty(number)
    return io.TextIOWrapper(
        raw, encoding="utf-8", errors=errors, line_buffering=lines, write_through=through
    )


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
