"""Agents that lie, flood, stall and fall silent: bounded memory and time, and a plain end."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.servers.a2a_wire import Liar, Talk, a_card
from tests.servers.own_certificate import own_certificate

from plansmith.errors import InputNeeded, OutcomeUnknown, PlansmithError, ToolBusy, ToolFailed
from plansmith.ports import Call, Reply
from plansmith_connect.a2a.agent import A2AAgent, connect

# Small sizes, and no patience with what is lost; what has to arrive may take its time.
SMALL = {"reply_bytes": 1_000_000, "card_bytes": 20_000, "updates": 200}
LIMITS = SMALL | {"lost_s": 0.1, "poll_s": 0.05}
TASK = {"id": "t1", "contextId": "c1", "status": {"state": "TASK_STATE_WORKING"}}


def task(state: Any, **more: Any) -> dict[str, Any]:
    return {"id": "t1", "contextId": "c1", "status": {"state": state}} | more


async def agent_of(liar: Liar, **settings: Any) -> A2AAgent:
    settings["limits"] = LIMITS | settings.get("limits", {})
    return await connect("liar", liar.url, **settings)


async def work(liar: Liar, **settings: Any) -> Any:
    return await (await agent_of(liar, **settings)).work("x", {}, Call(key="k"))


async def failed(answer: Any, why: str, *, streaming: bool = False, **settings: Any) -> Any:
    """How work fails with an agent that answers like this, and what it was asked."""
    async with Liar(answer, streaming=streaming).open() as liar:
        with pytest.raises(PlansmithError, match=why) as caught:
            await work(liar, **settings)
        return caught.value, liar.methods


class Flood:
    """Answers once with far too much, and counts what was taken."""

    sent = 0

    async def __call__(self, talk: Talk) -> None:
        await talk.start("application/json", more="Content-Length: 100000000\r\n")
        await talk.raw(b'{"jsonrpc":"2.0","id":"1","result":{"task":"')
        for _ in range(1000):
            await talk.raw(b"x" * 100_000)
            self.sent += 100_000


async def large_updates(talk: Talk) -> None:
    for _ in range(1000):
        made = {"artifactId": "a", "parts": [{"text": "x" * 100_000}]}
        update = {"taskId": "t1", "contextId": "c1", "artifact": made, "append": True}
        await talk.event({"artifactUpdate": update})


async def chatter(talk: Talk) -> None:
    update = {"taskId": "t1", "contextId": "c1", "status": {"state": "TASK_STATE_WORKING"}}
    while True:
        await talk.event({"statusUpdate": update})
        await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("behave", "why"),
    [(large_updates, "more than 1,000,000 bytes"), (chatter, "more than 200 updates")],
)
async def test_a_flood_in_a_stream_ends_after_the_limit_and_the_task_is_cancelled(
    behave: Callable[[Talk], Any], why: str
) -> None:
    async def answer(talk: Talk) -> None:
        if talk.method == "CancelTask":
            await talk.result(task("TASK_STATE_CANCELED"))
            return
        await talk.start("text/event-stream")
        await talk.event({"task": TASK})
        await behave(talk)

    _, methods = await failed(answer, why, streaming=True)
    assert methods == ["SendStreamingMessage", "CancelTask"]


async def packed(talk: Talk) -> None:
    bomb = gzip.compress(b"0" * 10_000_000)
    more = f"Content-Encoding: gzip\r\nContent-Length: {len(bomb)}\r\n"
    await talk.start("application/json", more=more)
    await talk.raw(bomb)


async def away(talk: Talk) -> None:
    place = "Location: http://evil.example/agent-card.json\r\n"
    await talk.start("text/plain", "307 Temporary Redirect", place)


async def test_a_flood_a_packed_answer_and_a_redirect_are_not_taken() -> None:
    flood = Flood()
    await failed(flood, "more than 1,000,000 bytes")
    assert flood.sent < 50_000_000
    await failed(packed, "compressed answer")
    await failed(away, r"redirect to http://evil\.example/")
    with pytest.raises(ToolFailed, match="which is not followed"):
        await served(away)


async def silence(talk: Talk) -> None:
    await asyncio.Event().wait()


async def trickle(talk: Talk) -> None:
    for letter in b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nX: " + b"x" * 10_000:
        await talk.raw(bytes([letter]))
        await asyncio.sleep(0.01)


async def pings(talk: Talk) -> None:
    await talk.start("text/event-stream")
    while True:
        await talk.raw(b": ping\r\n\r\n")
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("behave", [silence, trickle, pings])
@pytest.mark.parametrize("streaming", [True, False])
async def test_silence_and_trickle_end_in_time_and_say_that_nobody_knows(
    behave: Callable[[Talk], Any], streaming: bool
) -> None:
    async def answer(talk: Talk) -> None:
        if talk.method.startswith("Send"):
            await behave(talk)

    why, bounds = r"sent nothing for 0\.2 s", {"answer_s": 0.2}
    error, methods = await failed(answer, why, streaming=streaming, limits=bounds)
    assert isinstance(error, OutcomeUnknown)
    assert sum(each.startswith("Send") for each in methods) == 1


async def test_a_stream_that_falls_silent_is_looked_after() -> None:
    async def stall(talk: Talk) -> None:
        if talk.method == "GetTask":
            await talk.result(task("TASK_STATE_COMPLETED", artifacts=[_made("done")]))
            return
        await talk.start("text/event-stream")
        await talk.event({"task": TASK})
        await asyncio.Event().wait()

    async with Liar(stall, streaming=True).open() as liar:
        assert (await work(liar, limits={"silence_s": 0.1}))["text"] == "done"


def _made(text: str) -> dict[str, Any]:
    return {"artifactId": "a", "parts": [{"text": text}]}


def says(value: Any, kind: str = "application/json", status: str = "200 OK") -> Any:
    async def answer(talk: Talk) -> None:
        await talk.answer(value, kind, status)

    return answer


def results(value: Any) -> Any:
    async def answer(talk: Talk) -> None:
        await talk.result(value)

    return answer


def failing(code: int, message: str) -> Any:
    async def answer(talk: Talk) -> None:
        error = {"code": code, "message": message}
        await talk.answer({"jsonrpc": "2.0", "id": talk.body["id"], "error": error})

    return answer


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(says(b"{not json"), id="no JSON"),
        pytest.param(says(b"\xff\xfe\x00"), id="no text"),
        pytest.param(says(b"<html>hello</html>", "text/html"), id="a page"),
        pytest.param(says([1, 2]), id="a list"),
        pytest.param(says(b"[" * 50_000), id="deep"),
        pytest.param(results({"neither": 1}), id="neither task nor message"),
        pytest.param(results("text"), id="a text"),
        pytest.param(results({"task": {"id": 7}}), id="wrong types"),
        pytest.param(results({"task": {"status": {}}}), id="no id"),
        pytest.param(results({"task": task(1) | {"id": "../../admin"}}), id="an id as a path"),
        pytest.param(results({"message": {"parts": [{"data": {"x": float("inf")}}]}}), id="inf"),
    ],
)
async def test_an_answer_that_is_not_a2a_leaves_unsure_what_happened(answer: Any) -> None:
    async with Liar(answer).open() as liar:
        with pytest.raises(OutcomeUnknown, match="was lost") as caught:
            await work(liar)
        assert (caught.value.again, liar.methods.count("SendMessage")) == (True, 1)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (failing(-32602, "bad params"), "the agent refused: bad params"),
        (failing(-32603, "boom"), "the agent refused: boom"),
        (failing(-31999, "odd"), "odd"),
        (says(b"", status="401 Unauthorized"), "HTTP 401 Unauthorized"),
        (says(b"", status="404 Not Found"), "HTTP 404"),
    ],
)
async def test_a_refusal_does_not_say_that_nothing_was_changed(answer: Any, why: str) -> None:
    error, methods = await failed(answer, why)
    assert isinstance(error, OutcomeUnknown)
    assert not error.again
    assert methods == ["SendMessage"]


@pytest.mark.parametrize("state", ["TASK_STATE_DREAMING", 77])
async def test_a_state_that_nobody_knows_is_said_to_be_one(state: Any) -> None:
    async def odd(talk: Talk) -> None:
        got = task(state)
        await talk.result(got if talk.method == "GetTask" else {"task": got})

    await failed(odd, "a task state that A2A does not define")


async def test_an_agent_that_answers_for_another_task_is_not_believed() -> None:
    async def swap(talk: Talk) -> None:
        if talk.method == "GetTask":
            await talk.result(task("TASK_STATE_FAILED"))
            return
        await talk.start("text/event-stream")
        await talk.event({"task": TASK})
        status = {"state": "TASK_STATE_COMPLETED"}
        await talk.event({"statusUpdate": {"taskId": "t2", "contextId": "c1", "status": status}})

    await failed(swap, "liar failed", streaming=True)


@pytest.mark.parametrize(
    ("state", "certain"),
    [("TASK_STATE_FAILED", False), ("TASK_STATE_CANCELED", False), ("TASK_STATE_REJECTED", True)],
)
async def test_an_agent_that_gave_up_its_work_may_have_changed_something(
    state: str, certain: bool
) -> None:
    """Unless it refused the work."""

    async def gives_up(talk: Talk) -> None:
        await talk.result(task(state) if talk.method == "GetTask" else {"task": task(state)})

    error, _ = await failed(gives_up, "a2a.liar")
    assert isinstance(error, OutcomeUnknown) is not certain


async def test_a_list_of_other_peoples_tasks_is_not_taken_for_ours() -> None:
    async def lend(talk: Talk) -> None:
        if talk.method == "ListTasks":
            await talk.result({"tasks": [task("TASK_STATE_COMPLETED")]})

    await failed(lend, "was lost")


async def test_another_try_looks_for_the_task_whose_state_could_not_be_read() -> None:
    async def shut(talk: Talk) -> None:
        if talk.method == "SendMessage":
            await talk.result({"task": TASK})
        elif talk.method == "ListTasks":
            await talk.result({"tasks": [TASK | {"contextId": talk.body["params"]["contextId"]}]})
        elif "ListTasks" in liar.methods:
            await talk.result(task("TASK_STATE_COMPLETED", artifacts=[_made("done")]))
        else:
            await talk.answer(b"", status="403 Forbidden")

    async with Liar(shut).open() as liar:
        agent = await agent_of(liar)
        with pytest.raises(OutcomeUnknown, match="how the task t1 of a2a"):
            await agent.work("x", {}, Call(key="k"))
        found: Any = await agent.work("x", {}, Call(key="k", attempt=2))
        assert (found["text"], liar.methods.count("SendMessage")) == ("done", 1)


async def test_an_answer_to_nobodys_question_is_refused() -> None:
    async with Liar(silence).open() as liar:
        agent = await agent_of(liar)
        with pytest.raises(ToolFailed, match="belongs to no question"):
            await agent.work("x", {}, Call(key="k", reply=Reply("yes", {"odd": 1})))


async def test_an_agent_that_ignores_an_answer_is_asked_about_again() -> None:
    question = {"message": {"messageId": "m1", "role": "ROLE_AGENT", "parts": [{"text": "Why?"}]}}
    asking = {"id": "t1", "contextId": "c1", "status": {"state": 6} | question}

    async def deaf(talk: Talk) -> None:
        await talk.result(asking if talk.method == "GetTask" else {"task": asking})

    async with Liar(deaf).open() as liar:
        agent = await agent_of(liar)
        with pytest.raises(InputNeeded) as first:
            await agent.work("x", {}, Call(key="k"))
        assert first.value.message == "Why?"
        with pytest.raises(InputNeeded, match="did not seem to arrive") as second:
            await agent.work("x", {}, Call(key="k", reply=Reply("so", first.value.state)))
        assert liar.methods.count("SendMessage") == 2
        assert second.value.state["times"] == 2


# Cards


async def served(card: Any, **limits: float) -> Any:
    liar = Liar(silence)
    liar.serve_card = card
    async with liar.open():
        return await connect("liar", liar.url, limits=LIMITS | limits)


@pytest.mark.parametrize(
    ("card", "why"),
    [
        (says(b"{no"), "is not JSON"),
        (says(b'{"name": "x", "name": "y"}'), "occurs twice"),
        (says(b'{"name": NaN}'), "not a JSON number"),
        (says(b"[" * 9_000), "is not JSON: "),
        (says([1]), "not a JSON object"),
        (says({"description": "nobody"}), "has no agent name"),
        (says(b"x" * 30_000), "more than 20,000 bytes"),
        (says(b"", status="404 Not Found"), "HTTP 404"),
        (says({"name": "x", "supportedInterfaces": []}), "the card has no address"),
        (says(a_card("http://evil.example")), "is on another host than the card"),
        (says(a_card("http://127.0.0.1:9")), "127.0.0.1:9/rpc is on another host"),
        (says(a_card("file:///etc/passwd")), "is not an address"),
        (says(a_card("http://[")), r"\[/rpc' is not an address"),
        (
            says({"name": "x", "url": "http://x/", "preferredTransport": "GRPC"}),
            "GRPC is not supported",
        ),
    ],
)
async def test_a_card_that_is_none_or_lies_is_refused_with_a_reason(card: Any, why: str) -> None:
    with pytest.raises(ToolFailed, match=why):
        await served(card)


@pytest.mark.parametrize("behave", [silence, trickle])
async def test_a_card_that_does_not_come_is_not_waited_for_for_ever(behave: Any) -> None:
    with pytest.raises(ToolBusy, match=r"did not arrive within 0\.2 s"):
        await served(behave, request_s=0.2)


async def test_further_hosts_are_reached_only_when_a_person_names_them() -> None:
    async with Liar(results({"message": {"parts": [{"text": "hi"}]}})).open() as other:
        liar = Liar(silence)
        liar.card = a_card(other.url)
        async with liar.open():
            with pytest.raises(ToolFailed, match="is on another host"):
                await connect("liar", liar.url)
            agent = await connect("liar", liar.url, hosts=[f"127.0.0.1:{other.port}"])
            result = await agent.work("x", {}, Call(key="k"))
            assert isinstance(result, dict)
            assert result["text"] == "hi"


async def test_another_machine_is_not_spoken_to_in_the_clear() -> None:
    with pytest.raises(ToolFailed, match="not encrypted"):
        await connect("far", "http://agent.example")


# Certificates


async def test_a_certificate_nobody_vouches_for_is_said_and_a_named_issuer_is_believed(
    tmp_path: Path,
) -> None:
    issuer, context = own_certificate(tmp_path)
    liar = Liar(results({"message": {"parts": [{"text": "hi"}]}}))
    url = liar.url.replace("http:", "https:")
    liar.card = a_card(url)
    async with liar.open(context):
        with pytest.raises(ToolFailed, match="the connection is not safe") as caught:
            await connect("liar", url)
        assert not isinstance(caught.value, ToolBusy)
        assert "ca_file" in caught.value.hint
        agent = await connect("liar", url, ca_file=issuer)
        result: Any = await agent.work("x", {}, Call(key="k"))
        assert result["text"] == "hi"
        liar.card = a_card(liar.url)
        with pytest.raises(ToolFailed, match="while the card's own address is"):
            await connect("liar", url, ca_file=issuer)
    assert json.dumps(result)
