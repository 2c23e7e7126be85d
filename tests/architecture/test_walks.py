"""ARCHITECTURE.md is short, and every file that it names is there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")


def test_the_page_can_be_read_in_one_go() -> None:
    assert len(PAGE.splitlines()) <= 200
    walks = re.findall(r"^\*\*(One [^*]+)\.\*\* ", PAGE, re.MULTILINE)
    assert len(walks) == 5


def test_every_file_that_the_page_names_is_there() -> None:
    named = re.findall(r"`([\w/-]+/[\w/-]+\.(?:py|ts|json|toml))`", PAGE)
    assert len(named) > 30
    places = [ROOT, *ROOT.glob("packages/*/src"), ROOT / "packages/plansmith/src/plansmith"]
    missing = [file for file in named if not any((place / file).is_file() for place in places)]
    assert missing == []
