"""ARCHITECTURE.md's walks lead through files that are there, each in a few hops."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
WALKS = dict(re.findall(r"^\*\*(Where [^*]+)\.\*\* (.+)$", PAGE, re.MULTILINE))
QUESTIONS = {
    "Where a plan is checked",
    "Where a step is called",
    "Where an approval is stored",
    "Where a schedule fires",
    "Where the page gets its events",
}


def _is_there(file: str) -> bool:
    return (ROOT / file).is_file() or (ROOT / "src" / "plansmith" / file).is_file()


def test_the_page_has_the_five_walks() -> None:
    assert set(WALKS) == QUESTIONS


@pytest.mark.parametrize("walk", WALKS)
def test_a_walk_is_short_and_its_files_are_there(walk: str) -> None:
    hops = WALKS[walk].split(" > ")
    assert 2 <= len(hops) <= 6
    files = [file for hop in hops for file in re.findall(r"`([^`]+)`", hop)]
    assert len(files) >= len(hops)
    assert [file for file in files if not _is_there(file)] == []


def test_every_file_that_the_prose_names_is_there() -> None:
    named = re.findall(r"`([\w/]+/[\w/]+\.(?:py|ts))`", PAGE)
    assert named
    assert [file for file in named if not _is_there(file)] == []
