"""The sandbox where the kernel refuses namespaces, and where the user is not root."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

RUN = """
import asyncio, dataclasses, json, sys
from plansmith_desk.sandbox.sandbox import Sandbox, SandboxLimits
from plansmith.errors import PlansmithError
async def main():
    for code in json.load(sys.stdin):
        box = Sandbox(limits=SandboxLimits(wall_s=20, processes=12), allow_weak=%r)
        try:
            outcome = await box.run(code, {"given": b"seen"})
            result = {"ok": outcome.ok, "stdout": outcome.stdout, "stderr": outcome.stderr,
                    "stopped": outcome.stopped, "missing": outcome.missing,
                    "files": [each.path for each in outcome.files]}
        except PlansmithError as error:
            result = {"refused": str(error)}
        print(json.dumps(result))
asyncio.run(main())
"""
NO_MORE_SPACES = "echo 0 >/proc/sys/user/max_user_namespaces && "
LIBC = "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\n"


def as_user(*options: str) -> bool:
    command = ["unshare", "--user", *options, "true"]
    return (
        bool(shutil.which("unshare"))
        and not subprocess.run(command, check=False, capture_output=True).returncode
    )


pytestmark = pytest.mark.skipif(not as_user("--map-root-user"), reason="no user namespaces here")


def outcomes(
    *codes: str, options: tuple[str, ...], before: str = "", allow_weak: bool = True
) -> list[dict[str, Any]]:
    shell = f'{before}exec "$0" -c "$1"'
    program = [sys.executable, RUN % allow_weak]
    done = subprocess.run(
        ["unshare", "--user", *options, "sh", "-c", shell, *program],
        input=json.dumps(codes),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_without_walls_nothing_runs_unless_a_weak_sandbox_is_accepted() -> None:
    (outcome,) = outcomes(
        "print(1)", options=("--map-root-user",), before=NO_MORE_SPACES, allow_weak=False
    )
    assert "code is not run, because it cannot be confined here" in outcome["refused"]
    assert "new namespaces are refused" in outcome["refused"]
    assert "accept a weak sandbox (allow_weak)" in outcome["refused"]


def test_a_weak_sandbox_says_what_is_missing_and_still_refuses_what_it_can(tmp_path: Path) -> None:
    codes = (
        "print(open('given').read())\nopen('made', 'w').write('1')",
        "open('/etc/passwd')",
        f"open({str(tmp_path / 'escaped')!r}, 'w')",
        "import socket\nsocket.create_connection(('127.0.0.1', 9))",
        "import os\nos.kill(os.getppid(), 9)",
        LIBC + "while True: libc.fork()",
        "raise SystemExit(3)",
    )
    works, reads, writes, connects, kills, forks, exits = outcomes(
        *codes, options=("--map-root-user",), before=NO_MORE_SPACES
    )
    assert (works["stdout"], works["files"]) == ("seen\n", ["made"])
    assert any(each.startswith("new namespaces are refused") for each in works["missing"])
    assert any(each.startswith("network: ") for each in works["missing"])
    assert any(each.startswith("disk: ") for each in works["missing"])
    assert "/etc/passwd is outside the sandbox" in reads["stderr"]
    assert "is outside the sandbox" in writes["stderr"]
    assert not (tmp_path / "escaped").exists()
    assert "there is no network" in connects["stderr"]
    assert "other processes cannot be signalled" in kills["stderr"]
    assert forks["stopped"] or "unavailable" in forks["stderr"]
    assert not exits["ok"]


def test_where_landlock_is_code_that_gets_past_the_hook_is_refused_too(tmp_path: Path) -> None:
    escaped = tmp_path / "escaped"
    code = LIBC + (
        f"print(libc.open(b'/etc/passwd', 0), libc.open({str(escaped).encode()!r}, 0o101, 0o600))"
    )
    (outcome,) = outcomes(code, options=("--map-root-user",), before=NO_MORE_SPACES)
    if any(each.startswith("files: the code can read") for each in outcome["missing"]):
        pytest.skip("no Landlock in this kernel, and the outcome says so")
    assert outcome["stdout"] == "-1 -1\n"
    assert not escaped.exists()


@pytest.mark.skipif(not as_user("--map-user=1000"), reason="unshare cannot map a user here")
def test_a_user_who_is_not_root_has_the_same_walls() -> None:
    codes = (
        "import os\nprint(os.getuid(), open('given').read())\nopen('made', 'w').write('1')",
        LIBC + "print(libc.open(b'/etc/passwd', 0), libc.unshare(0x10000000))",
        "import os\nos.kill(-1, 9)\nprint('still here')",
    )
    works, reads, kills = outcomes(
        *codes, options=("--map-user=1000", "--map-group=1000"), allow_weak=False
    )
    assert (works["stdout"], works["files"]) == ("1000 seen\n", ["made"])
    assert reads["stdout"] == "-1 -1\n"
    assert kills["stdout"] == "still here\n" or "ProcessLookupError" in kills["stderr"]
