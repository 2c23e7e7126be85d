"""From a request to a report with a model in this process: no key, no server, no network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.unit.adapters.models.local_weights import FOLDER, small_weights

from plansmith import Plansmith
from plansmith.plan.run import Run, RunStatus
from plansmith.plan.steps import ToolStep
from plansmith.ports import ChatModel
from plansmith_desk.builtin import builtin_sources
from plansmith_desk.files.tools import FileTools
from plansmith_desk.model.download import pull_local
from plansmith_desk.model.embedded import embedded_model
from plansmith_desk.model.files import ModelFolder, known_model


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
        return planned, await smith.runs.run(planned.id)


@pytest.mark.long
async def test_even_the_smallest_model_writes_plans_that_hold(desk: Path) -> None:
    name = str(small_weights())
    planned, _ = await story(name, "Which files mention the harbour?", desk)
    assert planned.plan is not None
    assert not planned.plan.degraded
    tools = [step for step in planned.plan.steps if isinstance(step, ToolStep)]
    assert all(step.tool.startswith("files.") for step in tools)


def planning_model() -> ChatModel:
    """The model that people get, or a skipped test where it was not fetched."""
    model = known_model("")
    if pull_local(model, ModelFolder(FOLDER)) is None:
        pytest.skip(f"plansmith model pull {model.name} first")
    return embedded_model(model.name, folder=FOLDER)


@pytest.mark.long
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
    planning_model()
    _, run = await story(known_model("").name, request_text, desk)
    assert run.status is RunStatus.DONE
    assert all(each in run.report for each in wanted)


SALES = """date,region,product,amount
2026-01-05,North,tea,120.50
2026-01-09,South,coffee,80.00
2026-02-11,North,coffee,200.25
2026-02-20,West,tea,60.00
2026-03-02,South,tea,95.10
"""


async def carried(request: str, desk: Path) -> Run:
    """A request over the built-in tools; the person says yes to whatever is asked."""
    sources = builtin_sources(desk)
    # As on the command line: tables are tools, and known to the planner by their columns.
    telling: list[Any] = [each for each in sources if hasattr(each, "gather")]
    async with Plansmith(model=planning_model(), tools=sources, context=telling) as smith:
        run = await smith.plan(request)
        if run.status is RunStatus.REVIEWING and run.plan is not None:
            await smith.decide(run.id, approve=run.plan.hash, by="me")
        run = await smith.runs.run(run.id)
        while run.status is RunStatus.ASKING:
            for name in list(run.questions):
                await smith.answer(run.id, name, "allow", by="me")
            run = await smith.runs.run(run.id)
        return run


@pytest.mark.long
@pytest.mark.parametrize(
    ("request_text", "wanted", "file"),
    [
        ("Which files here mention the harbour?", ("north.txt", "south.txt"), ""),
        ("What is the total amount per region in sales.csv?", ("320.75", "175.1"), ""),
        ("sales.csv 里每个地区的销售总额是多少？", ("320.75", "175.1"), ""),
        (
            "Draw a bar chart of the total amount by region in sales.csv and save it as sales.svg",
            ("sales.svg",),
            "sales.svg",
        ),
        (
            "Get the total amount per region from sales.csv, then save the rows as totals.csv",
            ("320.75", "totals.csv"),
            "totals.csv",
        ),
    ],
)
async def test_the_examples_of_the_readme_come_out_right(
    request_text: str, wanted: tuple[str, ...], file: str, desk: Path
) -> None:
    (desk / "sales.csv").write_text(SALES, encoding="utf-8")
    run = await carried(request_text, desk)
    assert run.status is RunStatus.DONE, run.reason
    assert all(each in run.report for each in wanted), run.report
    assert not file or "320.75" in (desk / file).read_text(encoding="utf-8")


@pytest.mark.long
async def test_a_conversation_of_two_turns_comes_out_right_with_the_planning_model(
    desk: Path,
) -> None:
    (desk / "sales.csv").write_text(SALES, encoding="utf-8")
    sources = builtin_sources(desk)
    telling: list[Any] = [each for each in sources if hasattr(each, "gather")]
    async with Plansmith(model=planning_model(), tools=sources, context=telling) as smith:
        thread = await smith.thread()
        first = "What is the total amount for the region North in sales.csv?"
        for message, total in ((first, "320.75"), ("And for South?", "175.1")):
            turn = await thread.say(message, by="me")
            assert turn.run is not None
            run = await smith.runs.run(turn.run.id)
            assert run.status is RunStatus.DONE, run.reason
            assert total in run.report
        why = await thread.say("Why South?", by="me")
        assert "And for South?" in why.text
