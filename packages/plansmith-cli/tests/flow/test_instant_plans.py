"""Requests that rules plan: no model is asked, and the answer is there at once."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest
from tests.commands import typed
from tests.servers.listener import Listener


@pytest.fixture
def listener() -> Generator[Listener]:
    found = Listener()
    yield found
    found.close()


def test_ask_looks_for_no_model_before_an_instant_plan(
    tmp_path: Path, listener: Listener, capsys: pytest.CaptureFixture[str]
) -> None:
    environment = {"HOME": str(tmp_path), "OLLAMA_HOST": listener.url, "PATH": ""}
    text = typed(
        "ask", "what is 2+2", "--yes", folder=tmp_path, environment=environment, capsys=capsys
    )
    assert text.code == 0
    assert "2+2 = 4" in text.out
    assert "by rules: arithmetic" in text.err
    assert listener.heard == []
