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


def test_libraries_write_lines_of_the_log_also_after_its_stream_was_closed(
    root: logging.Logger,
) -> None:
    out = io.StringIO()
    Log(out).capture_libraries()
    root.warning("the line is slow")
    assert json.loads(out.getvalue())["text"] == "the line is slow"
    out.close()
    root.error("nobody reads this")


def test_log_lines_leave_out_what_looks_like_a_secret() -> None:
    out = io.StringIO()
    log = Log(out)
    log.hide("hunter2")
    log.warning("x", error="Bearer abc.def failed for hunter2", api_key="k", more=["sk-123"])
    log.failure("y", told={"password": "p", "plain": "see /?token=zzz"})
    secrets = ("abc.def", "hunter2", '"k"', "sk-123", '"p"', "zzz")
    assert not [each for each in secrets if each in out.getvalue()]
    levels = [json.loads(line)["level"] for line in out.getvalue().splitlines()]
    assert levels == ["warning", "error"]
