"""From a request to a report with a model in this process: no key, no server, no network."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.unit.adapters.models.local_weights import FOLDER, small_weights

from plansmith import Plansmith
from plansmith.adapters.models.local.embedded import embedded_model
from plansmith.adapters.models.local.known import known_model
from plansmith.adapters.models.local.pull import pull_local
from plansmith.adapters.models.local.shelf import Shelf
from plansmith.adapters.tools.files import FileTools
from plansmith.plan.run import Run, RunStatus
from plansmith.plan.steps import ToolStep

pytest.importorskip("xllamacpp")


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    (tmp_path / "north.txt").write_text("The harbour in Bergen opened in 1912.\n", encoding="utf-8")
    (tmp_path / "south.txt").write_text("The harbour in Genoa has 14 piers.\n", encoding="utf-8")
    (tmp_path / "east.txt").write_text("No ships here.\n", encoding="utf-8")
    return tmp_path


async def story(name: str, request: str, desk: Path) -> tuple[Run, Run]:
    """Plan and run; a plan that only reads needs no approval."""
    model = embedded_model(name, folder=FOLDER)
    async with Plansmith(model=model, tools=[FileTools(desk)]) as smith:
        planned = await smith.plan(request)
        return planned, await smith.run(planned.id)


async def test_even_the_smallest_model_writes_plans_that_hold(desk: Path) -> None:
    name = str(small_weights())
    planned, _ = await story(name, "Which files mention the harbour?", desk)
    assert planned.plan is not None
    assert not planned.plan.degraded
    tools = [step for step in planned.plan.steps if isinstance(step, ToolStep)]
    assert all(step.tool.startswith("files.") for step in tools)


@pytest.mark.long
@pytest.mark.skipif(not os.environ.get("PLANSMITH_LONG"), reason="PLANSMITH_LONG=1 runs it")
@pytest.mark.parametrize(
    ("request_text", "wanted"),
    [
        ("Which files in this folder mention the word harbour?", ("north.txt", "south.txt")),
        ("哪些文件里提到了 harbour？", ("north.txt", "south.txt")),
        ("Read south.txt and tell me how many piers Genoa has.", ("14",)),
    ],
)
async def test_the_planning_model_answers_from_the_files(
    request_text: str, wanted: tuple[str, ...], desk: Path
) -> None:
    model = known_model("")
    if pull_local(model, Shelf(FOLDER)) is None:
        pytest.skip(f"plansmith model pull {model.name} first")
    _, run = await story(model.name, request_text, desk)
    assert run.status is RunStatus.DONE
    assert all(each in run.report for each in wanted)
