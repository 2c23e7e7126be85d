"""What all tests share: fakes, skips that fail, time limits, and how long properties search."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

pytest_plugins = [
    "plansmith.testing.plugin",
    "pytester",
    "tests.strict_skips",
    "tests.time_limits",
]

# No deadline: a slow machine is not a failed property. PLANSMITH_LONG searches far longer.
settings.register_profile(
    "ordinary",
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "long", max_examples=2000, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("long" if os.environ.get("PLANSMITH_LONG") else "ordinary")
