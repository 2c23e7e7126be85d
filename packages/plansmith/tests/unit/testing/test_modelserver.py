from __future__ import annotations

import asyncio
import json
import urllib.error
import urllib.request
from typing import Any

from plansmith.testing.modelserver import Gate, ModelServer, Page, Refusal, Reply


def post(url: str, body: dict[str, Any], **headers: str) -> tuple[int, dict[str, str], str]:
    request = urllib.request.Request(
        f"{url}/chat/completions", json.dumps(body).encode(), {"X-Test": "1", **headers}
    )
    try:
        with urllib.request.urlopen(request) as response:
            return response.status, dict(response.headers), response.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, dict(error.headers), error.read().decode()


def events(body: str) -> list[Any]:
    lines = [line.removeprefix("data: ") for line in body.splitlines() if line]
    assert lines.pop() == "[DONE]"
    return [json.loads(line) for line in lines]


def test_an_answer_can_be_had_in_one_piece() -> None:
    answers = Reply("hello", cached_tokens=2), Reply({"a": 1}, tool="t")
    with ModelServer(*answers).in_thread() as url:
        status, headers, body = post(url, {"model": "m", "messages": []})
        called = json.loads(post(url, {})[2])["choices"][0]
    answer = json.loads(body)
    assert (status, headers["Content-Type"]) == (200, "application/json")
    assert answer["model"] == "m"
    assert answer["choices"][0]["message"] == {"role": "assistant", "content": "hello"}
    assert answer["choices"][0]["finish_reason"] == "stop"
    assert answer["usage"]["prompt_tokens_details"] == {"cached_tokens": 2}
    assert called["finish_reason"] == "tool_calls"
    assert called["message"]["tool_calls"][0]["function"] == {"name": "t", "arguments": '{"a": 1}'}


def test_an_answer_can_be_streamed() -> None:
    answers = Reply("hello you", chunk=5), Reply({"a": 1}, tool="t", chunk=4)
    with ModelServer(*answers).in_thread() as url:
        _, headers, body = post(url, {"stream": True})
        _, _, called = post(url, {"stream": True})
    assert headers["Content-Type"] == "text/event-stream"
    *chunks, usage = events(body)
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
    assert [delta.get("content") for delta in deltas] == ["", "hello", " you", None]
    assert chunks[-1]["choices"][0]["finish_reason"] == "stop"
    assert usage["usage"]["total_tokens"] == 12
    choices = [choice for chunk in events(called) for choice in chunk["choices"]]
    calls = [call["function"] for each in choices for call in each["delta"].get("tool_calls", [])]
    assert calls[0] == {"name": "t", "arguments": ""}
    assert "".join(call["arguments"] for call in calls) == '{"a": 1}'


def test_answers_come_in_order_and_requests_are_kept() -> None:
    server = ModelServer("one", Refusal(429, "wait", retry_after="3"), then=Page("page", "text/x"))
    with server.in_thread() as url:
        assert json.loads(post(url, {"n": 1})[2])["choices"][0]["message"]["content"] == "one"
        status, headers, body = post(url, {"n": 2})
        assert (status, headers["Retry-After"]) == (429, "3")
        assert json.loads(body)["error"]["message"] == "wait"
        for _ in range(2):
            assert post(url, {"n": 3})[2] == "page"
        server.finish()
    assert [chat["n"] for chat in server.chats] == [1, 2, 3, 3]
    assert server.requests[0].headers["x-test"] == "1"


async def test_a_gate_holds_pieces_back_and_a_client_that_leaves_is_noticed() -> None:
    gate = Gate()
    async with ModelServer(Reply("hello", gate=gate)) as server, asyncio.timeout(120):
        port = int(server.url.rsplit(":", 1)[1].partition("/")[0])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        body = b'{"stream": true}'
        head = f"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        assert b"200" in await reader.readuntil(b"\r\n\r\n")
        gate.let()
        assert b'"role": "assistant"' in await reader.readuntil(b"\n\n")
        writer.close()
        await writer.wait_closed()
        await server.requests[0].left.wait()
