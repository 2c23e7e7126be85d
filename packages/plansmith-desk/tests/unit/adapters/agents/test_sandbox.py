"""Code in the sandbox: what it may do, and that hostile code neither gets out nor stays behind."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.waiting import until

from plansmith.errors import Misconfigured, ToolFailed
from plansmith_desk.sandbox.child import processes
from plansmith_desk.sandbox.child.processes import below
from plansmith_desk.sandbox.sandbox import Outcome, Sandbox, SandboxLimits

MEGABYTE = 1024 * 1024
SMALL = SandboxLimits(
    wall_s=20.0,
    cpu_s=10,
    memory_bytes=200 * MEGABYTE,
    processes=12,
    file_bytes=4 * MEGABYTE,
    disk_bytes=16 * MEGABYTE,
    disk_files=100,
    output_bytes=2000,
    kept_files=3,
    kept_bytes=100_000,
)
# Straight to the C library: what the kernel refuses, not what our own hook refuses.
LIBC = "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\n"


walled = pytest.mark.usefixtures("walls")


@pytest.fixture(autouse=True)
def nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """After each test no process and no folder of a sandbox is there."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = set(below(os.getpid()))
    yield
    assert set(below(os.getpid())) <= before
    assert not list(tmp_path.glob("plansmith-box-*"))


async def run(code: str, limits: SandboxLimits = SMALL, **files: bytes) -> Outcome:
    return await Sandbox(limits=limits).run(code, files)


@walled
async def test_code_computes_reads_its_inputs_and_hands_its_files_over() -> None:
    code = (
        "import json, pathlib\n"
        "numbers = json.loads(pathlib.Path('numbers').read_text())\n"
        "pathlib.Path('out').mkdir()\n"
        "pathlib.Path('out/sum.txt').write_text(str(sum(numbers)))\n"
        "print('done', end='')\n"
    )
    outcome = await run(code, numbers=b"[1, 2, 3]")
    assert (outcome.ok, outcome.stdout, outcome.stderr) == (True, "done", "")
    assert [(each.path, each.content) for each in outcome.files] == [("out/sum.txt", b"6")]
    assert outcome.missing == ()
    changed = await run("open('a', 'a').write('!')", a=b"1", b=b"2")
    assert [(each.path, each.content) for each in changed.files] == [("a", b"1!")]


@walled
async def test_processes_within_the_limit_work() -> None:
    code = "import multiprocessing as m\nprint(m.Pool(2).map(abs, [-1, 2]))"
    assert (await run(code)).stdout == "[1, 2]\n"


@walled
async def test_an_error_is_told_from_the_first_line_of_the_code_on() -> None:
    outcome = await run("x = 1\nx / 0\n")
    assert outcome.exit_code == 1
    assert not outcome.ok
    first, second, *_, last = outcome.stderr.splitlines()
    assert first.startswith("Traceback")
    assert second.strip() == 'File "main.py", line 2, in <module>'
    assert last == "ZeroDivisionError: division by zero"


