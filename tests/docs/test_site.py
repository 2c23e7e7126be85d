"""The documentation site: every page is in its menu, every link leads somewhere."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import yaml
from scripts.docs_reference import setting_rows
from scripts.docs_site import ROOT, assemble

from plansmith_cli.config import Settings

LINK = re.compile(r"\]\(([^)\s:#]+)(?:#[^)\s]*)?\)")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    assemble(folder)
    return folder


def in_menu(entries: object) -> set[str]:
    match entries:
        case str(page):
            return {page}
        case dict():
            return set().union(*map(in_menu, entries.values()))
        case list():
            return set().union(*map(in_menu, entries))
        case _:
            return set()


def test_the_menu_has_every_page_and_no_other(site: Path) -> None:
    menu = in_menu(yaml.safe_load((site / "mkdocs.yml").read_text(encoding="utf-8"))["nav"])
    pages = {each.relative_to(site / "docs").as_posix() for each in (site / "docs").rglob("*.md")}
    assert menu == pages


def test_every_link_between_pages_leads_to_a_page_of_the_site(site: Path) -> None:
    lost = [
        f"{page.relative_to(site)}: {target}"
        for page in (site / "docs").rglob("*.md")
        for target in LINK.findall(page.read_text(encoding="utf-8"))
        if not (page.parent / target).resolve().is_file()
    ]
    assert not lost


@pytest.mark.parametrize(
    ("page", "has"),
    [
        ("api", "::: plansmith.Plansmith"),
        ("commands", "## approve"),
        ("settings", "## [run]"),
        ("http", "### POST /v1/runs\n"),
        ("events", "## plan_approved"),
    ],
)
def test_the_reference_is_made_from_the_code(site: Path, page: str, has: str) -> None:
    assert has in (site / "docs" / "reference" / f"{page}.md").read_text(encoding="utf-8")


def test_every_setting_is_explained() -> None:
    assert [key for key, _, _, about in setting_rows(Settings) if not about] == []


@pytest.mark.long
@pytest.mark.timeout(600)
def test_the_site_builds_without_a_warning() -> None:
    done = subprocess.run(
        [ROOT / "scripts" / "docs", "check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "No issues found" in done.stderr
