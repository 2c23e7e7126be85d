"""A pytest plugin: time limits per test that show where tasks hang, long tests, and their order.

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

LONG_SECONDS = 4000
# Which test this process runs next: what is shared by neighbours can be kept for it.
NEXT_TEST = pytest.StashKey[pytest.Item | None]()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    item.config.stash[NEXT_TEST] = nextitem


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    session.config.stash[NEXT_TEST] = None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if os.environ.get("PLANSMITH_LONG"):
        for item in items:  # not only those marked `long`: properties search far longer, too
            item.add_marker(pytest.mark.timeout(LONG_SECONDS), append=False)
    elif long := {item for item in items if item.get_closest_marker("long")}:
        items[:] = [item for item in items if item not in long]
        config.hook.pytest_deselected(items=list(long))
    # Tests in a browser take longest: they come first, and short ones fill up the end of a run.
    items.sort(key=lambda item: not item.path.name.startswith("test_page_"))


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
