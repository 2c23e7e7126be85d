"""Runs end in one append, are conducted once, and keep order and memory through changes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from tests.flow.test_approval_covers import Script, draft, effects, reasons, smith, step
from tests.flow.test_approval_crossings import ask, decided, plan_of

from plansmith import Effect, RunStatus
from plansmith.errors import OutcomeUnknown, ToolFailed
from plansmith.plan import events as e
from plansmith.testing import FakeTool, MemoryStore


class Batches(MemoryStore):
    """Remembers what was appended together."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[list[str]] = []

    async def append(
        self, events: Sequence[e.Event], values: Sequence[Any] = (), **told: Any
    ) -> None:
        await super().append(events, values, **told)
        self.batches.append([event.body.type for event in events])


async def test_what_a_run_leaves_over_and_its_end_are_one_append(scripted: Script) -> None:
    store = Batches()
    app, _ = smith(scripted(), store=store)
    run = await app.submit(plan_of(step("f", "flaky"), step("x", after=["f"])), by="ada")
    run = await app.run(run.id)
    assert run.status is RunStatus.FAILED
    assert store.batches[-1] == ["step_skipped", "run_finished"]


async def test_a_run_that_is_asked_to_run_twice_at_once_is_conducted_once(scripted: Script) -> None:
    app, tools = smith(scripted())
    pay = step("p", "pay", inputs={"to": "alice"}, after=["q"])
    run = await decided(app, await app.submit(plan_of(ask("q"), pay), by="ada"))
    await app.answer(run.id, "q", "yes", by="ada")
    first, second = await asyncio.gather(app.run(run.id), app.run(run.id))
    assert first.status is second.status is RunStatus.DONE
    assert len(effects(tools)) == 1


async def test_an_edit_of_a_revision_still_tells_what_was_made_under_another_name(
    scripted: Script,
) -> None:
    pay = step("p", "pay", inputs={"to": "alice"})
    shaky = FakeTool("shaky", [ToolFailed("no")])
    again = draft(pay | {"id": "again"}, step("n", after=["again"]))
    app, tools = smith(scripted(draft(pay, step("s", "shaky"), ask("q")), again), shaky)
    run = await app.plan("pay alice", by="ada")
    run = await decided(app, run)
    run = await app.request_changes(run.id, "otherwise", by="ada")
    assert run.plan is not None
    edited = run.plan.replace(steps=tuple(each for each in run.plan.steps if each.id != "n"))
    run = await app.edit(run.id, edited, by="ada")
    assert "was made already; this would make it again" in await reasons(app, run)
    assert len(effects(tools)) == 1


async def test_a_question_put_before_a_step_in_doubt_holds_what_comes_behind_the_step(
    scripted: Script,
) -> None:
    lost = FakeTool("send", [OutcomeUnknown("lost"), "ok"], effect=Effect.WRITE)
    app, tools = smith(scripted(), lost)
    look = step("n")
    send = step("s", "send", after=["n"])
    pay = step("p", "pay", inputs={"to": "alice"}, after=["s"])
    run = await decided(app, await app.submit(plan_of(look, send, pay), by="ada"))
    assert list(run.questions) == ["unknown:s"]
    guarded = plan_of(ask("q", "Really?"), look | {"after": ["q"]}, send, pay)
    run = await app.edit(run.id, guarded, by="ada")
    await app.answer(run.id, "unknown:s", "done", by="ada")
    run = await decided(app, run)
    assert list(run.questions) == ["q"]
    assert effects(tools) == []
    await app.answer(run.id, "q", "yes", by="ada")
    assert (await app.run(run.id)).status is RunStatus.DONE
    assert len(effects(tools)) == 1


async def test_continuing_a_rejected_revision_tells_what_was_made_under_another_name(
    scripted: Script,
) -> None:
    pay = step("p", "pay", inputs={"to": "alice"})
    app, tools = smith(scripted())
    wanted = plan_of(pay, ask("q"), goal="pay alice")
    run = await decided(app, await app.submit(wanted, by="ada"))
    edited = plan_of(pay | {"id": "again"}, ask("q"), goal="pay alice")
    await app.edit(run.id, edited, by="ada")
    await app.decide(run.id, reject=True, by="ada")
    again = await app.retry(run.id, by="ada")
    assert "was made already; this would make it again" in await reasons(app, again)
    assert len(effects(tools)) == 1