@walled
async def test_the_network_cannot_be_reached_not_even_this_machine() -> None:
    reached: list[int] = []
    server = await asyncio.start_server(lambda _, __: reached.append(1), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    python = f"import socket\nsocket.create_connection(('127.0.0.1', {port}))"
    past_the_hook = LIBC + (
        "import socket, struct\n"
        f"to = struct.pack('=HHI8x', 2, socket.htons({port}), socket.htonl(0x7f000001))\n"
        "handle = libc.socket(2, 1, 0)\n"
        "print(libc.connect(handle, to, 16), ctypes.get_errno())\n"
    )
    outcome, raw = await run(python), await run(past_the_hook)
    server.close()
    await server.wait_closed()
    assert "there is no network in the sandbox" in outcome.stderr
    assert raw.stdout.startswith("-1 ")
    assert reached == []


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secret.txt"
    path.write_text("canary")
    path.chmod(0o644)
    tmp_path.chmod(0o755)
    return path


@walled
async def test_only_the_working_folder_and_the_system_can_be_read(secret: Path) -> None:
    paths = ["/etc/passwd", "/etc/shadow", "/proc/1/environ", str(secret), str(Path(__file__))]
    code = LIBC + f"for path in {paths!r}: print(libc.open(path.encode(), 0))"
    assert (await run(code)).stdout.split() == ["-1"] * len(paths)
    home = await run(f"import os\nprint(os.listdir({str(Path.home())!r}))")
    assert not (set(eval(home.stdout)) if home.ok else set()) & {".ssh", ".bashrc", ".config"}


@walled
async def test_nothing_outside_the_working_folder_can_be_written() -> None:
    paths = ["/escaped", "/usr/escaped", f"{sys.prefix}/escaped", "/box/../escaped", "/dev/escaped"]
    code = LIBC + f"for path in {paths!r}: print(libc.open(path.encode(), 0o101, 0o600))"
    assert (await run(code)).stdout.split() == ["-1"] * len(paths)
    assert not any(map(os.path.exists, paths))


@walled
async def test_no_variable_of_ours_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CANARY", "a secret")
    outcome = await run("import os\nprint(dict(os.environ), os.listdir('.'))")
    assert "CANARY" not in outcome.stdout
    assert "a secret" not in outcome.stdout


@walled
async def test_no_other_process_can_be_signalled() -> None:
    code = (
        "import os\n"
        f"for pid in (os.getppid(), {os.getpid()}, -1):\n"
        "    try: os.kill(pid, 9)\n"
        "    except OSError: pass\n"
        "print('still here')\n"
    )
    outcome = await run(code)
    assert (outcome.ok, outcome.stdout) == (True, "still here\n")


@walled
async def test_code_has_no_rights_to_gain() -> None:
    code = LIBC + (
        "import os\n"
        "print(os.getuid() == 0, libc.unshare(0x10000000), libc.chroot(b'/box'))\n"
        "print(libc.mount(b'a', b'/box', b'tmpfs', 0, 0), libc.sethostname(b'x', 1))\n"
    )
    assert (await run(code)).stdout == "False -1 -1\n-1 -1\n"


@walled
async def test_one_process_gets_no_more_memory_than_the_limit() -> None:
    assert (await run(f"x = bytearray({300 * MEGABYTE})")).stderr.strip().endswith("MemoryError")


HELD = f"held = b'x' * {90 * MEGABYTE}; time.sleep(60)"
ENDLESS = {
    "a fork bomb": (
        "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass",
        SandboxLimits(wall_s=2.0, processes=12),
        "",
    ),
    "memory of many processes": (
        f"import os, time\nfor _ in range(4):\n    if os.fork() == 0: {HELD}\ntime.sleep(60)",
        SMALL,
        "bytes of memory together",
    ),
    "a loop": (
        "while True: pass",
        SandboxLimits(wall_s=60.0, cpu_s=1),
        "it took more than 1 s of processor time",
    ),
    "waiting": (
        "import time\ntime.sleep(60)",
        SandboxLimits(wall_s=0.5),
        "it ran longer than 0.5 s",
    ),
}


@walled
@pytest.mark.parametrize(("code", "limits", "why"), ENDLESS.values(), ids=ENDLESS)
async def test_code_that_takes_too_much_is_stopped(
    code: str, limits: SandboxLimits, why: str
) -> None:
    outcome = await run(code, limits)
    assert (outcome.ok, outcome.exit_code) == (False, None)
    assert outcome.stopped
    assert outcome.stopped.endswith(why)


@walled
async def test_of_endless_output_the_beginning_and_the_end_are_kept() -> None:
    outcome = await run("print('begin')\nfor _ in range(2000): print('x' * 1000)\nprint('end')")
    assert outcome.ok
    assert outcome.stdout.startswith("begin\n")
    assert outcome.stdout.endswith("end\n")
    assert "bytes left out" in outcome.stdout
    assert len(outcome.stdout) < 2200


@walled
async def test_one_file_and_all_files_together_are_limited() -> None:
    one = await run("f = open('big', 'wb')\nwhile True: f.write(b'x' * 100000)")
    assert one.stderr.strip().endswith("File too large")
    assert one.notes[0].startswith("big is not kept: its ")
    every = await run("for n in range(20): open(f'f{n}', 'wb').write(b'x' * 3000000)")
    assert "No space left on device" in every.stderr
    many = await run("for n in range(200): open(f'f{n}', 'wb')")
    assert "No space left on device" in many.stderr
    assert len(many.files) == SMALL.kept_files
    assert many.notes[-1].endswith("more files are not kept")


@walled
async def test_only_regular_files_are_handed_over() -> None:
    code = (
        "import os\n"
        "os.symlink('/etc/passwd', 'link')\n"
        "os.symlink('/etc', 'folder')\n"
        "os.mkfifo('pipe')\n"
        "open('kept', 'w').write('1')\n"
        "open('twice', 'w').write('2'); os.link('twice', 'again')\n"
        "open(b'\\xff', 'w').write('3')\n"
        "open('.hidden', 'w').write('4')\n"
        "os.mkdir('shut'); open('shut/in', 'w').write('5'); os.chmod('shut', 0)\n"
    )
    outcome = await run(code)
    assert outcome.ok, outcome.stderr
    assert {each.path: each.content for each in outcome.files} == {"kept": b"1", "shut/in": b"5"}
    assert {note.split(" is not kept: ")[0] for note in outcome.notes} == {
        "link", "folder", "pipe", "twice", "again", "'\\udcff'",
    }  # fmt: skip


@walled
async def test_processes_left_behind_are_gone_with_the_code() -> None:
    code = (
        "import subprocess, sys\n"
        "wait = 'import time; time.sleep(600)  # left-behind'\n"
        "start = [sys.executable, '-c', wait]\n"
        "for _ in range(3): subprocess.Popen(start, start_new_session=True)\n"
        "print('gone')\n"
    )
    outcome = await run(code)
    assert (outcome.ok, outcome.stdout) == (True, "gone\n")
    assert running("left-behind") == []


@walled
async def test_cancelling_ends_the_code() -> None:
    work = asyncio.create_task(run("import time\ntime.sleep(600)"))
    await until(lambda: len(below(os.getpid())) >= 3)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work


@walled
async def test_code_ends_with_the_process_that_asked_for_it(tmp_path: Path) -> None:
    program = (
        "import asyncio\n"
        "from plansmith_desk.sandbox.sandbox import Sandbox\n"
        "asyncio.run(Sandbox().run('import time; time.sleep(600)  # whose asker dies'))\n"
    )
    asker = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", program), env={"TMPDIR": str(tmp_path)}
    )
    asked = asyncio.create_task(asker.wait())
    await until(lambda: len(below(asker.pid)) >= 3)
    found = below(asker.pid)
    asker.send_signal(signal.SIGKILL)
    await asked
    await until(lambda: not any(map(is_alive, found)))
    clear(tmp_path)


