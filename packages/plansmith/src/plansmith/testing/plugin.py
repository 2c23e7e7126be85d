"""The pytest plugin: `pytest_plugins = ["plansmith.testing.plugin"]` gives fakes as fixtures."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from plansmith.testing.fakes import FakeClock, ScriptedModel

pytest.register_assert_rewrite("plansmith.testing.contracts")


@pytest.fixture
def fake_clock() -> FakeClock:
    """A clock that stands still until it is advanced."""
    return FakeClock()


@pytest.fixture
def scripted() -> Iterator[Callable[..., ScriptedModel]]:
    """Makes scripted models; the test fails if an answer is not used."""
    models: list[ScriptedModel] = []

    def make(*answers: object) -> ScriptedModel:
        models.append(ScriptedModel(*answers))
        return models[-1]

    yield make
    for model in models:
        model.finish()
