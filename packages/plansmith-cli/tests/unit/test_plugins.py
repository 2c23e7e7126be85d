"""What other packages bring is found by entry point."""

from __future__ import annotations

import os.path
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from plansmith import plugins
from plansmith.errors import Misconfigured
from plansmith.ports import Clock
from plansmith.tools.functions import FunctionTools
from plansmith_cli.config import Settings
from plansmith_cli.wiring import make_smith
from plansmith_compat.valuecell import RemoteConnections
from plansmith_desk.settings import BuiltinSettings
from plansmith_planner import model
from plansmith_planner.models.choose import choose, installed_shelf


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    plugins._found.cache_clear()
    yield
    plugins._found.cache_clear()


def install(folder: Path, text: str) -> None:
    """Make a folder look as pip leaves it after installing a package with these entry points."""
    made = folder / "theirs-1.0.dist-info"
    made.mkdir(parents=True)
    (made / "entry_points.txt").write_text(text, encoding="utf-8")


def test_a_package_of_somebody_else_brings_a_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "[console_scripts]\nx = y:z\n\n[plansmith.stores]\ntheirs = os.path:join\n")
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    assert "theirs" in plugins.names("stores")
    assert plugins.load("stores", "theirs") is os.path.join


def test_what_is_missing_says_what_to_install() -> None:
    with pytest.raises(Misconfigured) as caught:
        plugins.load("stores", "nowhere")
    assert "plansmith[postgres]" in caught.value.hint


def test_a_folder_that_one_works_in_brings_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "[plansmith.stores]\ntheirs = os.path:join\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", str(tmp_path), *sys.path])
    assert "theirs" not in plugins.names("stores")


def test_a_package_of_somebody_else_brings_a_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = "plansmith.testing:ScriptedModel"
    install(tmp_path, f"[plansmith.models]\ntheirs = {place}\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    assert model("theirs:hello").name == "scripted"
    with pytest.raises(Misconfigured, match="'rules:fast' is not the name of a model"):
        model("rules:fast")


async def test_without_the_desk_a_person_is_told_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(plugins, "_entry_point_files", lambda: iter(()))
    choice = await choose({}, shelf=installed_shelf(), places=[])
    assert (choice.kind, "plansmith[desk]" in choice.why) == ("rules", True)
    for name in ("rules", "local:mine.gguf"):
        with pytest.raises(Misconfigured) as caught:
            model(name)
        assert "plansmith[desk]" in caught.value.hint


def their_tools(folder: Path, *, zone: str, clock: Clock) -> list[FunctionTools]:
    """What a package of somebody else names in its entry points."""

    def where() -> str:
        """Tell where it works."""
        return f"{folder} {zone}"

    return [FunctionTools([where])]


async def test_tools_of_an_installed_package_join_the_built_in_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, f"[plansmith.tools]\ntheirs = {__name__}:their_tools\n")
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    async with make_smith(Settings(store="memory"), model=None) as smith:
        names = (await smith.runs.intake.callees()).specs
    assert {"where", "files.read"} <= {*names}
    bare = Settings(store="memory", builtin=BuiltinSettings(enabled=False))
    async with make_smith(bare, model=None) as smith:
        assert {*(await smith.runs.intake.callees()).specs} == {"where"}


async def test_a_program_of_another_system_gets_the_plansmith_of_the_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLANSMITH_STORE", f"sqlite:///{tmp_path / 'new' / 'runs.db'}")
    async with RemoteConnections().smith as smith:
        assert "files.read" in (await smith.runs.intake.callees()).specs
    assert (tmp_path / "new").is_dir()
