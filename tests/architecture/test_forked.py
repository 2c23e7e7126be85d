"""A process that `tests/forked.py` forks behaves as one that was started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests import forked

SEEN = """
import json, os, sys
print(json.dumps([sys.argv, os.getcwd(), os.environ.get("MARK"), __name__, sys.stdin.read()]))
"""


def test_a_fork_has_the_arguments_folder_environment_and_pipes_of_a_start(tmp_path: Path) -> None:
    (tmp_path / "seen.py").write_text(SEEN)
    for words in (["-c", SEEN], ["seen.py"]):
        done = forked.run(
            [sys.executable, *words, "--a", "ä"],
            cwd=tmp_path,
            env=os.environ | {"MARK": "here"},
            input="given",
            capture_output=True,
            text=True,
            check=True,
        )
        name = "seen.py" if words == ["seen.py"] else "-c"
        argv = f'["{name}", "--a", "\\u00e4"]'
        assert done.stdout == f'[{argv}, "{tmp_path}", "here", "__main__", "given"]\n'
        assert done.stderr == ""


@pytest.mark.parametrize(
    ("program", "code", "told"),
    [
        ("raise SystemExit", 0, ""),
        ("import sys; sys.exit(7)", 7, ""),
        ("import sys; sys.exit('no')", 1, "no\n"),
        ("1 / 0", 1, "ZeroDivisionError"),
        ("raise KeyboardInterrupt", -signal.SIGINT, "KeyboardInterrupt"),
        ("import os; os.kill(os.getpid(), 9)", -signal.SIGKILL, ""),
        ("import atexit, sys; atexit.register(lambda: sys.stderr.write('bye'))", 0, "bye"),
    ],
)
def test_a_fork_ends_as_a_start_does(program: str, code: int, told: str) -> None:
    done = forked.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == code
    assert told in done.stderr


async def test_a_fork_of_asyncio_leaves_what_others_start_alone() -> None:
    ids = "import os; print(os.getpid(), flush=True); input()"
    process = await forked.create_subprocess_exec(sys.executable, "-c", ids, stdin=-1, stdout=-1)
    assert process.stdout is not None
    assert int(await process.stdout.readline()) == process.pid
    await process.communicate(b"\n")
    assert process.returncode == 0
    assert subprocess.Popen is forked.STARTED
