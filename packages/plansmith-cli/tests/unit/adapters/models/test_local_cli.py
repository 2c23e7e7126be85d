"""`plansmith model`: what a person types, and what comes of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.commands import Cli
from tests.unit.adapters.models.local_weights import small_weights

from plansmith_desk.model.files import DEFAULT, KNOWN


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    """Types commands with an empty shelf on a machine without a network."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PLANSMITH_MODELS", str(tmp_path / "models"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    return Cli(capsys)


def test_the_list_says_what_there_is_and_what_is_here(cli: Cli) -> None:
    result = cli.json("model list")
    assert [each["name"] for each in result["models"]] == list(KNOWN)
    assert not any(each["here"] for each in result["models"])
    out = cli("model list").out
    assert out.splitlines()[0].split()[:4] == [DEFAULT, "491.4", "MB", "Apache-2.0"]


def test_nothing_is_fetched_without_a_persons_word(cli: Cli, tmp_path: Path) -> None:
    told = cli("model pull smollm2-135m", code=4, err=("98.4 MB, licence Apache-2.0", "--yes"))
    assert told.out == ""
    assert not list((tmp_path / "models").glob("*.part"))


def test_a_model_is_pulled_checked_chosen_and_removed(cli: Cli, tmp_path: Path) -> None:
    file = small_weights()
    assert cli.json("model pull smollm2-135m --from", str(file))["here"]
    cli("model use smollm2-135m", code=0)
    found = cli.json("model check")
    assert (found["ok"], found["hash_right"]) == (True, True)
    assert found["answer"] in ("yes", "no")
    cli("model remove smollm2-135m", code=0, out="removed smollm2-135m: 98.4 MB\n")
    assert file.exists()
    cli("model remove smollm2-135m", code=2)
    cli("model check", code=2)


def test_a_damaged_model_does_not_pass(cli: Cli, tmp_path: Path) -> None:
    shelf = tmp_path / "models"
    shelf.mkdir()
    (shelf / "smollm2-135m.gguf").write_bytes(b"GGUF, or so it says")
    cli("model check smollm2-135m", code=2, err="damaged")


def test_a_file_of_ones_own_is_used_by_its_path(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.gguf").write_bytes(b"GGUF")
    monkeypatch.chdir(tmp_path)
    assert cli.json("model use mine.gguf") == {"chosen": str(tmp_path / "mine.gguf")}
    found = cli.json("model check", code=1)
    assert (found["ok"], found["hash_right"]) == (False, None)
    assert "cannot be loaded" in found["flaw"]
    cli("model use other.gguf", code=2)
    cli("model use gpt-9", code=2)
