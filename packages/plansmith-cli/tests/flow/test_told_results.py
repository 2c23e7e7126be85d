"""A person says what became of a call whose end nobody saw, and what its result was."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from tests.flow.plans import answered, approved, plan

from plansmith import Effect, Plan, Plansmith, RunStatus
from plansmith.errors import OutcomeUnknown, Refused
from plansmith.plan.data import Json
from plansmith.plan.limits import Limits
from plansmith.plan.run import Run
from plansmith.testing import FakeTool, FakeTools, MemoryStore

ORDERED = {
    "type": "object",
    "properties": {"id": {"type": "string"}},
    "required": ["id"],
    "additionalProperties": False,
}
ORDER: dict[str, Any] = {"id": "order", "tool": "order", "inputs": {"n": "{{stock}}"}}
STOCK: dict[str, Any] = {"id": "stock", "tool": "stock"}
SEND: dict[str, Any] = {"id": "send", "tool": "send", "inputs": {"to": "{{order.id}}"}}

MAIL: dict[str, Any] = {
    "id": "mail",
    "tool": "send",
    "inputs": {"to": "x"},
    "when": {"empty": "{{order}}"},
}


def _lost(_: Mapping[str, Any]) -> Any:
    raise OutcomeUnknown("the line broke")


def world(*orders: Any) -> FakeTools:
    return FakeTools(
        FakeTool("stock", [3]),
        FakeTool("order", list(orders or [_lost]), effect=Effect.WRITE, output_schema=ORDERED),
        FakeTool("send", [dict], effect=Effect.WRITE),
        FakeTool("cancel", [dict], effect=Effect.WRITE),
    )


async def asked(store: MemoryStore, tools: FakeTools, wanted: Plan, data: Any = "show") -> Run:
    async with Plansmith(tools=[tools], store=store, limits=Limits(data=data)) as app:
        return await approved(app, wanted)


async def told(store: MemoryStore, tools: FakeTools, run: Run, value: Any) -> Run:
    """Answers in one process, and goes on in another."""
    async with Plansmith(tools=[tools], store=store) as second:
        await second.answer(run.id, next(iter(run.questions)), value, by="ada")
    async with Plansmith(tools=[tools], store=store, limits=Limits(data="show")) as third:
        return await third.run(run.id)


async def test_the_result_that_a_person_tells_is_what_later_steps_use() -> None:
    store, tools = MemoryStore(), world()
    run = await asked(store, tools, plan(STOCK, ORDER, SEND))
    run = await told(store, tools, run, {"done": {"id": "A-17"}})
    assert run.status is RunStatus.DONE
    [sent] = [each.arguments for each in tools.calls if each.tool == "send"]
    assert sent == {"to": "A-17"}
    assert len([each for each in tools.calls if each.tool == "order"]) == 1


@pytest.mark.parametrize(
    ("more", "user"),
    [
        ((SEND,), "send"),
        (({"id": "all", "over": [1], "each": {**SEND, "id": "one"}},), "all"),
        (({"id": "last", "say": "{{order.id}}"},), "last"),
        ((MAIL,), "mail"),
    ],
)
async def test_done_alone_is_refused_where_a_step_needs_the_result(more: Any, user: str) -> None:
    store, tools = MemoryStore(), world()
    run = await asked(store, tools, plan(STOCK, ORDER, *more))
    async with Plansmith(tools=[tools], store=store) as app:
        with pytest.raises(Refused, match=f"is needed by '{user}'") as refused:
            await app.answer(run.id, "unknown:order", "done", by="ada")
        assert '{"done": …}' in str(refused.value.hint)
        assert (await app.get(run.id)).questions


async def test_done_alone_is_refused_where_taking_back_needs_the_result() -> None:
    store, tools = MemoryStore(), world()
    undo = {"tool": "cancel", "inputs": {"what": "{{order.id}}"}}
    run = await asked(store, tools, plan(STOCK, {**ORDER, "undo_with": undo}))
    async with Plansmith(tools=[tools], store=store) as app:
        with pytest.raises(Refused, match="is needed by 'order'"):
            await app.answer(run.id, "unknown:order", "done", by="ada")
        await app.answer(run.id, "unknown:order", {"done": {"id": "A-17"}}, by="ada")
        await app.run(run.id)
        taken = await app.runs.undo_effects(run.id)
    assert taken.plan is not None
    assert "A-17" in str(taken.plan.steps[0].to_json())


async def test_done_alone_is_enough_where_nobody_uses_the_result() -> None:
    store, tools = MemoryStore(), world()
    after = {"id": "send", "tool": "send", "inputs": {"to": "x"}, "after": ["order"]}
    run = await asked(store, tools, plan(STOCK, ORDER, after))
    assert (await told(store, tools, run, "done")).status is RunStatus.DONE


async def test_a_result_that_the_tool_cannot_give_is_refused() -> None:
    store, tools = MemoryStore(), world()
    run = await asked(store, tools, plan(STOCK, ORDER, SEND))
    async with Plansmith(tools=[tools], store=store) as app:
        wrongs: list[Json] = [
            {"done": {"no": 1}},
            {"done": "done"},
            {"id": "A"},
            {"done": 1, "x": 2},
        ]
        for wrong in wrongs:
            with pytest.raises(Refused):
                await app.answer(run.id, "unknown:order", wrong, by="ada")


async def test_a_result_that_nobody_knows_fails_what_needs_it_and_calls_nothing() -> None:
    store, tools = MemoryStore(), world()
    run = await asked(store, tools, plan(STOCK, ORDER, SEND))
    run = await told(store, tools, run, {"done": None})
    assert run.steps["send"].status == "failed"
    assert not [each for each in tools.calls if each.tool == "send"]


async def test_a_call_that_is_made_again_keeps_the_consent_to_its_values() -> None:
    store, tools = MemoryStore(), world(_lost, {"id": "A-17"})
    run = await asked(store, tools, plan(STOCK, ORDER), data="ask")
    async with Plansmith(tools=[tools], store=store, limits=Limits(data="ask")) as app:
        run = await answered(app, run, next(iter(run.questions)), "allow")
    async with Plansmith(tools=[tools], store=store, limits=Limits(data="ask")) as app:
        await app.answer(run.id, next(iter(run.questions)), "retry", by="ada")
    async with Plansmith(tools=[tools], store=store, limits=Limits(data="ask")) as app:
        run = await app.run(run.id)
    assert run.status is RunStatus.DONE
    assert len([each for each in tools.calls if each.tool == "order"]) == 2


@pytest.mark.parametrize("is_lost", [True, False])
async def test_a_consent_is_not_kept_for_another_tool_in_a_new_plan(is_lost: bool) -> None:
    store, tools = MemoryStore(), world(*([_lost] if is_lost else []), {"id": "A-17"})
    run = await asked(store, tools, plan(STOCK, ORDER), data="ask")
    async with Plansmith(tools=[tools], store=store, limits=Limits(data="ask")) as app:
        await app.answer(run.id, next(iter(run.questions)), "allow", by="ada")
        if is_lost:  # the call was made, and nobody knows how it ended
            run = await app.run(run.id)
            await app.answer(run.id, next(iter(run.questions)), "retry", by="ada")
        changed = plan(STOCK, {**ORDER, "tool": "send"})
        await app.edit(run.id, changed, by="eve")
        await app.decide(run.id, approve=changed.hash, by="ada")
        run = await app.run(run.id)
    assert [each.kind for each in run.questions.values()] == ["consent"]
    assert [each.tool for each in tools.calls] == ["stock", *(["order"] if is_lost else [])]
