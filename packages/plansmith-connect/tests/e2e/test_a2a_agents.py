"""A2A agents over a real socket, served by the SDK's own server: results, questions, endings."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from tests.servers.a2a_desk import Desk

from plansmith.errors import InputNeeded, Misconfigured, ToolBusy, ToolFailed
from plansmith.plan.data import Json
from plansmith.ports import Call, Reply
from plansmith.testing.contracts import AgentContract
from plansmith_connect.a2a.agent import A2AAgent, connect

WAYS = [
    pytest.param({"binding": binding, "streaming": streaming}, id=f"{binding}-{streaming}")
    for binding in ("JSONRPC", "HTTP+JSON")
    for streaming in (True, False)
]
TWO = [WAYS[0], WAYS[3]]
OLD = pytest.param({"binding": "JSONRPC", "streaming": True, "version": "0.3.0"}, id="0.3")


async def agent_of(desk: Desk, **settings: Any) -> A2AAgent:
    return await connect("desk", desk.url, **settings)


async def question(agent: A2AAgent, task: str, call: Call | None = None) -> InputNeeded:
    with pytest.raises(InputNeeded) as caught:
        await agent.work(task, {}, call or Call(key="k"))
    return caught.value


def reply(need: InputNeeded, answer: Json, key: str = "k") -> Call:
    return Call(key=key, attempt=2, reply=Reply(answer, need.state))


class TestA2AAgent(AgentContract):
    @pytest.fixture(autouse=True)
    def desk(self) -> Iterator[None]:
        with Desk().in_thread() as self.url:
            yield

    def make_agent(self) -> A2AAgent:
        return asyncio.run(connect("desk", self.url))


@pytest.mark.parametrize("way", [*WAYS, OLD])
async def test_work_is_done_once_and_comes_back_in_a_fixed_shape(way: dict[str, Any]) -> None:
    async with Desk(**way).serving() as desk:
        agent = await agent_of(desk)
        result = await agent.work("echo hello", {}, Call(key="k"))
        assert result == {
            "text": "hello",
            "message": "there you are",
            "data": [],
            "files": [],
            "citations": [],
            "notes": [],
        }
        assert desk.executor.deeds == ["begin echo hello"]
        at_once: Any = await agent.work("reply at once", {}, Call(key="l"))  # without a task
        assert at_once["text"] == "at once"


@pytest.mark.parametrize("way", WAYS)
async def test_progress_is_heard_while_the_work_goes_on(way: dict[str, Any]) -> None:
    streams = way["streaming"]
    task, word = ("stream a b", "word 0") if streams else ("hold x", "holding x")
    async with Desk(**way).serving() as desk:
        agent, texts, first = await agent_of(desk), list[str](), asyncio.Event()

        def progress(text: str) -> None:
            texts.append(text)
            if text == word:
                first.set()

        working = asyncio.create_task(agent.work(task, {}, Call(key="k", progress=progress)))
        desk.executor.gates["a"].set()
        await first.wait()
        assert not working.done()
        for gate in ("b", "x"):
            desk.executor.gates[gate].set()
        result: Any = await working
        assert result["text"] == ("ab" if streams else "held x")
        if streams:
            assert texts == ["submitted", "word 0", "a", "word 1", "b", "completed"]


@pytest.mark.parametrize("way", [*WAYS, OLD])
async def test_a_question_is_asked_and_its_answer_goes_on_with_the_same_task(
    way: dict[str, Any],
) -> None:
    async with Desk(**way).serving() as desk:
        agent = await agent_of(desk)
        need = await question(agent, "ask lunch")
        assert need.message == "Which day for lunch?"
        need = await question(agent, "ask lunch", reply(need, "nothing"))
        assert need.message == "Really, which day?"
        result: Any = await agent.work("ask lunch", {}, reply(need, "monday"))
        assert result["text"] == "booked monday"
        # An answer that was given is not given again.
        assert await agent.work("ask lunch", {}, reply(need, "monday")) == result
        assert desk.executor.deeds == ["begin ask lunch", "answer nothing", "answer monday"]


async def test_an_old_answer_reaches_no_new_question_and_nobody_is_asked_for_ever() -> None:
    async with Desk().serving() as desk:
        agent = await agent_of(desk, limits={"questions": 2})
        need = await question(agent, "ask lunch")
        again = await question(agent, "ask lunch", reply(need, "nothing"))
        late = await question(agent, "ask lunch", reply(need, "nothing"))
        assert late.message == again.message == "Really, which day?"
        assert desk.executor.deeds == ["begin ask lunch", "answer nothing"]
        with pytest.raises(ToolFailed, match="asked more than 2 times"):
            await agent.work("ask lunch", {}, reply(again, "nothing"))


@pytest.mark.parametrize("answer", ["done", "cannot"])
async def test_a_sign_in_is_a_question_with_a_link_that_takes_no_credential(answer: str) -> None:
    async with Desk().serving() as desk:
        agent = await agent_of(desk)
        need = await question(agent, "auth")
        assert need.link == "https://login.example/start?for=desk"
        assert need.options == ("done", "cannot")
        assert set(need.state) == {"task", "context", "why", "question", "times"}
        if answer == "done":
            result: Any = await agent.work("auth", {}, reply(need, answer))
            assert result["text"] == "booked done"
        else:
            with pytest.raises(ToolFailed, match="could not sign in"):
                await agent.work("auth", {}, reply(need, answer))
            assert desk.executor.deeds == ["begin auth", "cancel"]


@pytest.mark.parametrize("way", TWO)
async def test_a_bad_end_is_a_failure_with_the_agents_reason(way: dict[str, Any]) -> None:
    failures = {
        "fail no rooms": "a2a.desk failed: no rooms",
        "reject not my job": "a2a.desk refused the work: not my job",
        "cancelled": "a2a.desk cancelled the work: it does not say why",
        "crash boom": ".",
    }
    async with Desk(**way).serving() as desk:
        agent = await agent_of(desk)
        for task, why in failures.items():
            with pytest.raises(ToolFailed, match=why) as caught:
                await agent.work(task, {}, Call(key=task))
            assert task == "crash boom" or not isinstance(caught.value, ToolBusy)
        assert desk.executor.deeds == [f"begin {task}" for task in failures]


async def test_options_and_forms_are_passed_on_and_answers_come_back_as_data() -> None:
    async with Desk().serving() as desk:
        agent = await agent_of(desk)
        need = await question(agent, "choose red blue")
        assert (need.message, need.options) == ("Which one?", ("red", "blue"))
        need = await question(agent, "form", Call(key="f"))
        assert need.schema == {
            "type": "object",
            "properties": {"n": {"type": "integer"}},
            "required": ["n"],
        }
        await agent.work("form", {}, reply(need, {"n": 3}, "f"))
        [part] = desk.executor.said[-1]["parts"]
        assert part["data"] == {"n": 3}


@pytest.mark.parametrize("way", WAYS)
async def test_a_cancelled_step_cancels_the_task(way: dict[str, Any]) -> None:
    async with Desk(**way).serving() as desk:
        agent = await agent_of(desk)
        working = asyncio.create_task(agent.work("hold x", {}, Call(key="k")))
        await desk.executor.entered["x"].wait()
        working.cancel()
        with pytest.raises(asyncio.CancelledError):
            await working
        assert desk.executor.deeds == ["begin hold x", "cancel"]


async def test_all_kinds_of_parts_are_kept_within_limits() -> None:
    async with Desk().serving() as desk:
        agent = await agent_of(desk, limits={"binary_bytes": 1000})
        result: Any = await agent.work("rich 2000", {}, Call(key="k"))
        assert result["text"] == "see the table"
        assert result["data"] == [{"rows": [1, 2.5, None]}]
        binary, table, large, link = result["files"]
        assert (binary["name"], binary["size"], binary["base64"]) == ("x.bin", 3, "AAH/")
        assert (table["type"], table["text"]) == ("text/csv", "a,b\n1,2\n")
        assert (large["size"], large["note"]) == (2000, "not kept: too large")
        assert "base64" not in large
        assert link == {
            "name": "r.pdf",
            "type": "application/pdf",
            "url": "https://files.example/r.pdf",
        }
        assert result["citations"] == [
            {"title": "A", "url": "https://a.example"},
            {"url": "https://b.example"},
        ]
        assert "large.bin (2000 bytes) is not kept" in result["notes"][0]


@pytest.mark.parametrize(
    ("modes", "inputs", "kinds"),
    [
        (["text/plain", "application/json"], {"n": 3}, ["text", "data"]),
        (["text/plain"], {"n": 3}, ["text"]),
        (["text/plain", "application/json"], {"n": 2**60}, ["text"]),
    ],
)
async def test_inputs_go_along_in_a_form_the_agent_takes_and_no_digit_is_lost(
    modes: list[str], inputs: dict[str, Json], kinds: list[str]
) -> None:
    async with Desk(modes=modes).serving() as desk:
        await (await agent_of(desk)).work("reply x", inputs, Call(key="k"))
        parts = desk.executor.said[0]["parts"]
        assert [next(k for k in ("text", "data") if k in part) for part in parts] == kinds
        if len(kinds) == 1:
            assert str(inputs["n"]) in parts[0]["text"]


async def test_headers_hold_secrets_that_go_to_the_agent_alone_and_come_back_hidden() -> None:
    async with Desk().serving() as desk:
        secret = {"TOKEN": "s3cret-canary"}
        headers = {"Authorization": "Bearer ${TOKEN}"}
        agent = await connect("desk", desk.url, headers=headers, lookup=secret.get)
        progress: list[str] = []
        call = Call(key="k", progress=progress.append)
        result = await agent.work("echo I saw s3cret-canary", {}, call)
        with pytest.raises(ToolFailed) as failed:
            await agent.work("fail with s3cret-canary", {}, Call(key="l"))
        need = await question(agent, "ask s3cret-canary", Call(key="m"))
        visible = f"{result} {progress} {failed.value} {failed.value.args} {need} {need.state}"
        assert "s3cret-canary" not in visible
        assert "I saw ${secret:TOKEN}" in visible
        sent = [each.get("authorization") for each in desk.headers]
        assert sent.count("Bearer s3cret-canary") >= 3
        assert [each for each in desk.headers if "authorization" not in each], "cards are public"
        agent = await agent_of(desk, headers={"Authorization": "Bearer ${NO_SUCH_TOKEN_HERE}"})
        before = len(desk.headers)
        with pytest.raises(Misconfigured, match="NO_SUCH_TOKEN_HERE"):
            await agent.work("echo x", {}, Call(key="n"))
        assert len(desk.headers) == before
