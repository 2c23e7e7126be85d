"""The kernel's own walls around code: refused system calls, and limits for all its processes."""

from __future__ import annotations

import asyncio
import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest
from tests import forked
from tests.waiting import until

from plansmith_desk.sandbox.child import processes
from plansmith_desk.sandbox.child.processes import below
from plansmith_desk.sandbox.sandbox import Outcome, Sandbox, SandboxLimits

MEGABYTE = 1024 * 1024
LIMITS = SandboxLimits(wall_s=20.0, cpu_s=10, memory_bytes=200 * MEGABYTE, processes=12)
INTEL = pytest.mark.skipif(platform.machine() != "x86_64", reason="numbers of x86_64")
# Straight to the C library: what the kernel refuses, not what our own hook refuses.
CALLS = """
import ctypes, errno, json
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *given):
    ctypes.set_errno(0)
    done = libc.syscall(ctypes.c_long(number), *map(ctypes.c_long, given))
    return done, errno.errorcode.get(ctypes.get_errno(), '')
"""


@pytest.fixture(scope="module")
def standing() -> frozenset[str]:
    """The walls that stand on this machine."""
    program = (
        "import asyncio, json\nfrom plansmith_desk.sandbox.sandbox import Sandbox\n"
        "print(json.dumps(asyncio.run(Sandbox(allow_weak=True).run('')).standing))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    return frozenset(json.loads(done.stdout))


@pytest.fixture
def filtered(standing: frozenset[str]) -> None:
    if "seccomp" not in standing:
        pytest.skip("this kernel has no filters of system calls")


@pytest.fixture
def grouped(standing: frozenset[str]) -> None:
    if not {"cgroup memory", "cgroup pids"} <= standing:
        pytest.skip("no cgroup can be made here")


async def run(code: str, limits: SandboxLimits = LIMITS) -> Outcome:
    outcome = await Sandbox(limits=limits, allow_weak=True).run(code)
    assert "Traceback" not in outcome.stderr, outcome.stderr
    return outcome


# Each is a call that an ordinary user may make, or that a right would allow; with its number.
REFUSED = {
    "ptrace": (101, 0),
    "process_vm_readv": (310, 1),
    "mount": (165, 0),
    "umount2": (166, 0),
    "pivot_root": (155, 0),
    "keyctl": (250, 0, -3),
    "add_key": (248, 0),
    "bpf": (321, 0),
    "perf_event_open": (298, 0),
    "unshare": (272, 0x20000000),
    "setns": (308, 0),
    "userfaultfd": (323, 1),
    "kexec_load": (246, 0),
    "init_module": (175, 0),
    "io_uring_setup": (425, 8),
    "name_to_handle_at": (303, -100),
    "open_by_handle_at": (304, -100),
    "open_tree": (428, -100),
    "personality": (135, 0x0040000),
    "swapon": (167, 0),
    "fanotify_init": (300, 0),
    "clone into a new user namespace": (56, 0x10000000 | 17, 0),
    "socket of the network": (41, 2, 1, 0),
    "socket of the network, version 6": (41, 10, 2, 0),
    "socket to the kernel": (41, 16, 3, 0),
    "socket of its ciphers": (41, 38, 5, 0),
    "socket to the machine around this one": (41, 40, 1, 0),
    "socket of packets": (41, 17, 3, 0),
}


@INTEL
@pytest.mark.usefixtures("filtered")
async def test_dangerous_system_calls_are_refused_by_the_kernel() -> None:
    code = f"{CALLS}\nprint(json.dumps([call(*each) for each in {list(REFUSED.values())!r}]))"
    result = json.loads((await run(code)).stdout)
    for name, found in zip(REFUSED, result, strict=True):
        assert found == [-1, "EPERM"], name


@INTEL
@pytest.mark.usefixtures("filtered")
async def test_the_filter_is_not_passed_by_other_numbers_of_the_same_calls() -> None:
    # The second set of numbers, and the call whose flags no filter can read.
    code = f"{CALLS}\nprint(call(0x40000000 | 101, 0), call(435, 0, 0), call(157, 21))"
    outcome = await run(code)
    assert outcome.stdout == "(-1, 'ENOSYS') (-1, 'ENOSYS') (2, '')\n"
    # Calls of 32-bit programs end the process: ptrace, which is 26 there.
    machine_code = "b8 1a 00 00 00 31 db cd 80 c3"
    code = (
        "import ctypes, mmap\n"
        "page = mmap.mmap(-1, 4096, prot=7)\n"
        f"page.write(bytes.fromhex('{machine_code}'))\n"
        "start = ctypes.addressof(ctypes.c_char.from_buffer(page))\n"
        "print('called', ctypes.CFUNCTYPE(ctypes.c_int)(start)())\n"
    )
    outcome = await run(code)
    assert not outcome.ok
    assert "called" not in outcome.stdout


@INTEL
@pytest.mark.usefixtures("filtered")
async def test_a_program_that_code_starts_has_the_same_filter() -> None:
    inner = f"{CALLS}\nprint(call(323, 1), call(41, 2, 1, 0))"
    code = (
        "import subprocess, sys\n"
        f"print(subprocess.run([sys.executable, '-Ic', {inner!r}], capture_output=True).stdout)"
    )
    assert (await run(code)).stdout.count("EPERM") == 2


async def test_what_a_calculation_needs_still_works_behind_the_filter() -> None:
    code = """
import asyncio, concurrent.futures, multiprocessing, os, sqlite3, subprocess, tempfile, threading
async def main():
    process = await asyncio.create_subprocess_exec("echo", "hi", stdout=asyncio.subprocess.PIPE)
    return (await process.communicate())[0]
print(asyncio.run(main()))
print(list(concurrent.futures.ThreadPoolExecutor(2).map(abs, [-1])))
print(multiprocessing.Pool(2).map(abs, [-2]))
print(sqlite3.connect("a.db").execute("select 3").fetchone())
print(os.path.exists(tempfile.mkdtemp()))
"""
    assert (await run(code)).stdout == "b'hi\\n'\n[1]\n[2]\n(3,)\nTrue\n"


@pytest.mark.usefixtures("grouped")
async def test_the_memory_of_many_processes_is_limited_by_the_kernel_together() -> None:
    # Each stays below the limit of one, and takes its part faster than a watcher looks.
    code = """
import os, time
for _ in range(8):
    if os.fork() == 0:
        held = b"x" * (60 << 20)
        time.sleep(60)
time.sleep(60)
"""
    assert "bytes of memory together" in (await run(code)).stopped


@pytest.mark.usefixtures("grouped")
async def test_code_is_in_a_group_of_its_own_which_is_gone_afterwards() -> None:
    before = set(below(os.getpid()))
    task = asyncio.create_task(run("import time\ntime.sleep(60)"))

    def groups() -> set[str]:
        return {line for pid in below(os.getpid()) for line in _groups(pid)}

    await until(lambda: bool(groups()))
    assert all("plansmith-box-" in each for each in groups())
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert set(below(os.getpid())) <= before
    assert not _left()


@pytest.mark.usefixtures("grouped")
def test_a_group_that_was_left_behind_is_swept_by_the_next_one() -> None:
    limits = {"memory_bytes": 100 * MEGABYTE, "processes": 4}
    leave = (
        "import os\nfrom plansmith_desk.sandbox.child import processes\n"
        f"processes.make({limits!r})\nos._exit(0)"
    )
    subprocess.run([sys.executable, "-c", leave], check=True)
    assert _left()
    processes.make(limits).remove()
    assert not _left()


def test_doctor_tells_which_walls_stand(tmp_path: Path, standing: frozenset[str]) -> None:
    command = [sys.executable, "-m", "plansmith_cli", "store", "doctor", "--json", "--store"]
    done = forked.run(
        [*command, f"sqlite:///{tmp_path / 'runs.db'}"],
        capture_output=True,
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
        check=False,
    )
    found = [each for each in json.loads(done.stdout) if each["subject"] == "sandbox"]
    assert found
    if "seccomp" in standing:
        assert any("no dangerous system calls" in each["message"] for each in found)


def _groups(pid: int) -> list[str]:
    try:
        lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
    except OSError:
        return []
    return [line for line in lines if "plansmith-box-" in line]


def _left() -> list[Path]:
    """Groups whose launcher is gone."""
    found = [
        folder
        for parents, _ in processes.places()
        for parent in parents
        for folder in parent.glob("plansmith-box-*")
    ]
    return [each for each in found if not Path(f"/proc/{each.name.rpartition('-')[2]}").exists()]
