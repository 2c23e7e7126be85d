"""Calls of servers that answer otherwise: with questions to the person, over HTTP, or hostile."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.mcp_peer import McpPeer, Respond, answer, http, sends
from tests.servers.kit import (
    FOLDER,
    approved,
    friendly,
    is_cancelled,
    limits,
    raw,
    reply,
    servers,
    use,
)
from tests.waiting import until

from plansmith.errors import InputNeeded, OutcomeUnknown, ToolBusy, ToolFailed
from plansmith.plan.data import flaws
from plansmith.ports import Call, Reply
from plansmith_connect.approvals import Approvals
from plansmith_connect.mcp.servers import McpServers
from plansmith_connect.mcp.settings import ServerLimits, ServerSettings


async def asked(call: Any) -> InputNeeded:
    with pytest.raises(InputNeeded) as caught:
        await call
    assert next(flaws(caught.value.state), None) is None
    return caught.value


# Servers that wait in the middle of the call (before 2026)


async def test_a_question_goes_to_the_person_and_the_answer_back_to_the_same_call() -> None:
    async with await approved(servers(raw=raw(), other=raw())) as source:
        first = await asked(use(source, "raw.ask", times=2))
        assert await use(source, "other.echo", text="hi") == "hi"  # other calls go on
        assert first.message == "raw asks: Day 0?"
        assert first.schema is not None
        assert first.schema["anyOf"][0]["required"] == ["day"]
        second = await asked(reply(source, "raw.ask", first.state, {"day": "mon"}, times=2))
        assert second.message == "raw asks: Day 1?"
        done = await reply(source, "raw.ask", second.state, "decline", times=2)
    assert json.loads(done) == [
        {"action": "accept", "content": {"day": "mon"}},
        {"action": "decline"},
    ]


async def test_a_question_without_fields_is_a_yes_or_no() -> None:
    async with await approved(servers(raw=raw())) as source:
        question = await asked(use(source, "raw.confirm"))
        assert question.options == ("accept", "decline")
        with pytest.raises(ToolFailed, match="has to be 'accept' or 'decline'"):
            await reply(source, "raw.confirm", question.state, "perhaps")
        done = await reply(source, "raw.confirm", question.state, "accept")
        assert json.loads(done) == {"action": "accept", "content": {}}


async def test_an_answer_that_does_not_fit_is_refused_and_the_question_stays_open() -> None:
    async with await approved(servers(raw=raw())) as source:
        question = await asked(use(source, "raw.ask"))
        for bad in ({"day": 1}, {}, "mon", None, ["mon"]):
            with pytest.raises(ToolFailed, match="does not fit"):
                await reply(source, "raw.ask", question.state, bad)
        assert "mon" in await reply(source, "raw.ask", question.state, {"day": "mon"})


async def test_endless_questions_and_pages_end_the_call(tmp_path: Path) -> None:
    given = {"signed_in": str(tmp_path / "never")}
    async with await approved(servers(raw=raw(bounds=limits(questions=2)))) as source:
        question = await asked(use(source, "raw.ask", times=99))
        question = await asked(reply(source, "raw.ask", question.state, {"day": "1"}, times=99))
        with pytest.raises(ToolFailed, match="asked more than 2 questions in one call"):
            await reply(source, "raw.ask", question.state, {"day": "2"}, times=99)
        assert await use(source, "raw.echo", text="again") == "again"
        question = await asked(use(source, "raw.page", **given))
        question = await asked(reply(source, "raw.page", question.state, "done", **given))
        with pytest.raises(ToolFailed, match="more than 2 times"):
            await reply(source, "raw.page", question.state, "done", **given)


async def test_a_question_nobody_answers_lapses_and_chooses_nothing() -> None:
    bounds = limits(answer_s=0.1)
    async with await approved(
        servers(a=raw(bounds=bounds, trusted=True), b=raw(bounds=bounds))
    ) as s:
        read, write = await asked(use(s, "a.ask")), await asked(use(s, "b.ask"))
        await until(lambda: not any(s._servers[name]._parked for name in ("a", "b")))
        with pytest.raises(ToolFailed, match="no longer waits for the answer"):
            await reply(s, "b.ask", write.state, {"day": "mon"})
        # A call that only reads is made anew, and asks anew.
        progress: list[str] = []
        call = Call(key="k", progress=progress.append, reply=Reply({"day": "mon"}, read.state))
        again = await asked(s.call("a.ask", {}, call))
        assert progress == ["its server no longer waits for the answer: the call is made again"]
        assert again.state != read.state


async def test_after_a_restart_an_old_answer_does_not_make_a_write_happen_twice() -> None:
    approvals = Approvals()
    async with McpServers({"raw": raw()}, approvals=approvals) as source:
        await approved(source)
        question = await asked(use(source, "raw.ask"))
    async with McpServers({"raw": raw()}, approvals=approvals) as source:
        with pytest.raises(OutcomeUnknown, match="no longer waits"):
            await reply(source, "raw.ask", question.state, {"day": "mon"})


# Servers that give the question back and forget (2026)


async def test_a_question_given_back_survives_a_restart_of_both_sides_and_ends_in_time() -> None:
    approvals = Approvals()
    settings = raw("modern", protocol="auto", bounds=limits(questions=2))
    async with McpServers({"raw": settings}, approvals=approvals) as source:
        await approved(source)
        assert source.statuses()[0].protocol == "2026-07-28"
        first = await asked(use(source, "raw.rounds"))
    async with McpServers({"raw": settings}, approvals=approvals) as source:
        second = await asked(reply(source, "raw.rounds", first.state, {"day": "mon"}))
        assert (first.message, second.message) == ("raw asks: Day 0?", "raw asks: Day 1?")
        with pytest.raises(ToolFailed, match="does not fit"):
            await reply(source, "raw.rounds", second.state, {"day": 1})
        bad: list[Any] = [None, {}, {"asked": {}, "answers": {}}, {"asked": 1, "answers": 2}]
        for state in bad:
            with pytest.raises(ToolFailed, match="belongs to no open question"):
                await reply(source, "raw.rounds", state, {"day": "mon"})
        with pytest.raises(ToolFailed, match="asked more than 2 times"):
            await reply(source, "raw.rounds", second.state, {"day": "tue"})


async def test_a_server_that_only_wants_to_be_asked_later_is_asked_later_but_not_for_ever() -> None:
    settings = raw("modern", protocol="auto", bounds=limits(questions=2))
    async with await approved(servers(raw=settings)) as source:
        assert await use(source, "raw.later", times=2) == "at last"
        with pytest.raises(ToolFailed, match="asked more than 2 times"):
            await use(source, "raw.later", times=9)
        with pytest.raises(ToolFailed, match="it asks for sampling/createMessage"):
            await use(source, "raw.model")


# Pages to be opened


async def test_a_page_to_open_is_a_link_and_the_call_is_made_after_it(tmp_path: Path) -> None:
    mark = tmp_path / "signed-in"
    given = {"signed_in": str(mark)}
    async with await approved(servers(raw=raw())) as source:
        question = await asked(use(source, "raw.page", **given))
        assert question.link == "https://a.example/in"
        assert question.options == ("done", "decline")
        with pytest.raises(ToolFailed, match="has to be 'done' or 'decline'"):
            await reply(source, "raw.page", question.state, "later", **given)
        with pytest.raises(ToolFailed, match="you answered decline"):
            await reply(source, "raw.page", question.state, "decline", **given)
        mark.touch()
        assert await reply(source, "raw.page", question.state, "done", **given) == "signed in"


# Both eras, on the library's own server


@pytest.mark.parametrize("protocol", ["legacy", "auto"])
async def test_both_eras_ask_progress_cancel_and_tell_of_new_tools(
    protocol: str, tmp_path: Path
) -> None:
    record = tmp_path / "record"
    settings = friendly(protocol=protocol, trusted=True, env={"RECORD": str(record)})
    async with await approved(servers(f=settings)) as source:
        era = {"legacy": "2025-11-25", "auto": "2026-07-28"}[protocol]
        assert source.statuses()[0].protocol == era
        assert await use(source, "f.add", a=1, b=2) == {"result": 3}
        await _asks_twice(source)
        await is_cancelled(source, "f.wait", record)
        await _notices_a_new_tool(source)


async def _asks_twice(source: McpServers) -> None:
    question = await asked(use(source, "f.book", what="table"))
    answers: dict[str, Any] = {"Which day?": {"day": "mon"}, "How many people?": {"people": 3}}
    for _ in range(2):
        answer = answers.pop(question.message.removeprefix("f asks: "))
        step = reply(source, "f.book", question.state, answer, what="table")
        if answers:
            question = await asked(step)
        else:
            assert await step == {"result": "table on mon for 3"}


async def _notices_a_new_tool(source: McpServers) -> None:
    await use(source, "f.grow")
    await until(lambda: source._servers["f"]._listing is None)
    assert "f.grown" in [each.name for each in await source.pending()]


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("web") / "record"


@pytest.fixture(scope="module")
def url(record: Path) -> Iterator[str]:
    """The library's own server on a port, as a process."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, str(FOLDER / "friendly.py"), str(port)],
        env=os.environ | {"RECORD": str(record)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        asyncio.run(_listens(port, process))
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.terminate()
        process.wait()


async def _listens(port: int, process: subprocess.Popen[bytes]) -> None:
    async with asyncio.timeout(120):
        while process.poll() is None:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.02)
            else:
                writer.close()
                await writer.wait_closed()
                return
    pytest.fail("the server did not start")


