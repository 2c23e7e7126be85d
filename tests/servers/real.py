"""Real servers from the package indexes, installed once from the locks here and kept."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

HERE = Path(__file__).parent
_UNREACHABLE = re.compile(
    r"new connection|name resolution|unreachable|timed out|ENOTFOUND|EAI_AGAIN|ETIMEDOUT|ECONN"
    r"|connection (refused|reset|broken|aborted)|from versions: none|network",
    re.IGNORECASE,
)


def python_servers(lock: str) -> Path:
    """The folder with the commands of the servers of a lock; skips the test when offline."""

    def install(folder: Path) -> None:
        _run([sys.executable, "-m", "venv", "--without-pip", str(folder)], folder.parent)
        python = str(folder / "bin" / "python")
        pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet"]
        _run([*pip, "--require-hashes", "-r", str(HERE / f"{lock}.txt")], folder.parent)

    return _installed(lock, [HERE / f"{lock}.txt"], install) / "bin"


def node_servers() -> Path:
    """The folder with the commands of the servers for node; skips without node or network."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("node and npm are not installed: the servers for node are not tried")
    files = [HERE / "package.json", HERE / "package-lock.json"]

    def install(folder: Path) -> None:
        folder.mkdir()
        for file in files:
            shutil.copy(file, folder)
        _run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], folder)

    return _installed("node", files, install) / "node_modules" / ".bin"


def _installed(name: str, locks: list[Path], install: Callable[[Path], None]) -> Path:
    total = hashlib.sha256(b"".join(lock.read_bytes() for lock in locks)).hexdigest()[:12]
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "plansmith-tests"
    if sys.prefix != sys.base_prefix:
        root = Path(sys.prefix) / "test-servers"
    root.mkdir(parents=True, exist_ok=True)
    folder = root / f"{name}-{total}"
    with (root / "lock").open("w") as lock:
        # Two test runs at once must not install into one another.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "complete").exists():
            print(f"\ninstalling real MCP servers ({name}), once ...", file=sys.__stderr__)
            shutil.rmtree(folder, ignore_errors=True)
            install(folder)
            (folder / "complete").touch()
    return folder


def _run(command: list[str], folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        said = f"{done.stdout}\n{done.stderr}"
        if _UNREACHABLE.search(said):
            pytest.skip("the package index cannot be reached: real servers are not tried")
        pytest.fail(f"{' '.join(command[:4])} failed:\n{said[-2000:]}")
