"""A picture of every screen, for people to look at.

python -m tests.web.pictures OUT_DIR
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, expect, sync_playwright
from tests.web import sales
from tests.web.browser import ARGUMENTS, Stage, Watched, chromium
from tests.web.screens import addresses, approve, look, settled, until

LOOKS: dict[str, dict[str, Any]] = {
    "light-en": {"color_scheme": "light", "locale": "en-US"},
    "dark-en": {"color_scheme": "dark", "locale": "en-US"},
    "light-zh": {"color_scheme": "light", "locale": "zh-CN"},
    "dark-zh": {"color_scheme": "dark", "locale": "zh-CN"},
    "phone-en": {"locale": "en-US", "viewport": {"width": 390, "height": 780}},
}


# Until nothing on the page has changed for a while; what runs changes all the time.
_QUIET = """() => new Promise((done) => {
  const watcher = new MutationObserver(() => { clearTimeout(quiet); quiet = setTimeout(end, 400) });
  const end = () => { clearTimeout(last); watcher.disconnect(); done() };
  let quiet = setTimeout(end, 400);
  const last = setTimeout(end, 3000);
  watcher.observe(document.body, { subtree: true, childList: true, characterData: true });
})"""


def main(out: Path) -> None:
    """Play the story once, then show all of it in every look."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        stage = Stage(Path(folder) / "stage")
        stage.start()
        browser = playwright.chromium.launch(executable_path=chromium(), args=ARGUMENTS)
        try:
            watched = Watched(browser, stage)
            screens = addresses(stage)
            _hero(watched, stage, out)
            planning, running = _going_on(watched, stage)
            screens |= {"planning": planning, "running": running}
            for look, options in LOOKS.items():
                page = watched.tab(reduced_motion="reduce", **options)
                for name, address in screens.items():
                    _take(page, f"{stage.url}#/{address}", out / look / f"{name}.png")
                page.close()
        finally:
            stage.release()
            browser.close()
            stage.stop()
    sys.stdout.write(f"{len(LOOKS) * len(screens)} pictures in {out}\n")


def _going_on(watched: Watched, stage: Stage) -> tuple[str, str]:
    """The addresses of a run whose plan is half written, and of one whose steps run."""
    stage.hold("weather.forecast", "model")
    run = stage.submit(look(), look("also"), look("then", after=["look"]))
    approve(stage, run)
    page = watched.tab()
    page.get_by_label("Your request").fill("Plan my trip: compare Oslo and Rome")
    page.keyboard.press("Enter")
    expect(page.locator(".written li").first).to_be_visible()
    return page.url.split("#/")[1], f"runs/{run}"


def _hero(watched: Watched, stage: Stage, out: Path) -> None:
    """The picture of the README: a plan in review, as a list and as a graph."""
    (stage.work / "sales.csv").write_text(sales.table())
    run = str(stage.api("/v1/runs", {"request": sales.REQUEST})["id"])
    until(stage, run, "reviewing")
    page = watched.tab(reduced_motion="reduce", viewport={"width": 1440, "height": 780})
    _take(page, f"{stage.url}#/runs/{run}", out / "review.png")
    page.close()


def _take(page: Page, address: str, path: Path) -> None:
    page.goto(address)
    settled(page)
    page.evaluate(_QUIET)
    path.parent.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=path)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
