"""Every promise of the page on security has a test that is really there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
PROMISED = PAGE.partition("## What is promised")[2].partition("## What is not promised")[0]


def test_every_test_that_the_page_on_security_names_exists() -> None:
    written = {
        name
        for path in [*ROOT.glob("tests/**/test_*.py"), *ROOT.glob("packages/*/tests/**/test_*.py")]
        for name in re.findall(r"def (test_\w+)\(", path.read_text(encoding="utf-8"))
    }
    named = set(re.findall(r"`(test_\w+)`", PROMISED))
    assert named
    assert named - written == set()


def test_every_promise_of_the_page_on_security_names_a_test() -> None:
    promises = re.split(r"^- ", PROMISED, flags=re.MULTILINE)[1:]
    assert promises
    assert [each.splitlines()[0] for each in promises if "`test_" not in each] == []
