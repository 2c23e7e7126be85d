"""Runs of a conversation that wait for an answer, with and without a change behind it."""

from __future__ import annotations

from typing import Any

from tests.flow.looking_model import Desk, LookingModel

from plansmith import Plansmith, RunStatus


def asks(question: str = "Which one?", **ask: Any) -> dict[str, Any]:
    """Returns a plan that looks up what the person answers."""
    return _plan(question, ask, tool="flights", inputs={"city": {"$from": "q"}})


def guards(question: str = "Really book it?", **ask: Any) -> dict[str, Any]:
    """Returns a plan that books once a person has answered."""
    return _plan(question, ask, tool="book", inputs={"what": "x"}, after=["q"])


def _plan(question: str, ask: dict[str, Any], **use: Any) -> dict[str, Any]:
    asks = {"id": "q", "kind": "ask", "question": question, **ask}
    return {"goal": "g", "steps": [asks, {"id": "use", "kind": "tool", **use}]}


def made(desk: Desk, plan: Any, **model: Any) -> Plansmith:
    plans: Any = plan if callable(plan) else lambda *_: plan
    return Plansmith(model=LookingModel(plans, **model), tools=desk.tools())


async def asking(smith: Plansmith, request: str = "Begin") -> str:
    """Returns a run of the thread that waits for the answer to its question."""
    turn = await (await smith.thread("t")).say(request, by="ann")
    assert turn.run is not None
    return await approved(smith, turn.run.id)


async def approved(smith: Plansmith, run_id: str) -> str:
    run = await smith.get(run_id)
    if run.status is RunStatus.REVIEWING and run.plan is not None:
        await smith.decide(run_id, approve=run.plan.hash, by="ann")
    assert (await smith.run(run_id)).status is RunStatus.ASKING
    return run_id
