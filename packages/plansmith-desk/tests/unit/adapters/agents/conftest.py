"""Whether code can be confined on this machine."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.fixture(scope="session")
def confined() -> str:
    """Why code cannot be confined on this machine, or nothing."""
    program = "import asyncio; from plansmith_desk.sandbox.sandbox import Sandbox\n"
    program += "asyncio.run(Sandbox().run('pass'))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    errors = done.stderr.decode().strip()
    # Only a machine that refuses is a reason to skip; a sandbox that breaks is a failure.
    assert not errors or "cannot be confined here" in errors or "only on Linux" in errors, errors
    return errors.splitlines()[-1] if errors else ""


@pytest.fixture
def walls(confined: str) -> None:
    if confined:
        pytest.skip(confined)
