"""The pytest plugin: `pytest_plugins = ["plansmith.testing.plugin"]` gives fakes as fixtures."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from plansmith.adapters.models.scripted import Answer, ScriptedModel
from plansmith.errors import ModelFailed
from plansmith.plan.data import Json
from plansmith.testing.clock import FakeClock

pytest.register_assert_rewrite("plansmith.testing.contracts")


@pytest.fixture
def fake_clock() -> FakeClock:
    """A clock that stands still until it is advanced."""
    return FakeClock()


@pytest.fixture
def scripted() -> Iterator[Callable[..., ScriptedModel]]:
    """Makes scripted models; an answer nobody asked for fails the test at its end."""
    models: list[ScriptedModel] = []

    def make(*answers: Answer | Json | ModelFailed) -> ScriptedModel:
        models.append(ScriptedModel(*answers))
        return models[-1]

    yield make
    for model in models:
        model.finish()
