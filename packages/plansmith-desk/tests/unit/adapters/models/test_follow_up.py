"""A follow-up is drafted as a change of the plan before, and never repeats it without a word."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any

import pytest

from plansmith import Plan
from plansmith.plan.capability import Effect, ToolSpec
from plansmith.ports import Delta, Message, ModelDone, PlanBrief, Prompt, TextDelta, Usage
from plansmith_desk.model.drafting import DraftingModel
from plansmith_desk.model.model import LocalModel
from plansmith_planner.model_calls import read_answer

QUESTION = "how much did we spend on beans in expenses.csv?"
BEANS = "SELECT SUM(amount) FROM expenses WHERE item = 'beans'"
RENT = "SELECT SUM(amount) FROM expenses WHERE item LIKE '%rent%'"
_QUERY = {"type": "string", "format": "sql"}
SQL = ToolSpec(
    name="tables.sql",
    effect=Effect.READ,
    input_schema={"type": "object", "properties": {"query": _QUERY}, "required": ["query"]},
)


class Scripted(LocalModel):
    """Writes the query for what a prompt ends with; the one of `else` for any other."""

    def __init__(self, queries: Mapping[str, str]) -> None:
        self.queries, self.name = queries, "local:scripted"

    async def constrained(self, prompt: Prompt, *, grammar: str = "") -> AsyncGenerator[Delta]:
        last = prompt.messages[-1].text.splitlines()[-1]
        query = self.queries.get(last, self.queries.get("else", "?"))
        calls = [{"tool": "tables.sql", "args": {"query": query}}]
        yield TextDelta(json.dumps({"calls": calls}))
        yield ModelDone(Usage(1, 1), self.name)

    async def prime(self, messages: Sequence[Message]) -> AsyncGenerator[TextDelta]:
        for _ in ():
            yield TextDelta("")


async def drafted(request: str, queries: Mapping[str, str]) -> dict[str, Any]:
    steps = [{"id": "sql", "tool": "tables.sql", "inputs": {"query": BEANS}}]
    before = (QUESTION, Plan.model_validate({"goal": QUESTION, "steps": steps}))
    brief = PlanBrief(request, tools=(SQL,), before=before)
    prompt = Prompt([Message("user", request)], brief=brief)
    plan: dict[str, Any] = json.loads(
        (await read_answer(DraftingModel(Scripted(queries)).stream(prompt))).text
    )
    return plan


@pytest.mark.parametrize(
    ("request_", "last"),
    [
        ("and rent?", "Change it: and rent?"),
        ("那按地区呢？", "Change it: 那按地区呢？"),
        ("now the same for rent", "Change it: rent"),  # in its own words nothing changes
        ("Which day was the rent paid on?", "Request: Which day was the rent paid on?"),
        ("write that amount to a file", "Change it: write that amount to a file"),
    ],
)
async def test_a_follow_up_changes_the_plan_before_and_a_whole_request_does_not(
    request_: str, last: str
) -> None:
    by_itself = {"Change it: now the same for rent": BEANS}
    plan = await drafted(request_, {last: RENT, **by_itself})
    assert plan["steps"][0]["inputs"] == {"query": RENT}
    assert plan["goal"] == request_
    assert "degraded" not in plan


async def test_a_follow_up_that_only_gives_the_plan_before_says_so() -> None:
    again = BEANS.replace("= 'beans'", "LIKE '%beans%'")
    assert "the plan is the same again" in (await drafted("and rent?", {"else": again}))["degraded"]
    assert "计划与上次相同" in (await drafted("那房租呢？", {"else": again}))["degraded"]
