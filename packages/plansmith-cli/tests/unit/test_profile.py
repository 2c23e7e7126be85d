"""Profiles are read from files in three formats, and what is wrong in one is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from plansmith.errors import Misconfigured
from plansmith.plan.run_options import Profile
from plansmith_cli.config import read_profile

ANNA = Profile(
    name="Anna",
    role="buyer",
    goals=("save money", "be quick"),
    tasks=("order",),
    backstory="Ten years\nin the trade",
    language="zh",
    hard_constraints=("never more than 100 €",),
    soft_constraints=("local shops",),
)
YAML = """
name: Anna
role: buyer
goals: [save money, be quick]
tasks: order
backstory: |-
  Ten years
  in the trade
language: zh
hard_constraints:
  - never more than 100 €
soft_constraints: local shops
"""
TOML = """
[profile]
name = "Anna"
role = "buyer"
goals = ["save money", "be quick"]
tasks = ["order"]
backstory = "Ten years\\nin the trade"
language = "zh"
hard_constraints = ["never more than 100 €"]
soft_constraints = ["local shops"]
"""


@pytest.mark.parametrize(
    ("name", "text"),
    [
        *(("p.yaml", YAML), ("p.yml", YAML), ("p.json", ANNA.model_dump_json())),
        *(("p.toml", TOML), ("p.toml", f"\ufeff{TOML}")),
    ],
)
def test_a_profile_is_read_from_a_file(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    assert read_profile(tmp_path / name) == ANNA


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("p.txt", "name: x", "save it as .yaml"),
        ("p.yaml", "nmae: x", "did you mean 'name'"),
        ("p.yaml", "password: x", "a profile has name, role"),
        ("p.yaml", "name: [x]", "name must be text"),
        ("p.yaml", "goals: {a: b}", "goals must be a list"),
        ("p.yaml", "- name", "holds a list"),
        ("p.yaml", "a: b: c", "not valid YAML"),
        ("p.json", '{"name": ', "not valid JSON"),
        ("p.json", '{"name": "\\ud800"}', "a lone surrogate"),
        ("p.toml", "name = ", "p.toml cannot be read"),
        ("p.toml", "x" * 1_000_001, "larger than a megabyte"),
        ("p.yaml", "profile: text", "holds a str"),
    ],
)
def test_a_wrong_file_says_what_to_do(tmp_path: Path, name: str, text: str, says: str) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(Misconfigured) as caught:
        read_profile(tmp_path / name)
    assert says in str(caught.value)
    assert caught.value.hint


def test_a_missing_file_and_a_folder_are_told(tmp_path: Path) -> None:
    (tmp_path / "folder.yaml").mkdir()
    for name in ("none.yaml", "folder.yaml"):
        with pytest.raises(Misconfigured, match=f"cannot read .*{name}"):
            read_profile(tmp_path / name)
