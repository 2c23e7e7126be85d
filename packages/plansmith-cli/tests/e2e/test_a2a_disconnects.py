"""A2A agents whose connections, servers and callers die: nothing is sent twice, nothing is lost."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests import forked
from tests.flow.plans import approve, plan
from tests.needs import free_port
from tests.servers.a2a_desk import Desk
from tests.servers.a2a_wire import Wire

from plansmith import RunStatus
from plansmith.app import Plansmith
from plansmith.errors import InputNeeded, OutcomeUnknown, ToolBusy, ToolFailed
from plansmith.plan.data import Json
from plansmith.plan.events import StepProgressed
from plansmith.ports import Call, Reply
from plansmith.tools.functions import tool
from plansmith_connect.a2a.agent import A2AAgent, connect

ROOT = Path(__file__).parents[4]
SENDS = {
    ("JSONRPC", True): b"SendStreamingMessage",
    ("JSONRPC", False): b"SendMessage",
    ("HTTP+JSON", True): b"/message:stream",
    ("HTTP+JSON", False): b"/message:send",
}
WAYS = [pytest.param(*way, id="-".join(map(str, way))) for way in SENDS]
SOON = {"lost_s": 0.5, "poll_s": 0.1}


@contextlib.asynccontextmanager
async def behind_a_wire(
    binding: str = "JSONRPC", *, streaming: bool = True, limits: Any = SOON, **settings: Any
) -> AsyncIterator[tuple[Desk, Wire, A2AAgent]]:
    port = free_port()
    wire = Wire(port)
    desk = Desk(binding=binding, streaming=streaming, port=port, public=wire.url)
    async with desk.serving(), wire.open():
        yield desk, wire, await connect("desk", wire.url, limits=limits, **settings)


def text_of(result: Json) -> Json:
    assert isinstance(result, dict)
    return result["text"]


def again(need: InputNeeded, answer: Json) -> Call:
    return Call(key="k", attempt=2, reply=Reply(answer, need.state))


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON"])
async def test_a_stream_that_is_cut_is_taken_up_again_and_the_work_is_done_once(
    binding: str,
) -> None:
    async with behind_a_wire(binding) as (desk, wire, agent):
        wire.cut = [b"holding x", b"holding x"]
        working = asyncio.create_task(agent.work("hold x", {}, Call(key="k")))
        await wire.happened.wait()
        desk.executor.gates["x"].set()
        assert text_of(await working) == "held x"
        assert desk.executor.deeds == ["begin hold x", "done x"]


@pytest.mark.parametrize(("binding", "streaming"), WAYS)
async def test_a_lost_reply_to_the_first_message_is_found_by_its_context(
    binding: str, streaming: bool
) -> None:
    limits = {"lost_s": 20.0}
    async with behind_a_wire(binding, streaming=streaming, limits=limits) as (desk, wire, agent):
        wire.swallow = [SENDS[binding, streaming]]
        assert text_of(await agent.work("echo x", {}, Call(key="k"))) == "x"
        assert wire.happened.is_set()
        assert desk.executor.deeds == ["begin echo x"]


@pytest.mark.parametrize("effect", ["read", "write"])
async def test_a_lost_reply_that_nobody_can_find_leaves_it_open_whether_the_work_was_done(
    effect: str,
) -> None:
    async with behind_a_wire(effect=effect) as (desk, wire, agent):
        wire.swallow = [b"SendStreamingMessage"]
        with pytest.raises(OutcomeUnknown, match=r"the answer of .* was lost") as caught:
            await agent.work("reply x", {}, Call(key="k"))
        assert caught.value.again
        assert desk.executor.deeds == ["begin reply x"]
        # It is tried again, by itself or by a person; the agent lists no such task.
        assert text_of(await agent.work("reply x", {}, Call(key="k", attempt=2))) == "x"
        assert desk.executor.deeds == ["begin reply x"] * 2


@pytest.mark.parametrize(("binding", "streaming"), WAYS)
async def test_a_lost_reply_to_an_answer_does_not_give_it_twice(
    binding: str, streaming: bool
) -> None:
    async with behind_a_wire(binding, streaming=streaming) as (desk, wire, agent):
        with pytest.raises(InputNeeded) as caught:
            await agent.work("ask x", {}, Call(key="k"))
        wire.swallow = [SENDS[binding, streaming]]
        booked = await agent.work("ask x", {}, again(caught.value, "monday"))
        assert text_of(booked) == "booked monday"
        assert wire.happened.is_set()
        assert desk.executor.deeds == ["begin ask x", "answer monday"]


async def test_another_try_of_the_same_call_goes_on_with_what_is_under_way() -> None:
    async with behind_a_wire() as (desk, wire, agent):
        first = asyncio.create_task(agent.work("hold x", {}, Call(key="k")))
        await desk.executor.entered["x"].wait()
        # As if this process had died: nobody says goodbye, nothing is cancelled.
        wire.down = True
        second = asyncio.create_task(agent.work("hold x", {}, Call(key="k", attempt=2)))
        with pytest.raises(ToolBusy):
            await second
        wire.down = False
        second = asyncio.create_task(agent.work("hold x", {}, Call(key="k", attempt=2)))
        desk.executor.gates["x"].set()
        assert await second == await first
        assert await agent.work("hold x", {}, Call(key="k", attempt=3)) == await first
        assert desk.executor.deeds == ["begin hold x", "done x"]


async def test_a_cancelled_step_whose_reply_was_not_there_yet_cancels_its_task() -> None:
    async with behind_a_wire() as (desk, wire, agent):
        wire.mute = [b"SendStreamingMessage"]
        working = asyncio.create_task(agent.work("hold x", {}, Call(key="k")))
        await desk.executor.entered["x"].wait()
        working.cancel()
        with pytest.raises(asyncio.CancelledError):
            await working
        assert desk.executor.deeds == ["begin hold x", "cancel"]


# The agent's own process dies


@contextlib.contextmanager
def process(port: int, folder: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "tests.servers.a2a_desk", str(port), str(folder)]
    with forked.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "ready\n"
        try:
            yield running
        finally:
            running.kill()


def deeds(folder: Path) -> list[str]:
    return (folder / "deeds").read_text().splitlines()


async def test_a_question_outlives_the_agents_server(tmp_path: Path) -> None:
    port = free_port()
    async with Desk(port=port, folder=tmp_path).serving() as desk:
        agent = await connect("desk", desk.url, limits=SOON)
        with pytest.raises(InputNeeded) as caught:
            await agent.work("ask x", {}, Call(key="k"))
    with pytest.raises(OutcomeUnknown):
        await agent.work("ask x", {}, again(caught.value, "monday"))
    async with Desk(port=port, folder=tmp_path).serving():
        booked = await agent.work("ask x", {}, again(caught.value, "monday"))
        assert text_of(booked) == "booked monday"
    assert deeds(tmp_path) == ["begin ask x", "answer monday"]


async def test_nobody_knows_how_the_work_of_a_killed_agent_ended_and_it_is_not_sent_again(
    tmp_path: Path,
) -> None:
    port, heard = free_port(), asyncio.Event()

    def progress(text: str) -> None:
        if text == "holding x":
            heard.set()

    with process(port, tmp_path) as server:
        agent = await connect("desk", f"http://127.0.0.1:{port}", limits=SOON)
        working = asyncio.create_task(agent.work("hold x", {}, Call(key="k", progress=progress)))
        await heard.wait()
        server.kill()
        server.wait()
        with pytest.raises(OutcomeUnknown, match=r"it is unknown how the task .* ended"):
            await working
    with pytest.raises(ToolBusy):
        await agent.work("hold x", {}, Call(key="k", attempt=2))
    assert deeds(tmp_path) == ["begin hold x"]


async def test_a_task_that_ended_while_the_stream_was_cut_is_found_ended() -> None:
    async with behind_a_wire() as (desk, wire, agent):
        wire.cut = [b"TASK_STATE_SUBMITTED"]
        assert text_of(await agent.work("echo x", {}, Call(key="k"))) == "x"
        assert wire.happened.is_set()
        assert desk.executor.deeds == ["begin echo x"]


async def test_another_try_after_a_failure_begins_anew() -> None:
    async with behind_a_wire() as (desk, _, agent):
        for attempt in (1, 2):
            with pytest.raises(ToolFailed, match="no rooms"):
                await agent.work("fail no rooms", {}, Call(key="k", attempt=attempt))
        assert desk.executor.deeds == ["begin fail no rooms"] * 2
        ids = [each["messageId"] for each in desk.executor.said]
        assert len(set(ids)) == 2


# Plans with agents: approved, asked, answered, finished, cancelled


@tool(effect="read")
def shout(text: str) -> str:
    """Say it louder."""
    return text.upper()


async def test_an_agent_in_a_plan_asks_is_answered_and_finishes(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'runs.db'}"
    async with Desk().serving() as desk:
        agent = await connect("desk", desk.url)
        async with Plansmith(tools=[shout], agents=[agent], store=store) as smith:
            run = await smith.submit(
                plan(
                    {"id": "b", "agent": "a2a.desk", "task": "ask lunch"},
                    {"id": "s", "tool": "shout", "inputs": {"text": "{{b.text}}"}},
                )
            )
            assert run.status is RunStatus.REVIEWING, "an agent nobody vouched for may write"
            assert desk.executor.deeds == []
            await approve(smith, run)
            run = await smith.runs.run(run.id)
            assert run.status is RunStatus.ASKING
            [asked] = run.questions.values()
            assert asked.text == "Which day for lunch?"
        # The question outlives whoever asked it.
        agent = await connect("desk", desk.url)
        async with Plansmith(tools=[shout], agents=[agent], store=store) as smith:
            await smith.answer(run.id, asked.question, "monday", by="ada")
            run = await smith.runs.run(run.id)
            assert run.status is RunStatus.DONE
            assert run.steps["s"].result == "BOOKED MONDAY"
            assert desk.executor.deeds == ["begin ask lunch", "answer monday"]


async def test_progress_of_an_agent_is_in_the_journal_and_cancelling_the_run_cancels_its_task() -> (
    None
):
    async with Desk().serving() as desk:
        agent = await connect("desk", desk.url, effect="read")
        async with Plansmith(agents=[agent]) as smith:
            run = await smith.submit(plan({"id": "h", "agent": "a2a.desk", "task": "hold x"}))
            running = asyncio.ensure_future(smith.runs.run(run.id))
            async for event in smith.events(run.id, follow=True):
                if isinstance(event.body, StepProgressed) and event.body.text == "holding x":
                    break
            run = await smith.cancel(run.id)
            await running
            assert (await smith.get(run.id)).status is RunStatus.CANCELLED
            assert desk.executor.deeds == ["begin hold x", "cancel"]
