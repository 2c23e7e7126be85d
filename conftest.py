"""What all tests share: fakes, skips that fail, time limits, and how long properties search."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from tests.certificates import trust_nobody
from tests.postgres import postgres_server

from plansmith_planner.models import choose as choosing
from plansmith_planner.models.choose import Place, usual_places

__all__ = ["postgres_server"]  # a fixture

ROOT = Path(__file__).parent
trust_nobody()
# Until all tests are collected everything stays, so there is no garbage to look for.
gc.disable()
# Processes that tests start find helpers of every package, and need not compile them anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
os.environ["PYTHONPATH"] = os.pathsep.join(str(path) for path in [ROOT, *ROOT.glob("packages/*")])

pytest_plugins = [
    "plansmith.testing.plugin",
    "pytester",
    "tests.strict_skips",
    "tests.time_limits",
]

# No deadline: a slow machine is not a failed property. PLANSMITH_LONG searches far longer.
settings.register_profile(
    "ordinary",
    max_examples=15,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "long", max_examples=2000, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("long" if os.environ.get("PLANSMITH_LONG") else "ordinary")


def own_places(environment: Mapping[str, str]) -> tuple[Place, ...]:
    """Ollama where a test says that it is, and no other server."""
    return usual_places(environment)[:1] if environment.get("OLLAMA_HOST") else ()


@pytest.fixture(scope="session", autouse=True)
def own_models(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Whatever models this machine runs or keeps, a test has only those it brings itself."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(choosing, "usual_places", own_places)
        patch.setenv("PLANSMITH_MODELS", str(tmp_path_factory.mktemp("models")))
        yield


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


def pytest_collection_finish() -> None:
    """Modules and collected tests stay to the end: the garbage collector need not visit them."""
    gc.freeze()
    gc.enable()


def pytest_sessionfinish() -> None:
    """What is left at the end of the process is torn down as ever."""
    gc.unfreeze()
