"""The server serves without the package that knows files and runs models."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from plansmith import Plansmith, plugins
from plansmith.errors import Misconfigured
from plansmith_server.routes.files import opens_folders, work_files, work_folder
from plansmith_server.routes.models import found_models
from plansmith_server.state import ModelDownloads


@pytest.fixture(autouse=True)
def _nothing_installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(plugins, "_entry_point_files", lambda: iter(()))
    plugins._found.cache_clear()
    yield
    plugins._found.cache_clear()


async def test_nobody_knows_files(tmp_path: Path) -> None:
    async with Plansmith() as smith:
        assert await work_files(smith.runs).written("any") == ()
    assert not opens_folders()
    with pytest.raises(Misconfigured) as caught:
        work_folder(tmp_path)
    assert "plansmith[desk]" in caught.value.hint


async def test_no_model_can_be_downloaded() -> None:
    found = await found_models({})
    assert (found["embedded"], found["runtime"]) == ([], False)
    with pytest.raises(Misconfigured):
        ModelDownloads().begin("")
