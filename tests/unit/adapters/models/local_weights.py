"""The smallest known model for tests: fetched once, kept in the person's cache."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from plansmith.adapters.models.local.engine import Engine
from plansmith.adapters.models.local.known import known_model
from plansmith.adapters.models.local.pull import pull_local, pull_remote
from plansmith.adapters.models.local.shelf import Shelf, models_folder
from plansmith.errors import Refused

FOLDER = models_folder()  # before any test gives itself another home
SMALL = known_model("smollm2-135m")


@cache
def _small() -> Path | str:
    shelf = Shelf(FOLDER)
    try:
        return pull_local(SMALL, shelf) or pull_remote(SMALL, shelf)
    except Refused as refused:
        return str(refused)


def small_weights() -> Path:
    """The file, or a skipped test where it cannot be had."""
    found = _small()
    if isinstance(found, str):
        pytest.skip(f"needs the model smollm2-135m: {found}")
    return found


@cache
def small_engine() -> Engine:
    """One engine for all tests: loading takes longer than answering."""
    return Engine(small_weights(), context=768, threads=2)
