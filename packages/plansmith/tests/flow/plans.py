"""What many tests of runs begin with: plans, steps, and a person who approves."""

from __future__ import annotations

from typing import Any

from plansmith import Plan, Plansmith, Run, RunStatus


def plan(*steps: dict[str, Any], **fields: Any) -> Plan:
    return Plan.model_validate({"goal": "test", "steps": list(steps)} | fields)


def step(name: str, tool: str = "look", **fields: Any) -> dict[str, Any]:
    return {"id": name, "tool": tool} | fields


async def approved(app: Plansmith, wanted: Plan) -> Run:
    """Runs a plan that a person approves if it has to be approved."""
    run = await app.submit(wanted, by="bob")
    if run.status is RunStatus.REVIEWING and run.plan is not None:
        await app.decide(run.id, approve=run.plan.hash, by="ada")
    return await app.run(run.id)
