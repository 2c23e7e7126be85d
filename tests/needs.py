"""How a test says which program of the machine it needs, and how a person gets it.

No test installs anything. `scripts/test` does, and prints each command first.
"""

from __future__ import annotations

import shutil
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
