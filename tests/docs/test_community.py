"""What newcomers are pointed to exists: forms for issues, headings, places of first issues."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from plansmith_cli.main import main

ROOT = Path(__file__).parents[2]
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))


@pytest.mark.parametrize("form", FORMS, ids=[each.stem for each in FORMS])
def test_a_form_for_issues_has_what_the_host_needs(form: Path) -> None:
    read: dict[str, Any] = yaml.safe_load(form.read_text(encoding="utf-8"))
    assert read["name"]
    assert read["description"]
    fields = [each for each in read["body"] if each["type"] != "markdown"]
    assert len({each["id"] for each in fields}) == len(fields)
    assert all(each["attributes"]["label"] for each in fields)


def test_every_command_that_a_form_names_is_one(capsys: pytest.CaptureFixture[str]) -> None:
    text = "".join(form.read_text(encoding="utf-8") for form in FORMS)
    commands = set(re.findall(r"`plansmith (\w+(?: [a-z]+)?)", text))
    assert commands >= {"report", "store verify", "store doctor"}
    for command in commands:
        with pytest.raises(SystemExit) as end:
            main([*command.split(), "--help"])
        assert end.value.code == 0
    assert "usage: plansmith" in capsys.readouterr().out


def test_the_places_of_good_first_issues_exist() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    _, _, issues = text.partition("## Good first issues")
    places = re.findall(r"`([\w/]+\.py)`", issues)
    assert len(places) >= 5
    for place in places:
        assert (ROOT / place).exists() or any(ROOT.glob(f"packages/*/src/{place}")), place
