"""A plan with a researcher and a coder, run end to end on real files and in the real sandbox."""

from __future__ import annotations

import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from tests import forked

from plansmith import Plan, Plansmith, Run, RunStatus, StepStatus
from plansmith.plan.data import Json
from plansmith.ports import Usage
from plansmith.testing import Answer, ScriptedModel
from plansmith_desk.agents.coder import coder
from plansmith_desk.agents.local import LocalLimits
from plansmith_desk.agents.researcher import researcher
from plansmith_desk.files.tools import FileTools
from plansmith_desk.sandbox.sandbox import Sandbox, SandboxLimits


@pytest.fixture(scope="module")
def confined() -> str:
    """Why code cannot be confined on this machine, or nothing."""
    program = "import asyncio; from plansmith_desk.sandbox.sandbox import Sandbox\n"
    program += "asyncio.run(Sandbox().run('pass'))"
    done = forked.run([sys.executable, "-c", program], capture_output=True, check=False)
    told = done.stderr.decode().strip()
    # Only a machine that refuses is a reason to skip; a sandbox that breaks is a failure.
    assert not told or "cannot be confined here" in told or "on Linux only" in told, told
    return told.splitlines()[-1] if told else ""


@pytest.fixture(autouse=True)
def walls(confined: str) -> None:
    if confined:
        pytest.skip(confined)


def calls(name: str, **arguments: Json) -> Answer:
    return Answer(arguments, tool=name, usage=Usage(100, 20, cost=Decimal("0.001")))


PLAN = Plan.model_validate(
    {
        "goal": "How wet was the spring?",
        "steps": [
            {"id": "find", "agent": "researcher", "task": "Find the rain of each month."},
            {
                "id": "sum",
                "agent": "coder",
                "task": "Add the months up and draw a table.",
                "inputs": {
                    "found": {"$from": "find", "$path": ["findings"]},
                    "files": ["rain.csv"],
                },
            },
            {"id": "say", "instruction": "{{find.text}} {{sum.text}}"},
        ],
    }
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "rain.csv").write_text("month,mm\nmarch,40\napril,60\nmay,20\n")
    (tmp_path / "notes.md").write_text("The gauge was moved in april.\n")
    return tmp_path


def smith(folder: Path, research: ScriptedModel, code: ScriptedModel, **limits: Any) -> Plansmith:
    files = FileTools(folder)
    finder = researcher(model=research, sources=[files], limits=LocalLimits(**limits))
    quick = Sandbox(limits=SandboxLimits(wall_s=20.0))
    return Plansmith(
        tools=[files], agents=[finder, coder(model=code, sandbox=quick, folder=folder)]
    )


async def ran(app: Plansmith) -> Run:
    run = await app.submit(PLAN)
    assert run.plan is not None
    if run.status is RunStatus.REVIEWING:
        await app.decide(run.id, approve=run.plan.hash)
    return await app.run(run.id)


async def test_an_agent_that_did_not_finish_is_a_failed_step_and_never_done(folder: Path) -> None:
    research = ScriptedModel(*[calls("files.read", path="rain.csv")] * 2)
    run = await ran(smith(folder, research, ScriptedModel(), turns=2))
    assert run.steps["find"].status is StepStatus.FAILED
    assert run.steps["sum"].status is not StepStatus.DONE
    assert run.status is not RunStatus.DONE
    assert "used up its 2 turns" in run.steps["find"].error
