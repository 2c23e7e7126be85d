"""Plans with A2A agents, end to end: approved, asked, answered, finished, cancelled."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from tests import forked
from tests.servers.a2a_desk import Desk

from plansmith import Plan, RunStatus
from plansmith.app import Plansmith
from plansmith.plan.events import StepProgressed
from plansmith.tools.functions import tool
from plansmith_connect.a2a.agent import connect

ROOT = Path(__file__).parents[4]


def plan(*steps: dict[str, Any]) -> Plan:
    return Plan.model_validate({"goal": "test", "steps": list(steps)})


@tool(effect="read")
def shout(text: str) -> str:
    """Say it louder."""
    return text.upper()


async def test_an_agent_in_a_plan_asks_is_answered_and_finishes() -> None:
    async with Desk().serving() as intake:
        agent = await connect("desk", intake.url)
        async with Plansmith(tools=[shout], agents=[agent]) as smith:
            run = await smith.submit(
                plan(
                    {"id": "b", "agent": "a2a.desk", "task": "ask lunch"},
                    {"id": "s", "tool": "shout", "inputs": {"text": "{{b.text}}"}},
                )
            )
            assert run.status is RunStatus.REVIEWING, "an agent nobody vouched for may write"
            assert intake.executor.deeds == []
            assert run.plan is not None
            await smith.decide(run.id, approve=run.plan.hash, by="ada")
            run = await smith.runs.run(run.id)
            assert run.status is RunStatus.ASKING
            [asked] = run.questions.values()
            assert asked.text == "Which day for lunch?"
            await smith.answer(run.id, asked.question, "monday", by="ada")
            run = await smith.runs.run(run.id)
            assert run.status is RunStatus.DONE
            assert run.steps["s"].result == "BOOKED MONDAY"
            assert intake.executor.deeds == ["begin ask lunch", "answer monday"]


async def test_progress_of_an_agent_is_in_the_journal_and_cancelling_the_run_cancels_its_task() -> (
    None
):
    async with Desk().serving() as intake:
        agent = await connect("desk", intake.url, effect="read")
        async with Plansmith(agents=[agent]) as smith:
            run = await smith.submit(plan({"id": "h", "agent": "a2a.desk", "task": "hold x"}))
            running = asyncio.ensure_future(smith.runs.run(run.id))
            async for event in smith.events(run.id, follow=True):
                if isinstance(event.body, StepProgressed) and event.body.text == "holding x":
                    break
            run = await smith.cancel(run.id)
            await running
            assert (await smith.get(run.id)).status is RunStatus.CANCELLED
            assert intake.executor.deeds == ["begin hold x", "cancel"]


async def test_a_question_outlives_our_own_process(tmp_path: Path) -> None:
    async def caller(*arguments: str) -> Any:
        process = await forked.create_subprocess_exec(
            *(sys.executable, "-m", "tests.servers.a2a_caller", *arguments),
            cwd=ROOT,
            stdout=asyncio.subprocess.PIPE,
        )
        out, _ = await process.communicate()
        return json.loads(out)

    async with Desk().serving() as intake:
        store = f"sqlite:///{tmp_path / 'runs.db'}"
        first = await caller(intake.url, store)
        assert (first["status"], first["asked"]) == ("asking", ["Which day for lunch?"])
        second = await caller(intake.url, store, "monday")
        assert second["status"] == "done"
        assert second["result"]["text"] == "booked monday"
        assert intake.executor.deeds == ["begin ask lunch", "answer monday"]
