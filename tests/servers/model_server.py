"""A scripted language model behind a real socket: an OpenAI-compatible server for tests."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self, cast

from plansmith.errors import ScriptMismatch
from plansmith.plan.data import Json

Ending = Literal["done", "unfinished", "cut", "reset", "silent", "malformed", "error"]


class Gate(asyncio.Semaphore):
    """Holds a reply back: each piece waits until the test lets it pass."""

    def __init__(self, passes: int = 0) -> None:
        super().__init__(passes)

    def let(self, pieces: int = 1) -> None:
        """Lets some more pieces pass."""
        for _ in range(pieces):
            self.release()


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer: text, or a value as JSON text; with `tool`, the arguments of a tool call.

    `ends` says what happens after the last piece: `done` ends normally, `unfinished` ends without a
    finish reason, `cut` closes the connection in the middle of the body, `reset` resets it,
    `silent` sends nothing more until the client disconnects, `malformed` sends a piece that is
    not JSON, and `error` sends an error object inside the stream.
    """

    says: Json = ""
    tool: str = ""
    thinks: str = ""
    chunk: int = 8
    ends: Ending = "done"
    finish: str = ""
    gate: Gate | None = None
    input_tokens: int | None = 7
    output_tokens: int = 5
    cached_tokens: int = 0

    @property
    def text(self) -> str:
        """The answer as text."""
        return self.says if isinstance(self.says, str) else json.dumps(self.says)

    @property
    def finish_reason(self) -> str:
        """Why the model stopped."""
        return self.finish or ("tool_calls" if self.tool else "stop")

    def usage(self) -> dict[str, Json] | None:
        """The token counts; None if the server does not report them."""
        if self.input_tokens is None:
            return None
        return {
            "prompt_tokens": self.input_tokens,
            "completion_tokens": self.output_tokens,
            "total_tokens": self.input_tokens + self.output_tokens,
            "prompt_tokens_details": {"cached_tokens": self.cached_tokens},
        }


@dataclass(frozen=True, slots=True)
class Refusal:
    """An error response in OpenAI's format."""

    status: int
    message: str = "no"
    code: str = ""
    retry_after: str = ""


