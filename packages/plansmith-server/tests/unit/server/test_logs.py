"""What libraries log becomes lines of the server's log, as long as somebody reads it."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest

from plansmith_server.ops.logs import Log


@pytest.fixture
def root() -> Iterator[logging.Logger]:
    """The root logger, with its handlers put back at the end."""
    logger = logging.getLogger()
    handlers, level = logger.handlers[:], logger.level
    yield logger
    logger.handlers[:] = handlers
    logger.setLevel(level)


def test_a_warning_of_a_library_is_a_line_of_the_log(root: logging.Logger) -> None:
    out = io.StringIO()
    Log(out).capture_libraries()
    root.warning("the line is slow")
    assert json.loads(out.getvalue())["text"] == "the line is slow"


def test_a_library_may_log_after_the_stream_of_the_log_was_closed(root: logging.Logger) -> None:
    out = io.StringIO()
    Log(out).capture_libraries()
    out.close()
    root.error("nobody reads this")
