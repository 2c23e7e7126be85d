"""What many tests of runs begin with: plans, as they are and edited, and a person who approves."""

from __future__ import annotations

from typing import Any

from plansmith import Plan, Plansmith, Run, RunStatus
from plansmith.plan.data import Json
from plansmith.plan.steps import AnyStep


def plan(*steps: dict[str, Any], **fields: Any) -> Plan:
    return Plan.model_validate({"goal": "test", "steps": list(steps)} | fields)


def step(name: str, tool: str = "look", **fields: Any) -> dict[str, Any]:
    return {"id": name, "tool": tool} | fields


def change_step(plan: Plan, name: str, **changes: Any) -> Plan:
    steps = (step.replace(**changes) if step.id == name else step for step in plan.steps)
    return plan.replace(steps=tuple(steps))


def remove_step(plan: Plan, name: str) -> Plan:
    return plan.replace(steps=tuple(step for step in plan.steps if step.id != name))


def add_step(plan: Plan, step: AnyStep) -> Plan:
    return plan.replace(steps=(*plan.steps, step))


async def approve(app: Plansmith, run: Run, by: str = "ada") -> Run:
    """Approves the present plan of a run."""
    assert run.plan is not None
    return await app.decide(run.id, approve=run.plan.hash, by=by)


async def approved(app: Plansmith, wanted: Plan, by: str = "bob") -> Run:
    """Runs a plan that a person approves if it has to be approved."""
    run = await app.submit(wanted, by=by)
    if run.status is RunStatus.REVIEWING:
        await approve(app, run)
    return await app.run(run.id)


async def answered(app: Plansmith, run: Run, question: str, answer: Json) -> Run:
    """Answers a question of a run as a person, and goes on."""
    await app.answer(run.id, question, answer, by="ada")
    return await app.run(run.id)