@dataclass(frozen=True, slots=True)
class Page:
    """A body of any kind, such as a proxy's error page or a hand-written stream."""

    body: str | bytes
    content_type: str = "text/html"
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class Request:
    """A request as received; `left` is set if the client disconnected before the end."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    left: asyncio.Event = field(default_factory=asyncio.Event, compare=False)

    @property
    def json(self) -> dict[str, Any]:
        """Returns the body; empty if it is no JSON object."""
        try:
            value: object = json.loads(self.body or b"{}")
        except ValueError:
            return {}
        return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


Answer = Reply | Refusal | Page
Script = Answer | str | Callable[[Request], Answer]


class ModelServer:
    """Serves its answers in order, over HTTP on 127.0.0.1 and a free port.

    `then` answers requests after the script; without it they are refused. With `json_mode` or
    `tools` off, requests that ask for them are refused, and with a `key` those without it; such
    refusals use up no answer.
    """

    def __init__(
        self,
        *answers: Script,
        then: Script | None = None,
        json_mode: bool = True,
        tools: bool = True,
        key: str = "",
    ) -> None:
        self._answers, self._then = list(answers), then
        self._json_mode, self._tools, self._key, self._model = json_mode, tools, key, "test"
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.requests: list[Request] = []

    @property
    def url(self) -> str:
        """The base URL for clients, while the server runs."""
        if self._server is None:
            raise RuntimeError("the model server is not running: use `async with` or `in_thread()`")
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/v1"

    @property
    def chats(self) -> list[dict[str, Any]]:
        """The bodies of the chat requests, in order."""
        return [each.json for each in self.requests if each.path.endswith("/chat/completions")]

    def finish(self) -> None:
        """Raises `ScriptMismatch` if answers were not used."""
        if self._answers:
            raise ScriptMismatch(f"{len(self._answers)} answers were never used")

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.close()
            tasks = list(self._tasks)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._server.wait_closed()
            self._server = None

    @contextlib.contextmanager
    def in_thread(self) -> Generator[str]:
        """Runs the server in a thread; yields the URL."""
        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=loop.run_forever)
        thread.start()
        try:
            asyncio.run_coroutine_threadsafe(self.__aenter__(), loop).result()
            yield self.url
        finally:
            asyncio.run_coroutine_threadsafe(self.__aexit__(), loop).result()
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # Our own task: asyncio logs an error if a task that it made is cancelled.
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        parts: list[asyncio.Task[object]] = []
        try:
            if (request := await _read_request(reader)) is not None:
                self.requests.append(request)
                # A client sends only one request, so the second read ends when it disconnects.
                works = self._respond(request, writer), reader.read()
                parts += map(asyncio.ensure_future, works)
                await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
                if not parts[0].done() or isinstance(parts[0].exception(), OSError):
                    request.left.set()
        finally:
            for part in parts:
                part.cancel()
            writer.close()
            await asyncio.gather(*parts, return_exceptions=True)
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _respond(self, request: Request, writer: asyncio.StreamWriter) -> None:
        answer = self._refuses(request) or self._next(request)
        model = str(request.json.get("model") or self._model)
        if isinstance(answer, Reply) and request.json.get("stream"):
            await _stream(answer, model, writer)
            return
        if isinstance(answer, Reply):
            answer = Page(json.dumps(_completion(answer, model)), "application/json")
        elif isinstance(answer, Refusal):
            error = {"message": answer.message, "code": answer.code or None}
            headers = {"Retry-After": answer.retry_after} if answer.retry_after else {}
            body = json.dumps({"error": error})
            answer = Page(body, "application/json", answer.status, headers)
        data = answer.body.encode() if isinstance(answer.body, str) else answer.body
        kind = {"Content-Type": answer.content_type, "Content-Length": str(len(data))}
        writer.write(_head(answer.status, {**kind, **answer.headers}) + data)
        await writer.drain()

    def _refuses(self, request: Request) -> Refusal | Page | None:
        body = request.json
        if self._key and request.headers.get("authorization") != f"Bearer {self._key}":
            return Refusal(401, "Incorrect API key provided", "invalid_api_key")
        if request.method == "GET" and request.path.endswith("/models"):
            return Page(json.dumps({"data": [{"id": self._model}]}), "application/json")
        if request.method != "POST" or not request.path.endswith("/chat/completions"):
            return Refusal(404, f"no such page: {request.path}")
        if not self._json_mode and "response_format" in body:
            return Refusal(400, "response_format of type json_schema is not supported")
        if not self._tools and body.get("tools"):
            return Refusal(400, f"{self._model} does not support tools")
        return None

    def _next(self, request: Request) -> Answer:
        script = self._answers.pop(0) if self._answers else self._then
        if script is None:
            return Refusal(400, "the model server has no answer left for this request")
        if isinstance(script, str):
            return Reply(script)
        return script if isinstance(script, Answer) else script(request)


async def _read_request(reader: asyncio.StreamReader) -> Request | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.split("\r\n")
        pairs = (line.partition(":") for line in lines if line)
        headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        method, path, _ = first.split(" ", 2)
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError, OSError):
        return None
    return Request(method, path, headers, body)


def _head(status: int, headers: Mapping[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} Scripted", "Connection: close"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode()


async def _stream(reply: Reply, model: str, writer: asyncio.StreamWriter) -> None:
    """Writes a reply piece by piece, and ends it as it says."""
    head = {"Content-Type": "text/event-stream", "Transfer-Encoding": "chunked"}
    writer.write(_head(200, head))
    for delta in ({"role": "assistant", "content": ""}, *_deltas(reply)):
        if reply.gate is not None:
            await reply.gate.acquire()
        writer.write(_event(_chunk(delta, model)))
        await writer.drain()
    finish = [_event(_chunk({}, model, reply.finish_reason))]
    if reply.usage() is not None:
        finish.append(_event({**_chunk({}, model), "choices": [], "usage": reply.usage()}))
    finish += [_data(b"data: [DONE]\n\n"), _END]
    broken = {"error": {"message": "the engine stopped", "code": 500}}
    pieces: Mapping[Ending, list[bytes]] = {
        "done": finish,
        "malformed": [_data(b"data: {not json\n\n"), *finish],
        "unfinished": [_END],
        "cut": [b"400\r\ndata: {"],
        "error": [_event(broken), _END],
    }
    for piece in pieces.get(reply.ends, ()):
        writer.write(piece)
        await writer.drain()
    if reply.ends == "reset":
        writer.transport.abort()
    elif reply.ends == "silent":
        await asyncio.Event().wait()


_END = b"0\r\n\r\n"


def _data(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


def _event(value: Mapping[str, Any]) -> bytes:
    return _data(b"data: " + json.dumps(value).encode() + b"\n\n")


def _deltas(reply: Reply) -> Iterator[dict[str, Any]]:
    if reply.thinks:
        yield {"reasoning_content": reply.thinks}
    if reply.tool:
        function: dict[str, Json] = {"name": reply.tool, "arguments": ""}
        yield {"tool_calls": [{"index": 0, "id": "call_1", "function": function}]}
    for start in range(0, len(reply.text), reply.chunk):
        text = reply.text[start : start + reply.chunk]
        call = {"index": 0, "function": {"arguments": text}}
        yield {"tool_calls": [call]} if reply.tool else {"content": text}


def _chunk(delta: dict[str, Any], model: str, finish: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    kind = "chat.completion.chunk"
    return {"id": "chat_1", "object": kind, "created": 1, "model": model, "choices": [choice]}


def _completion(reply: Reply, model: str) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": None if reply.tool else reply.text}
    if reply.tool:
        function = {"name": reply.tool, "arguments": reply.text}
        message["tool_calls"] = [{"id": "call_1", "type": "function", "function": function}]
    choice = {"index": 0, "message": message, "finish_reason": reply.finish_reason}
    whole = {"id": "chat_1", "object": "chat.completion", "created": 1, "model": model}
    return {**whole, "choices": [choice], "usage": reply.usage()}
