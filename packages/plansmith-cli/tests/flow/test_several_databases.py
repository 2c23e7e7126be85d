"""A question that needs two databases: a step on each, side by side, by one agent."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from plansmith import RunStatus
from plansmith.plan.run_options import Team
from plansmith.ports import Delta, Prompt
from plansmith.testing import ScriptedModel
from plansmith_cli.config import Settings
from plansmith_cli.teams import data, rebuild

PLAN = {
    "goal": "Compare",
    "steps": [
        {"id": "sold", "agent": "sql_writer", "task": "Sum of orders in shop"},
        {"id": "owed", "agent": "sql_writer", "task": "Sum of invoices in crm"},
        {"id": "r", "instruction": "Sold {{sold.rows}}, owed {{owed.rows}}", "style": "exact"},
    ],
}


class Parts:
    """A model that plans by one script and writes SQL by another."""

    name = "parts"

    def __init__(self, plan: ScriptedModel, shop: ScriptedModel, crm: ScriptedModel) -> None:
        self.plan, self.shop, self.crm = plan, shop, crm

    def stream(self, prompt: Prompt) -> AsyncIterator[Delta]:
        if "You write one SQL" not in prompt.messages[0].text:
            return self.plan.stream(prompt)
        question = prompt.messages[1].text.rpartition('title="question"')[2]
        return (self.shop if "shop" in question else self.crm).stream(prompt)


@pytest.fixture
def databases(tmp_path: Path) -> dict[str, str]:
    for name, table, amount in (("shop", "orders", 30), ("crm", "invoices", 12)):
        with sqlite3.connect(tmp_path / f"{name}.db") as made:
            made.execute(f"CREATE TABLE {table} (amount INTEGER)")
            made.execute(f"INSERT INTO {table} VALUES (?)", (amount,))
        made.close()
    return {name: f"sqlite:///{tmp_path / name}.db" for name in ("shop", "crm")}


def settings(tmp_path: Path) -> Settings:
    return Settings.model_validate(
        {"store": f"sqlite:///{tmp_path / 'runs.db'}", "planner": {"triage": False}}
    )


def written(table: str, database: str) -> dict[str, Any]:
    return {"sql": f"SELECT sum(amount) AS s FROM {table}", "reason": "", "database": database}


async def test_a_question_that_needs_two_databases_gets_a_step_on_each(
    databases: dict[str, str], tmp_path: Path
) -> None:
    model = Parts(
        ScriptedModel(PLAN),
        # An unknown name, and then the wrong database, are told back to the model.
        ScriptedModel(
            written("orders", "sales"), written("orders", "crm"), written("orders", "shop")
        ),
        ScriptedModel(written("invoices", "crm")),
    )
    async with data(settings(tmp_path), database=databases, model=model, folder=tmp_path) as team:
        run = await team.run((await team.plan("Do orders and invoices match?")).id)
    assert run.status is RunStatus.DONE
    sold, owed = run.steps["sold"].result, run.steps["owed"].result
    assert isinstance(sold, dict)
    assert isinstance(owed, dict)
    assert (sold["database"], sold["rows"], sold["tries"]) == ("shop", [{"s": 30}], 3)
    assert (owed["database"], owed["rows"]) == ("crm", [{"s": 12}])
    offered = model.plan.prompts[0][1].text
    assert "shop (sqlite), crm (sqlite)" in offered
    assert "orders" in offered
    assert "invoices" in offered
    assert run.plan is not None
    assert not run.plan.by_id["sold"].needed | run.plan.by_id["owed"].needed


async def test_another_process_goes_on_with_a_run_on_two_databases(
    databases: dict[str, str], tmp_path: Path
) -> None:
    planner = Parts(ScriptedModel(PLAN), ScriptedModel(), ScriptedModel())
    given = settings(tmp_path)
    async with data(given, database=databases, model=planner, folder=tmp_path) as team:
        run = await team.plan("Do orders and invoices match?")
    record = run.options.team
    assert isinstance(record, Team)
    assert record.databases == databases
    model = Parts(
        ScriptedModel(),
        ScriptedModel(written("orders", "shop")),
        ScriptedModel(written("invoices", "crm")),
    )
    from_store = data(given, database=databases, model=model, folder=tmp_path).store
    async with rebuild(record, given, store=from_store, model=model) as team:
        run = await team.run(run.id)
    await from_store.close()
    assert run.status is RunStatus.DONE