@pytest.mark.parametrize("name", ["../up", "/abs", "a/../../b", ".hidden", "a/.b", "", "nul\0"])
async def test_files_are_put_into_the_working_folder_only(name: str) -> None:
    with pytest.raises(ToolFailed, match="is not a valid name for a file"):
        await Sandbox().run("pass", {name: b""})


async def test_too_large_inputs_are_refused() -> None:
    with pytest.raises(ToolFailed, match="the limit is"):
        await Sandbox(limits=SandboxLimits(given_bytes=10)).run("pass", {"a": b"x" * 11})


async def test_elsewhere_than_on_linux_nothing_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(Misconfigured, match="only on Linux"):
        await Sandbox().run("pass")


def is_alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def clear(folder: Path) -> None:
    for left in folder.glob("plansmith-box-*"):
        shutil.rmtree(left)


def running(marker: str) -> list[str]:
    found = [path.name for path in Path("/proc").iterdir() if path.name.isdigit()]
    return [pid for pid in found if marker in _command(pid) and int(pid) != os.getpid()]


def _command(pid: str) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
    except OSError:
        return ""


def test_only_the_mounts_of_cgroups_are_looked_at(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    unusable = "/" + "x" * 300  # to look at it is an error, as with one of another user
    (tmp_path / "mountinfo").write_text(
        f"30 23 0:26 / {unusable} rw - tmpfs none rw\n"
        f"31 23 0:27 / {tmp_path} rw - cgroup2 none rw\n"
    )
    (tmp_path / "cgroup").write_text("0::/\n")
    monkeypatch.setattr(processes, "_TREE", tmp_path)
    assert list(processes.places()) == [([tmp_path], 2)]
