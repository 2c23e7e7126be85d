"""Real MCP servers from the package indexes, installed from the locks here and kept.

`python -m tests.servers.real` installs them; tests only use what is there.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shlex
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.needs import path_of

HERE = Path(__file__).parent
LOCKS = {
    "newer": (HERE / "newer.txt",),
    "older": (HERE / "older.txt",),
    "node": (HERE / "package.json", HERE / "package-lock.json"),
}


def python_servers(lock: str) -> Path:
    """The folder with the commands of the servers of a lock."""
    return _installed(lock) / "bin"


def node_servers() -> Path:
    """The folder with the commands of the servers for node."""
    path_of("npm")
    return _installed("node") / "node_modules" / ".bin"


def _installed(name: str) -> Path:
    folder = _folder(name)
    if not (folder / "complete").exists():
        pytest.skip(f"needs real MCP servers ({name}): python -m tests.servers.real")
    return folder


def _folder(name: str) -> Path:
    total = hashlib.sha256(b"".join(lock.read_bytes() for lock in LOCKS[name])).hexdigest()[:12]
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "plansmith-tests"
    if sys.prefix != sys.base_prefix:
        root = Path(sys.prefix) / "test-servers"
    return root / f"{name}-{total}"


def _install(name: str) -> None:
    folder = _folder(name)
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    if name == "node":
        folder.mkdir()
        for file in LOCKS[name]:
            shutil.copy(file, folder)
        _run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"], folder)
    else:
        _run([sys.executable, "-m", "venv", "--without-pip", str(folder)], folder.parent)
        pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python"), "install"]
        locks = ["--quiet", "--require-hashes", "-r", *map(str, LOCKS[name])]
        _run([*pip, *locks], folder.parent)
    (folder / "complete").touch()


def _run(command: list[str], folder: Path) -> None:
    sys.stderr.write(f"{shlex.join(command)}\n")
    subprocess.run(command, cwd=folder, check=True)


def main() -> None:
    """Install what is missing; two installs at once wait for each other."""
    root = _folder("node").parent
    root.mkdir(parents=True, exist_ok=True)
    with (root / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        missing = [name for name in LOCKS if not (_folder(name) / "complete").exists()]
        with ThreadPoolExecutor() as pool:
            list(pool.map(_install, missing))


if __name__ == "__main__":
    main()
