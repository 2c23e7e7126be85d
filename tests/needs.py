"""What a test needs of the machine: a program, and how a person gets it; a free port.

No test installs anything. `scripts/test` does, and prints each command first.
"""

from __future__ import annotations

import shutil
import socket
from typing import NoReturn

import pytest

PACKAGES = {
    "bwrap": "bubblewrap",
    "chromium": "chromium fonts-noto-cjk",
    "initdb": "postgresql",
    "npm": "nodejs npm",
    "systemd-analyze": "systemd",
    "unshare": "util-linux",
}


def lacks(program: str) -> NoReturn:
    """Skip the test: the program is missing, and this is how to install it."""
    pytest.skip(f"needs {program}: apt-get install -y {PACKAGES[program]}, or scripts/test")


def path_of(program: str) -> str:
    """Where a program is; without it the test is skipped."""
    return shutil.which(program) or lacks(program)


def free_port() -> int:
    """A port of this machine that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
