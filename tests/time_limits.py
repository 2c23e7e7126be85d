"""A pytest plugin: time limits per test that also show where asyncio tasks hang, and long tests.

pytest-timeout interrupts a test after `timeout` of pyproject.toml and prints every thread. A test
marked `long` runs only with PLANSMITH_LONG=1 and may take longer.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Generator
from types import FrameType

import pytest

LONG = bool(os.environ.get("PLANSMITH_LONG"))
LONG_SECONDS = 4000


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    long = [item for item in items if item.get_closest_marker("long")]
    if not LONG and long:
        items[:] = [item for item in items if item not in long]
        config.hook.pytest_deselected(items=long)
    for item in items if LONG else []:
        # With PLANSMITH_LONG every test may search far longer.
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(LONG_SECONDS))


@pytest.hookimpl(wrapper=True)
def pytest_timeout_set_timer() -> Generator[None, object, object]:
    result = yield
    interrupt = signal.getsignal(signal.SIGALRM)
    if callable(interrupt):

        def print_tasks_and_interrupt(number: int, frame: FrameType | None) -> None:
            _print_tasks()
            interrupt(number, frame)

        signal.signal(signal.SIGALRM, print_tasks_and_interrupt)
    return result


def _print_tasks() -> None:
    """Print where every asyncio task waits; the threads alone show only the event loop."""
    try:
        tasks = asyncio.all_tasks()
    except RuntimeError:
        return
    for task in tasks:
        task.print_stack(file=sys.stderr)