def web(url: str, bounds: ServerLimits | None = None, **more: Any) -> McpServers:
    settings = ServerSettings(url=url, limits=bounds or limits(), **more)
    return McpServers({"w": settings}, approvals=Approvals())


@pytest.mark.parametrize(("protocol", "era"), [("legacy", "2025-11-25"), ("auto", "2026-07-28")])
async def test_both_eras_work_over_http(url: str, record: Path, protocol: str, era: str) -> None:
    await asyncio.to_thread(record.unlink, missing_ok=True)
    async with web(url, protocol=protocol, trusted=True) as source:
        [start] = await source.pending()
        assert url in start.text
        await approved(source)
        assert source.statuses()[0].protocol == era
        assert await use(source, "w.add", a=1, b=2) == {"result": 3}
        with pytest.raises(InputNeeded) as first:
            await use(source, "w.book", what="table")
        declined = first.value.state
        with pytest.raises(InputNeeded) as second:
            await reply(source, "w.book", declined, "decline", what="table")
        done = await reply(source, "w.book", second.value.state, "decline", what="table")
        assert done == {"result": "decline, decline"}
        await is_cancelled(source, "w.wait", record)


# Written by hand: what a server on the web may reply to a call

JSON = "application/json"


async def failure(respond: Respond) -> ToolFailed:
    """How a call fails that is replied to like this; the next call must work."""
    fine = {"content": [{"type": "text", "text": "fine"}]}

    async def once(number: Any, writer: asyncio.StreamWriter) -> None:
        if peer.made["t"] == 1:
            await respond(number, writer)
        else:
            writer.write(http(200, answer(number, result=fine), JSON))

    peer = McpPeer(once, {"t": {"readOnlyHint": True}})
    bounds = limits(stop_s=0.1)  # it never replies to a farewell
    async with peer.open() as (url, _), web(url, bounds, protocol="legacy") as source:
        await approved(source)
        with pytest.raises(ToolFailed) as caught:
            await use(source, "w.t")
        assert await use(source, "w.t") == "fine"
    return caught.value


