"""The launcher process of the sandbox: sets up the walls, runs the code, watches and ends it.

`sandbox` starts it; it reads one job from its input and writes one result. When the input closes,
the parent has ended, and everything is killed.
"""

from __future__ import annotations

import base64
import json
import math
import os
import resource
import selectors
import signal
import stat
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, Final, NoReturn

from plansmith_desk.sandbox.child import processes
from plansmith_desk.sandbox.child import walls as confine
from plansmith_desk.sandbox.child.processes import Group

_CHUNK: Final = 65536
_SYSTEM: Final = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64"),
    *("/etc/alternatives", "/etc/ld.so.cache", "/etc/localtime"),
)


@dataclass(frozen=True, slots=True)
class Job:
    """The code to run and its limits; `limits` has the fields of `SandboxLimits`."""

    folder: Path
    files: Mapping[str, bytes]
    limits: Mapping[str, Any]
    allow_weak: bool

    @property
    def work(self) -> Path:
        return self.folder / "work"


class Output:
    """The output of a pipe: its beginning and end, and how much is left out between them."""

    def __init__(self, most: int) -> None:
        self._half = max(1, most // 2)
        self._head = b""
        self._tail = b""
        self._all = 0

    def add(self, data: bytes) -> None:
        self._all += len(data)
        space = self._half - len(self._head)
        self._head += data[:space]
        self._tail = (self._tail + data[space:])[-self._half :]

    def text(self) -> str:
        """Returns the text, with a line where something is left out."""
        left_out = self._all - len(self._head) - len(self._tail)
        gap = f"\n[… {left_out:,} bytes left out …]\n".encode() if left_out else b""
        return (self._head + gap + self._tail).decode(errors="replace")


def main() -> None:
    """Reads one job, runs it and writes the result."""
    # Ctrl-C is for the parent; when it ends, our input closes.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    given = json.loads(sys.stdin.buffer.readline())
    files = {name: base64.b64decode(text) for name, text in given["files"].items()}
    job = Job(Path(given["folder"]), files, given["limits"], given["allow_weak"])
    print(json.dumps(_run_job(job)))  # noqa: T201 - the result is what this process is for


def _run_job(job: Job) -> dict[str, Any]:
    confine.adopt_orphans()
    (job.folder / "root").mkdir()
    job.work.mkdir()
    # Before the walls: behind them the kernel's own files are not to be seen.
    group = processes.make(job.limits)
    try:
        walls = _walls(job)
        if not walls.in_place and walls.missing and not job.allow_weak:
            return {"refused": list(walls.missing)}
        (job.work / ".tmp").mkdir()
        for name, content in job.files.items():
            path = job.work / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        if os.geteuid() == 0 and walls.uid != 0:
            job.folder.chmod(0o711)
            for path in (job.work, *job.work.rglob("*")):
                os.chown(path, walls.uid, walls.gid)
        watch = _Watch(job, walls, group)
        ending = watch.run()
        most = {"most_files": job.limits["kept_files"], "most_bytes": job.limits["kept_bytes"]}
        files, notes = collect(job.work, job.files, **most)
        left = [] if watch.all_ended else ["a process of the code could not be ended"]
        active = {
            "namespaces": walls.in_place,
            "landlock": not walls.in_place and confine.landlock_version() > 0,
            "seccomp": not confine.seccomp_gap(),
            **{f"cgroup {name}": True for name in sorted(group.enforced)},
        }
        return {
            **ending,
            "stdout": watch.outputs["out"].text(),
            "stderr": watch.outputs["err"].text(),
            "files": files,
            "notes": [*left, *notes],
            "missing": list(walls.missing),
            "walls": [name for name, is_active in active.items() if is_active],
        }
    finally:
        group.remove()


def _walls(job: Job) -> confine.Walls:
    disk = {name: job.limits[name] for name in ("disk_bytes", "disk_files")}
    unfiltered = confine.seccomp_gap()
    calls = (f"system calls: all of them can be made ({unfiltered})",) if unfiltered else ()
    try:
        walls = confine.enter(job.work, **disk)
        return replace(walls, missing=(*walls.missing, *calls))
    except confine.NoWalls as refusal:
        why = str(refusal)
    uid, gid = confine.box_user()
    gaps = confine.landlock_gaps(confine.landlock_version())
    if not unfiltered:
        # The filter leaves no kind of socket but those between programs of one machine.
        sockets = "network: programs of this machine can be reached by their Unix sockets"
        gaps = (*(each for each in gaps if not each.startswith("network: ")), sockets)
    disk_gap = "disk: each file is limited, their number and sum are not"
    return confine.Walls(in_place=False, uid=uid, gid=gid, missing=(why, *gaps, *calls, disk_gap))


class _Watch:
    """One run of the code: its processes, its output, and the limits that end it."""

    def __init__(self, job: Job, walls: confine.Walls, group: Group) -> None:
        self._job = job
        self._walls = walls
        self._group = group
        self._limits = job.limits
        most = job.limits["output_bytes"]
        self.outputs = {"out": Output(most), "err": Output(most), "status": Output(_CHUNK)}
        self._stopped = ""
        self.all_ended = False

    def run(self) -> dict[str, Any]:
        pipes = {name: os.pipe() for name in self.outputs}
        if os.fork() == 0:
            _init(self._job, self._walls, self._group, [write for _, write in pipes.values()])
        deadline = time.monotonic() + self._limits["wall_s"]
        with selectors.DefaultSelector() as selector:
            for name, (read, write) in pipes.items():
                os.close(write)
                os.set_blocking(read, False)
                selector.register(read, selectors.EVENT_READ, name)
            selector.register(0, selectors.EVENT_READ, "line")
            while not self._is_over(selector):
                self._stopped = self._stopped or self._exceeded_limit(deadline)
        self.all_ended = processes.end_all(os.getpid())
        for name in ("out", "err"):
            while self._read(pipes[name][0], name):
                pass
        return self._exit_status()

    def _is_over(self, selector: selectors.BaseSelector) -> bool:
        if self._stopped:
            return True
        for key, _ in selector.select(0.05):
            if self._read(key.fd, key.data) == b"":
                if key.data in ("status", "line"):
                    self._stopped = "the caller has gone" if key.data == "line" else ""
                    return True
                selector.unregister(key.fd)
        return False

    def _read(self, handle: int, name: str) -> bytes | None:
        """Reads what a pipe holds: nothing at its end, None if there is no more yet."""
        try:
            data = os.read(handle, _CHUNK)
        except BlockingIOError:
            return None
        if name in self.outputs:
            self.outputs[name].add(data)
        return data

    def _exceeded_limit(self, deadline: float) -> str:
        if time.monotonic() > deadline:
            return f"it ran longer than {self._limits['wall_s']:g} s"
        alive = processes.below(os.getpid())
        # One of them is ours.
        if len(alive) - 1 > self._limits["processes"]:
            return f"it had more than {self._limits['processes']} processes"
        most = self._limits["memory_bytes"]
        # The kernel may have been quicker, and have ended only the process that asked last.
        if processes.memory_of(alive, most) > most or self._group.ran_out_of_memory():
            return f"its processes took more than {most:,} bytes of memory together"
        return ""

    def _exit_status(self) -> dict[str, Any]:
        if self._group.ran_out_of_memory():
            self._stopped = self._stopped or self._exceeded_limit(math.inf)
        status = self.outputs["status"].text()
        if self._stopped or not status:
            return {"stopped": self._stopped or "it ended the process that watched it"}
        ended: dict[str, Any] = json.loads(status)
        if ended.get("signal") == signal.SIGXCPU:
            return {"stopped": f"it took more than {self._limits['cpu_s']:g} s of processor time"}
        return ended


def _init(job: Job, walls: confine.Walls, group: Group, pipes: list[int]) -> NoReturn:
    """Runs as first process behind the walls: starts the code, reaps, reports how it ended."""
    out, err, status = pipes
    try:
        confine.die_with_parent()
        own = {os.path.realpath(each) for each in (sys.prefix, sys.base_prefix)} | {sys.prefix}
        inside = ("/usr", "/lib", "/bin")
        more = sorted(each for each in own if not each.startswith(tuple(f"{at}/" for at in inside)))
        visible = [*_SYSTEM, *(each for each in more if each not in ("/", *inside))]
        hook = Path(__file__).with_name("hook.py").read_text(encoding="utf-8")
        if walls.in_place:
            confine.close_in(job.folder / "root", job.work, visible)
        code = os.fork()
        if code == 0:
            _exec_python(job, walls, visible, (hook, group, out, err))
        ended, how = os.waitpid(-1, 0)
        while ended != code:
            ended, how = os.waitpid(-1, 0)
        exit_code = os.waitstatus_to_exitcode(how)
        report = {"signal": -exit_code} if exit_code < 0 else {"exit": exit_code}
        os.write(status, json.dumps(report).encode())
    except BaseException as error:  # noqa: BLE001 - reported, and nothing runs
        os.write(status, json.dumps({"broken": f"{type(error).__name__}: {error}"}).encode())
    finally:
        os._exit(0)


def _exec_python(
    job: Job, walls: confine.Walls, visible: list[str], more: tuple[str, Group, int, int]
) -> NoReturn:
    """Replaces this process by the Python that runs the code; nothing of ours is left."""
    hook, group, out, err = more
    place = confine.BOX if walls.in_place else str(job.work)
    threads = ("OMP_NUM", "OPENBLAS_NUM", "MKL_NUM", "NUMEXPR_MAX", "RAYON_NUM", "POLARS_MAX")
    environment = {
        "PATH": "/usr/bin:/bin",
        "HOME": f"{place}/.tmp",
        "TMPDIR": f"{place}/.tmp",
        "LANG": "C.UTF-8",
        "MPLBACKEND": "Agg",
        **{f"{name}_THREADS": "1" for name in threads},
    }
    try:
        os.setsid()
        os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
        group.join()
        os.dup2(out, 1)
        os.dup2(err, 2)
        _limit(job.limits)
        os.chdir(place)
        confine.give_up_rights(walls.uid, walls.gid)
        paths = [] if walls.in_place else [*visible, *(f"/dev/{name}" for name in confine.DEVICES)]
        if not walls.in_place and (number := confine.landlock_version()):
            confine.fence_in(number, paths, [place, "/dev/null"])
        if not confine.seccomp_gap():
            confine.refuse_calls()
        options = ["-I", "-B", "-u", "-X", "utf8", "-c", hook]
        command = [sys.executable, *options, place, *paths]
        os.execve(sys.executable, command, environment)  # noqa: S606 - our own Python
    except OSError as error:
        os.write(2, f"the sandbox could not start {sys.executable}: {error}\n".encode())
    finally:
        os._exit(127)


def _limit(limits: Mapping[str, Any]) -> None:
    wanted = {
        resource.RLIMIT_AS: limits["memory_bytes"],
        resource.RLIMIT_CPU: limits["cpu_s"],
        resource.RLIMIT_FSIZE: limits["file_bytes"],
        resource.RLIMIT_NPROC: limits["processes"],
        resource.RLIMIT_NOFILE: limits["open_files"],
        resource.RLIMIT_CORE: 0,
    }
    for kind, most in wanted.items():
        hard = resource.getrlimit(kind)[1]
        allowed = int(most) if hard == resource.RLIM_INFINITY else min(int(most), hard)
        # The processor's soft limit ends with a signal that can be distinguished from others.
        above = allowed + 1 if kind == resource.RLIMIT_CPU and hard != allowed else allowed
        resource.setrlimit(kind, (allowed, above))


_MAX_ENTRIES: Final = 20_000
_MAX_NOTES: Final = 20


def collect(
    work: Path, given: Mapping[str, bytes], *, most_files: int, most_bytes: int
) -> tuple[list[dict[str, str]], list[str]]:
    """Returns new and changed files of a folder that nobody writes to, and notes on the others.

    Contents are in base64; hidden files are skipped.
    """
    files: list[dict[str, str]] = []
    notes: list[str] = []
    left = most_bytes
    names = _names(work, notes)
    for name in islice(names, _MAX_ENTRIES):
        try:
            name.encode()
            content = _content(work / name, left)
        except UnicodeEncodeError:
            notes.append(f"{name!a} is not kept: its name is not UTF-8")
            continue
        except OSError as error:
            notes.append(f"{name} is not kept: it cannot be read: {error.strerror}")
            continue
        if isinstance(content, str):
            notes.append(f"{name} is not kept: {content}")
        elif given.get(name) != content and len(files) >= most_files:
            notes.append(f"{name} is not kept: {most_files} files are kept at most")
        elif given.get(name) != content:
            left -= len(content)
            files.append({"path": name, "base64": base64.b64encode(content).decode()})
    more = len(notes) - _MAX_NOTES
    notes[_MAX_NOTES:] = [f"{more} more files are not kept"] if more > 0 else []
    if next(names, None) is not None:
        notes.append(f"only the first {_MAX_ENTRIES} entries were looked at")
    return files, notes


def _names(work: Path, notes: list[str]) -> Iterator[str]:
    def shut(error: OSError) -> None:
        name = ascii(os.path.relpath(error.filename, work))
        notes.append(f"{name} is not kept: the folder cannot be read: {error.strerror}")

    work.chmod(0o700)
    for place, folders, others in os.walk(work, onerror=shut):
        links = [each for each in folders if Path(place, each).is_symlink()]
        folders[:] = [each for each in folders if not each.startswith(".") and each not in links]
        for each in folders:
            Path(place, each).chmod(0o700)
        for each in sorted([*others, *links]):
            if not each.startswith("."):
                yield os.path.relpath(os.path.join(place, each), work)  # noqa: PTH118


def _content(path: Path, left: int) -> bytes | str:
    if path.is_symlink():
        return "it is a link"
    path.chmod(0o600)
    # Not blocking: a pipe in the place of a file must not hold us.
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:  # noqa: PTH123
        about = os.fstat(file.fileno())
        if not stat.S_ISREG(about.st_mode):
            return "it is not a regular file"
        if about.st_nlink > 1:
            return "it is a link"
        if about.st_size > left:
            return f"its {about.st_size:,} bytes do not fit into {left:,} bytes"
        return file.read(left)


if __name__ == "__main__":
    main()
