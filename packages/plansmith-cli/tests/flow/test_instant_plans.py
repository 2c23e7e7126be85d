"""Requests that rules plan: no model is asked, and the answer is there at once."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from pathlib import Path

import pytest
from tests.commands import typed
from tests.servers.listener import Listener

from plansmith import Plansmith
from plansmith.testing import ScriptedModel
from plansmith_desk.builtin import builtin_sources
from plansmith_planner.settings import PlannerSettings


async def test_no_instant_plan_is_made_where_triage_is_off(tmp_path: Path) -> None:
    steps: Sequence[object] = [
        {"id": "sum", "tool": "calculator.compute", "inputs": {"expression": "2+2"}},
        {"id": "say", "instruction": "{{sum.text}}", "style": "exact"},
    ]
    model = ScriptedModel({"goal": "x", "steps": steps})
    settings = PlannerSettings(triage=False)
    async with Plansmith(
        model=model, tools=builtin_sources(tmp_path), settings=settings
    ) as planner:
        run = await planner.plan("2+2")
    assert run.plan is not None
    assert [step.id for step in run.plan.steps] == ["sum", "say"]


@pytest.fixture
def listener() -> Generator[Listener]:
    found = Listener()
    yield found
    found.close()


def test_ask_looks_for_no_model_before_an_instant_plan(
    tmp_path: Path, listener: Listener, capsys: pytest.CaptureFixture[str]
) -> None:
    environment = {"HOME": str(tmp_path), "OLLAMA_HOST": listener.url, "PATH": ""}
    told = typed(
        "ask", "what is 2+2", "--yes", folder=tmp_path, environment=environment, capsys=capsys
    )
    assert told.code == 0
    assert "2+2 = 4" in told.out
    assert "by rules: arithmetic" in told.err
    assert listener.heard == []
