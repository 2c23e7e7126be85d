"""Attacks on approvals in the faces: a decision counts only for the plan that was shown."""

from __future__ import annotations

from typing import Any

import pytest
from tests.members import Member
from tests.test_attacks import CALL, REPLY, Tool, runtime
from tests.test_conversations import GO, research

from plansmith import Plansmith
from plansmith.errors import StaleDecision, ToolFailed
from plansmith.testing import MemoryStore, ScriptedModel
from plansmith_compat.deerflow import DeerFlow
from plansmith_compat.sage.operators import RegistryTools


async def test_the_acceptance_of_a_deerflow_plan_does_not_count_for_one_nobody_here_saw() -> None:
    member, store = Member("researcher"), MemoryStore()
    given: dict[str, Any] = {"agents": [member], "store": store}
    here = DeerFlow(model=ScriptedModel(GO, research("old")), **given)
    there = DeerFlow(model=ScriptedModel(research("new"), "the report"), **given)
    run_id = (await here.start("the market")).run_id
    await there.feedback(run_id, "[EDIT_PLAN] something else")
    state = await here.feedback(run_id, "[ACCEPTED]")
    assert (state.goto, member.tasks) == ("human_feedback", [])
    assert state.plan is not None
    assert state.plan.steps[0].description == "new"
    await there.feedback(run_id, "[ACCEPTED]")
    assert member.tasks == ["new"]


async def test_a_decision_on_a_plan_of_a_sage_runtime_does_not_count_for_another_one() -> None:
    look, wipe = Tool("look", "read", *[ToolFailed("gone")] * 4), Tool("wipe", "write")
    store = MemoryStore()
    new = [{**CALL, "name": "wipe", "arguments": {"at": "a"}}, REPLY]
    asks = runtime([CALL, REPLY], new, tools=[look, wipe], replans=1, store=store)
    run = await asks.answer("look at x")
    edited = Plansmith(tools=[RegistryTools(asks.tools)], store=store, shared_store=True)
    plan = (await edited.get(run.run_id)).plan
    assert plan is not None
    other = plan.steps[0].replace(inputs={"at": "everything"})
    await edited.edit(run.run_id, plan.replace(steps=(other, *plan.steps[1:])))
    with pytest.raises(StaleDecision, match="another plan"):
        await asks.adecide(approve=True)
    assert wipe.calls == []
