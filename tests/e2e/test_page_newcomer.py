"""The first two minutes of somebody new: from `plansmith serve` to a chart on the screen."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect
from tests.unit.adapters.models.local_weights import FOLDER
from tests.web.sales import table

from plansmith_desk.model.download import pull_local
from plansmith_desk.model.files import ModelFolder, known_model

SLOW_MS = 300_000


@contextmanager
def served(folder: Path, home: Path) -> Iterator[str]:
    """The link that `plansmith serve` prints on a machine with nothing but the embedded model."""
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "LANG": "en_US.UTF-8",
        "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        "PLANSMITH_MODELS": str(FOLDER),
        # Nothing listens there.
        "OLLAMA_HOST": "127.0.0.1:9",
        "HTTPS_PROXY": "http://127.0.0.1:9",
    }
    command = [sys.executable, "-m", "plansmith_cli", "serve", "--port", "0"]
    with subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            lines = (re.search(r"http://\S+token=\S+", line) for line in process.stdout)
            yield next(found.group() for found in lines if found)
        finally:
            process.terminate()
            process.stdout.read()


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_newcomer_comes_from_serve_to_a_chart_with_the_embedded_model(
    chrome: Browser, tmp_path: Path
) -> None:
    model = known_model("")
    if pull_local(model, ModelFolder(FOLDER)) is None:
        pytest.skip(f"plansmith model pull {model.name} first")
    folder, home = tmp_path / "folder", tmp_path / "home"
    folder.mkdir()
    home.mkdir()
    (folder / "sales.csv").write_text(table(), encoding="utf-8")
    with served(folder, home) as link:
        context = chrome.new_context(locale="en-US", viewport={"width": 1280, "height": 860})
        context.set_default_timeout(SLOW_MS)
        page = context.new_page()
        page.goto(link)
        expect(page.get_by_text("sales.csv").first).to_be_visible()
        page.get_by_label("Your request").fill("Draw a bar chart of amount by region")
        page.keyboard.press("Enter")
        page.get_by_role("button", name="Approve and run").click()
        ended = page.locator(".report, .run-head .badge.s-done")
        allow = page.get_by_role("button", name="Allow once")
        expect(ended.or_(allow).first).to_be_visible(timeout=SLOW_MS)
        if allow.count():
            allow.click()
        picture = page.locator("main img").first
        expect(picture).to_be_visible(timeout=SLOW_MS)
        assert picture.evaluate("(image) => image.decode().then(() => image.naturalWidth)") > 0
        context.close()
    assert list(folder.glob("*.svg")) or list(folder.glob("*.png"))
