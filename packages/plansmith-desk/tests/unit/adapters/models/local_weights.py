"""The smallest known model for tests, from the person's cache.

Run as a program, this file fetches it; tests only use what is there.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from plansmith_desk.model.download import pull_local, pull_remote
from plansmith_desk.model.engine import Engine
from plansmith_desk.model.files import ModelFolder, known_model, models_folder

FOLDER = models_folder()  # before any test gives itself another home
SMALL = known_model("smollm2-135m")


@cache
def _small() -> Path | None:
    return pull_local(SMALL, ModelFolder(FOLDER))


def small_weights() -> Path:
    """The file, or a skipped test where it cannot be had."""
    found = _small()
    if found is None:
        pytest.skip(f"needs the model {SMALL.name}: plansmith model pull {SMALL.name}")
    return found


@cache
def small_engine() -> Engine:
    """One engine for all tests: loading takes longer than answering."""
    return Engine(small_weights(), context=768, threads=2)


if __name__ == "__main__":
    if _small() is None:
        pull_remote(SMALL, ModelFolder(FOLDER))
