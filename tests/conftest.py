"""What all tests share: fakes, skips that fail, time limits, and how long properties search."""

from __future__ import annotations

import gc
import os

from hypothesis import HealthCheck, settings
from tests.certificates import trust_nobody

trust_nobody()

pytest_plugins = [
    "plansmith.testing.plugin",
    "pytester",
    "tests.strict_skips",
    "tests.time_limits",
]

# No deadline: a slow machine is not a failed property. PLANSMITH_LONG searches far longer.
settings.register_profile(
    "ordinary",
    max_examples=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "long", max_examples=2000, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("long" if os.environ.get("PLANSMITH_LONG") else "ordinary")


def pytest_collection_finish() -> None:
    """Modules and collected tests stay to the end: the garbage collector need not visit them."""
    gc.collect()
    gc.freeze()


def pytest_sessionfinish() -> None:
    """What is left at the end of the process is torn down as ever."""
    gc.unfreeze()