@pytest.mark.parametrize(
    ("head", "why"),
    [
        (f"{JSON}\r\ncontent-length: 100000000\r\n\r\n", "is larger than 4,194,304 bytes"),
        ("text/event-stream\r\n\r\ndata: ", "SSE stream failed"),
    ],
)
async def test_a_reply_of_a_hundred_megabytes_is_cut_off(head: str, why: str) -> None:
    async def respond(_: Any, writer: asyncio.StreamWriter) -> None:
        writer.write(f"HTTP/1.1 200 OK\r\ncontent-type: {head}".encode())
        for _ in range(1600):
            writer.write(b"x" * 65536)
            await writer.drain()

    assert why in str(await failure(respond))


async def test_a_reply_that_would_unpack_to_more_is_not_unpacked() -> None:
    packed = gzip.compress(b"x" * 10_000_000)
    failed = await failure(sends(http(200, packed, JSON, "content-encoding: gzip\r\n")))
    assert "the reply is compressed, which was not requested" in str(failed)


@pytest.mark.parametrize(
    ("status", "again", "why"),
    [
        (401, False, "HTTP 401 X (check the headers of the server)"),
        (403, False, "HTTP 403"),
        (429, True, "gave no result: HTTP 429"),
        (500, False, "HTTP 500"),
        (404, True, "gave no result: Session terminated"),
    ],
)
async def test_no_status_says_that_a_call_was_not_made(status: int, again: bool, why: str) -> None:
    failed = await failure(sends(http(status, b"<html>", "text/html")))
    assert isinstance(failed, OutcomeUnknown)
    assert failed.again is again
    assert why in str(failed)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b'{"jsonrpc":"2.0","id":ID,"result":{"content":"\xff"}}', "reply cannot be read"),
        (b"not json", "reply cannot be read"),
        (b'{"jsonrpc":"2.0","id":ID,"result":{}}', "does not follow the protocol"),
    ],
)
async def test_a_reply_that_makes_no_sense_fails_its_call(body: bytes, why: str) -> None:
    async def respond(number: Any, writer: asyncio.StreamWriter) -> None:
        writer.write(http(200, body.replace(b"ID", str(number).encode()), JSON))

    assert why in str(await failure(respond))


async def test_a_redirect_to_another_place_is_not_followed() -> None:
    away = "location: http://169.254.169.254/latest\r\n"
    assert "not followed" in str(await failure(sends(http(307, b"", JSON, away))))


async def test_a_server_that_cannot_be_reached_is_told_and_found_when_it_is_back() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    async with web(f"http://127.0.0.1:{port}/mcp", limits(retry_s=0.0)) as source:
        await approved(source)
        assert list(await source.tools()) == []
        assert "w did not start: ConnectError" in source.statuses()[0].detail
        with pytest.raises(ToolBusy, match="did not start"):
            await use(source, "w.t")


async def test_headers_are_filled_in_and_never_shown() -> None:
    async def respond(number: Any, writer: asyncio.StreamWriter) -> None:
        error = {"code": -1, "message": "bad token canary-123456"}
        writer.write(http(200, answer(number, error=error), JSON))

    seen: list[str] = []
    held = {"T": "canary-123456"}
    async with McpPeer(respond, {"t": {}}).open() as (url, _):
        named = ServerSettings(url=url, headers={"Authorization": "Bearer ${T}"}, limits=limits())
        source = McpServers({"w": named}, approvals=Approvals(), environment=held, tell=seen.append)
        async with source:
            await approved(source)
            with pytest.raises(ToolFailed, match=r"bad token \$\{secret:T\}"):
                await use(source, "w.t")
    assert "canary" not in "".join(seen)
