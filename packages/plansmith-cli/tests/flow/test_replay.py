"""A recorded run is run again offline, in the real engine, and does the same."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.flow.plans import answered, approve, approved, plan, step

from plansmith import Effect, Plansmith, RunStatus
from plansmith.errors import InputNeeded, ToolFailed
from plansmith.plan.data import Json, canonical_json
from plansmith.plan.events import Actor, Event
from plansmith.plan.limits import Limits
from plansmith.ports import Call, Usage
from plansmith.testing import (
    Answer,
    FakeClock,
    FakeTool,
    FakeTools,
    MemoryStore,
    RecordedModel,
    RecordingModel,
    ScriptedModel,
)
from plansmith_cli.replay import replay

Scripted = Callable[..., ScriptedModel]
QUICK = Limits(first_wait_s=0.001)


LOOK = FakeTool("look", [lambda given: {"seen": dict(given), "list": [1, 2, 3]}])


def smith(*tools: FakeTool, **options: Any) -> Plansmith:
    options.setdefault("limits", QUICK)
    return Plansmith(tools=[FakeTools(LOOK, *tools)], **options)


async def assert_replays(app: Plansmith, run_id: str) -> list[Event]:
    """Run again with nothing to call, the plan does the same, and nothing is stored."""
    events = list(await app.store.events(run_id))
    replayed = await replay(run_id, app)
    assert replayed.identical, json.dumps(replayed.to_json(), indent=1)
    assert list(await app.store.events(run_id)) == events
    return events


async def test_a_program_that_begins_a_run_answers_and_cancels() -> None:
    app = smith()
    bot = Actor(kind="program", name="MCP client bot")
    ask = {"id": "a", "question": "which?"}
    run = await app.submit(plan(ask, step("b", inputs={"q": "{{a}}"})), by=bot)
    await app.run(run.id)
    await app.answer(run.id, "a", "this", by=bot)
    await app.run(run.id)
    await assert_replays(app, run.id)
    other = await app.submit(plan(ask), by=bot)
    await app.run(other.id)
    await app.cancel(other.id, by=bot)
    await assert_replays(app, other.id)


class Gate:
    """A tool that ends when the test says so."""

    def __init__(self) -> None:
        self.started = asyncio.Event()
        self.open = asyncio.Event()

    async def tools(self) -> list[Any]:
        return [FakeTool("gate").spec, FakeTool("act", effect=Effect.WRITE).spec]

    async def call(self, tool: str, arguments: Mapping[str, Json], call: Call) -> Json:
        del arguments
        call.progress("half way")
        self.started.set()
        await self.open.wait()
        return tool


async def test_a_run_whose_process_died_and_that_another_one_took_up() -> None:
    store, gate = MemoryStore(), Gate()
    app = Plansmith(tools=[gate, FakeTools(LOOK)], store=store)
    wanted = plan(step("a"), step("g", "gate"), step("w", "act"), step("z", after=["g"]))
    run = await approve(app, await app.submit(wanted))
    running = asyncio.create_task(app.run(run.id))
    await gate.started.wait()
    await asyncio.sleep(0)
    await app.close()
    await asyncio.gather(running, return_exceptions=True)
    second = Gate()
    second.open.set()
    again = Plansmith(tools=[second, FakeTools(LOOK)], store=store)
    await again.runs.resume_all()
    run = await answered(again, run, "unknown:w", "done")
    assert run.status is RunStatus.DONE
    await assert_replays(again, run.id)


async def test_a_call_that_asked_the_person() -> None:
    class Asking(FakeTools):
        async def call(self, tool: str, arguments: Mapping[str, Json], call: Call) -> Json:
            if call.reply is None:
                raise InputNeeded("Which?", options=["a", "b"], state={"kept": 1})
            return await super().call(tool, arguments, call)

    app = Plansmith(tools=[Asking(LOOK)])
    run = await approved(app, plan(step("a")))
    run = await answered(app, run, next(iter(run.questions)), "b")
    assert run.status is RunStatus.DONE
    await assert_replays(app, run.id)


PLANNED = {"goal": "look", "steps": [step("a"), {"id": "r", "instruction": "Say {{a}}"}]}
TRIAGE = {"decision": "plan", "reason": "work", "query": "look", "answer": ""}


async def test_recorded_model_and_tool_replies_make_the_same_journal_through_the_planner(
    scripted: Scripted, tmp_path: Path
) -> None:
    """R5: request, plan, failure, new plan and worded answer, byte for byte."""
    path = tmp_path / "calls.jsonl"
    broken = {"goal": "look", "steps": [step("b", "bad")]}
    live = scripted(TRIAGE, broken, PLANNED, Answer("Seen [step:a].", usage=Usage(10, 5)))
    texts: list[list[bytes]] = []
    for model in (RecordingModel(live, path), None):
        app = Plansmith(
            model=model or RecordedModel(path),
            tools=[FakeTools(LOOK, FakeTool("bad", [ToolFailed("closed")]))],
            clock=FakeClock(),
            ids=lambda: "run-1",
        )
        run = await app.plan("look at it", by="bob")
        run = await app.run(run.id)
        await approve(app, run)
        run = await app.run(run.id)
        assert (run.status, run.replans) == (RunStatus.DONE, 1)
        events = await app.store.events(run.id)
        texts.append([canonical_json(event.to_json()) for event in events])
    assert texts[0] == texts[1]


async def test_nothing_is_called_and_nothing_is_written() -> None:
    source = FakeTools(LOOK, FakeTool("mail", ["sent"], effect=Effect.FINAL))
    app = Plansmith(tools=[source])
    run_id = (await approved(app, plan(step("a"), step("m", "mail")))).id
    calls = list(source.calls)
    await assert_replays(app, run_id)
    assert source.calls == calls


async def test_what_is_different_today_is_said() -> None:
    store = MemoryStore()
    app = smith(FakeTool("act", ["x"], effect=Effect.WRITE), store=store)
    run_id = (await approved(app, plan(step("a"), step("w", "act")))).id
    replayed = await replay(run_id, smith(FakeTool("act", ["x"], effect=Effect.READ), store=store))
    assert replayed.differences[0] == "w changed something then, and only reads now"
    replayed = await replay(run_id, Plansmith(tools=[FakeTools(LOOK)], store=store))
    assert "today it is refused: " in replayed.differences[-1]
    assert "'act'" in replayed.differences[-1]
    reads = smith(FakeTool("act", ["x"], effect=Effect.READ), store=store)
    run_id = (await approved(reads, plan(step("w", "act")))).id
    replayed = await replay(run_id, app)
    assert replayed.differences == (
        "w only read then, and changes something now",
        "today a person has to approve the plan",
    )


async def test_an_altered_result_changes_what_later_steps_are_given() -> None:
    class Altering(MemoryStore):
        async def get(self, digest: str) -> Json:
            value = await super().get(digest)
            return {"seen": "forged"} if value == {"seen": {"n": 1}, "list": [1, 2, 3]} else value

    app = smith(store=Altering())
    run_id = (
        await approved(app, plan(step("a", inputs={"n": 1}), step("b", inputs={"q": "{{a}}"})))
    ).id
    assert "b is called with other inputs" in (await replay(run_id, app)).differences


async def test_what_a_person_changed_on_the_way_is_the_same_again() -> None:
    app = smith(FakeTool("act", ["x"], effect=Effect.WRITE))
    ask = {"id": "q", "question": "a?"}
    wanted = plan(ask, {"id": "z", "question": "z?"}, step("b", inputs={"v": "{{q}}"}))
    run = await app.run((await app.submit(wanted)).id)
    await app.answer(run.id, "q", "one", by="ada")
    other = plan({**ask, "question": "b?"}, *(each.to_json() for each in wanted.steps[1:]))
    await app.edit(run.id, other, by="ada")
    await assert_replays(app, run.id)  # nobody has said yet whether the changed plan may run
    await app.runs.skip(run.id, "z", by="ada")
    run = await app.run(run.id)
    if run.paused:
        await app.resume(run.id, by="ada")
        run = await app.run(run.id)
    await app.answer(run.id, "q", None, by="ada")  # null is an answer
    run = await app.run(run.id)
    assert run.steps["b"].status == "done", run.steps
    await assert_replays(app, run.id)


async def test_a_part_that_a_person_left_out_stays_out() -> None:
    app = smith(FakeTool("act", ["x"], effect=Effect.WRITE))
    each = {"tool": "act", "inputs": {"q": "{{item}}", "n": "{{l}}"}}
    run = await approved(app, plan({"id": "m", "over": [1, 2], "each": each}, step("l")))
    await app.runs.skip(run.id, "m/0", by="ada")
    run = await app.run(run.id)
    run = await answered(app, run, next(iter(run.questions)), "allow")
    assert (run.steps["m/0"].status, run.steps["m/1"].status) == ("skipped", "done")
    await assert_replays(app, run.id)


async def test_a_result_that_a_tool_would_no_longer_give_is_a_difference() -> None:
    class Texts(FakeTools):
        kind = "string"

        async def tools(self) -> list[Any]:
            found = (
                each.replace(output_schema={"type": self.kind}) for each in await super().tools()
            )
            return [*found]

    store, tools = MemoryStore(), Texts(FakeTool("look", ["seven"]))
    app = Plansmith(tools=[tools], store=store)
    run = await app.run((await app.submit(plan(step("a")))).id)
    assert (await replay(run.id, app)).identical
    tools.kind = "integer"
    replayed = await replay(run.id, Plansmith(tools=[tools], store=store))
    assert replayed.differences == ("a ended as done, and now as failed",)
