"""A real browser before a real server, for the tests of the page.

It needs Debian's packages chromium-headless-shell (or chromium, which costs half as much again)
and fonts-noto-cjk, and what `scripts/page` installs.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, expect
from playwright.sync_api import sync_playwright as playwright_of
from tests import forked
from tests.needs import free_port, path_of
from tests.time_limits import NEXT_TEST

ROOT = Path(__file__).parents[2]
# One process draws all tabs, without a graphics card.
ARGUMENTS = [
    *("--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--disable-gpu-compositing"),
    *("--in-process-gpu", "--renderer-process-limit=1", "--disable-site-isolation-trials"),
    *("--disable-extensions", "--num-raster-threads=1"),
]
PATIENCE_MS = 30_000
# All but the key of the log-in, without which the cookie is worth nothing.
FORGET = """() => {
  const key = localStorage.getItem("plansmith-page");
  localStorage.clear();
  sessionStorage.clear();
  localStorage.setItem("plansmith-page", key);
}"""
expect.set_options(timeout=PATIENCE_MS)


def chromium() -> str:
    """The browser of the machine, best the one that has no windows."""
    known = filter(None, map(shutil.which, ("chromium-headless-shell", "chromium-browser")))
    return next(known, None) or path_of("chromium")


def needs_packages() -> None:
    """Skip the test where the packages of the page were never installed."""
    if not (ROOT / "web" / "node_modules" / ".plansmith").exists():
        pytest.skip("needs the packages of web/package-lock.json: scripts/page")


@cache
def build_page() -> None:
    """Build the page from its sources, once in this process."""
    needs_packages()
    done = subprocess.run([ROOT / "scripts" / "page"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


class Stage:
    """A server process of `tests.web.stage`, and what a test tells it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._hold = folder / "hold"
        self._hold.mkdir(parents=True)
        # The folder that plans work in; the page shows its files and puts some into it.
        self.work = folder / "work"
        self.work.mkdir()
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}/"
        self.link = ""
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        command = [sys.executable, "-m", "tests.web.stage", str(self.folder), str(self.port)]
        log = (self.folder / "log").open("a")
        with log:
            self._process = forked.Popen(
                command,
                cwd=self.work,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        assert self._process.stdout is not None
        self.link = self._process.stdout.readline().strip()
        assert self.link, (self.folder / "log").read_text()
        while not self._answers():
            time.sleep(0.02)

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self.folder / "log").read_text()
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def stop(self) -> None:
        process = self._process
        if process is None:
            return
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        assert process.stdout is not None
        process.stdout.close()
        self._process = None

    def hold(self, *names: str) -> None:
        """Let tools and models of these names wait from now on."""
        for name in names:
            (self._hold / name).touch()

    def release(self, *names: str) -> None:
        """Let them go on."""
        for name in names or [each.name for each in self._hold.iterdir()]:
            with suppress(FileNotFoundError):
                (self._hold / name).unlink()

    def api(
        self,
        path: str,
        body: object = None,
        *,
        method: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> Any:
        """What another client of the API sees and does."""
        token = (self.folder / "token").read_text().strip()
        request = urllib.request.Request(
            self.url + path.lstrip("/"),
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
            | (headers or {}),
            method=method,
        )
        with urllib.request.urlopen(request) as response:
            return json.load(response)

    def submit(self, *steps: dict[str, Any], **plan: Any) -> str:
        """A run of a ready plan; its id."""
        made = self.api("/v1/runs", {"plan": {"goal": "a goal", **plan, "steps": list(steps)}})
        return str(made["id"])


class Watched:
    """Contexts of one browser in which nothing may go wrong unseen."""

    def __init__(self, browser: Browser, stage: Stage) -> None:
        self._browser = browser
        self._stage = stage
        self.url = stage.url
        self._state: Any = None
        self._kept: Page | None = None
        self._is_free = True
        self.faults: list[str] = []
        self.contexts: list[BrowserContext] = []

    def context(self, **options: Any) -> BrowserContext:
        """A new context that is signed in."""
        made = self._opened(options)
        if self._state is None:
            self._sign_in(made).close()
        return made

    def _opened(self, options: dict[str, Any]) -> BrowserContext:
        given: dict[str, Any] = {"locale": "en-US", "reduced_motion": "reduce"}
        given |= {"viewport": {"width": 1280, "height": 860}} | options
        made = self._browser.new_context(storage_state=self._state, **given)
        made.set_default_timeout(PATIENCE_MS)
        made.on("console", self._heard)
        made.on("weberror", lambda error: self.faults.append(f"error: {error.error}"))
        made.on("request", self._asked)
        self.contexts.append(made)
        return made

    def _sign_in(self, context: BrowserContext) -> Page:
        """The link of the server works once: other contexts take over what it left."""
        page = context.new_page()
        page.goto(self._stage.link)
        page.get_by_role("heading", level=1).wait_for()
        self._state = context.storage_state()
        return page

    def tab(self, address: str = "", **options: Any) -> Page:
        """A tab at an address of the page."""
        if options or not self._is_free:
            page = self.context(**options).new_page()
        else:
            page = self._first_tab()
        page.goto(f"{self._stage.url}#/{address}")
        return page

    def _first_tab(self) -> Page:
        """One for all tests of a module, which remembers nothing: a new one costs a second."""
        self._is_free = False
        if self._kept is None:
            context = self._opened({})
            self.contexts.remove(context)
            self._kept = context.new_page() if self._state else self._sign_in(context)
        return self._kept

    def close(self) -> list[str]:
        """Close what a test opened; return what went wrong in it."""
        faults = self.faults
        for context in self.contexts:
            context.close()
        self.contexts.clear()
        if self._kept is not None:
            for page in self._kept.context.pages:
                if page is not self._kept:
                    page.close()
            self._kept.unroute_all()
            self._kept.goto(f"{self._stage.url}healthz")
            self._kept.evaluate(FORGET)
        self._is_free = True
        self.faults = []  # without what was cut off just now
        return faults

    def _heard(self, message: ConsoleMessage) -> None:
        # A refusal by the server is told to the person; the browser's own word on it is noise.
        if message.type == "error" and "Failed to load resource" not in message.text:
            self.faults.append(f"console: {message.text}")

    def _asked(self, request: Request) -> None:
        if not request.url.startswith((self._stage.url, "data:", "blob:", "about:")):
            self.faults.append(f"outside request: {request.url}")


_open = ExitStack()
_browsers: list[Browser] = []


@pytest.fixture(scope="module")
def chrome(request: pytest.FixtureRequest) -> Iterator[Browser]:
    """One browser for all modules that need it one after the other.

    It is closed before any other test: while it is open nothing else may run an event loop.
    """
    if not _browsers:
        path = chromium()
        build_page()
        playwright = _open.enter_context(playwright_of())
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        _open.callback(browser.close)
        _browsers.append(browser)
    yield _browsers[0]
    if "chrome" not in getattr(request.config.stash[NEXT_TEST], "fixturenames", ()):
        _browsers.clear()
        _open.close()


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory, chrome: Browser) -> Iterator[Stage]:
    stage = Stage(tmp_path_factory.mktemp("stage"))
    stage.start()
    yield stage
    stage.stop()


@pytest.fixture(scope="module")
def watched_of_module(chrome: Browser, stage: Stage) -> Watched:
    return Watched(chrome, stage)


@pytest.fixture
def watched(watched_of_module: Watched, stage: Stage) -> Iterator[Watched]:
    yield watched_of_module
    stage.release()
    faults = watched_of_module.close()
    assert not faults, "\n".join(faults[:5])
