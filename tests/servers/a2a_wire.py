"""A wire that can be cut, and a server that says exactly the bytes a test tells it to."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from tests.needs import free_port


class Doors:
    """The connections a server has open, so that none outlives it."""

    def __init__(self) -> None:
        self._open: set[asyncio.Task[Any]] = set()

    def note(self) -> None:
        """This task serves a connection."""
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        task.add_done_callback(self._open.discard)

    async def shut(self) -> None:
        for task in list(self._open):
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)


class Wire:
    """Passes bytes on to a port, and drops a connection where a test says so.

    `swallow` are requests that arrive and whose answers get lost, once `pass_first` answers have
    passed; `mute` those whose answers never come though the connection stays; `cut` are words of
    the server behind which the connection ends; each once. `down` lets nobody through.
    """

    def __init__(self, target: int) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.swallow: list[bytes] = []
        self.mute: list[bytes] = []
        self.cut: list[bytes] = []
        self.down = False
        self.pass_first = 0
        self.happened = asyncio.Event()
        self._target = target
        self._doors = Doors()

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[Wire]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        async with server:
            yield self
            await self._doors.shut()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._doors.note()
        if self.down:
            writer.transport.abort()
            return
        try:
            there, back = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            writer.transport.abort()
            return
        lost: set[str] = set()
        up = asyncio.create_task(self._up(reader, back, lost))
        try:
            await self._down(there, writer, lost)
        except (OSError, asyncio.CancelledError):
            # A handler that ends cancelled would be an error in the event loop's log.
            pass
        finally:
            up.cancel()
            writer.transport.abort()
            back.transport.abort()

    async def _up(
        self, reader: asyncio.StreamReader, back: asyncio.StreamWriter, lost: set[str]
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                if self.pass_first <= 0 and self._meets(self.swallow, data):
                    lost.add("swallow")
                if self._meets(self.mute, data):
                    lost.add("mute")
                back.write(data)
                await back.drain()
            back.close()

    async def _down(
        self, there: asyncio.StreamReader, writer: asyncio.StreamWriter, lost: set[str]
    ) -> None:
        while data := await there.read(65536):
            self.pass_first -= 1
            if lost:
                self.happened.set()
                if "mute" in lost:
                    continue
                return
            word = self._meets(self.cut, data)
            if word:
                writer.write(data[: data.index(word) + len(word)])
                await writer.drain()
                self.happened.set()
                return
            writer.write(data)
            await writer.drain()

    def _meets(self, words: list[bytes], data: bytes) -> bytes:
        for word in words:
            if word in data:
                words.remove(word)
                return word
        return b""


Answer = Callable[["Talk"], Awaitable[None]]


class Talk:
    """One request to a liar, and the way to answer it."""

    def __init__(self, head: str, body: bytes, writer: asyncio.StreamWriter) -> None:
        self.head = head
        self.body: dict[str, Any] = json.loads(body) if body else {}
        self.method = str(self.body.get("method", ""))
        self.writer = writer

    async def raw(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def answer(
        self, value: Any, kind: str = "application/json", status: str = "200 OK"
    ) -> None:
        body = value if isinstance(value, bytes) else json.dumps(value).encode()
        await self.start(kind, status, f"Content-Length: {len(body)}\r\n")
        await self.raw(body)

    async def start(self, kind: str, status: str = "200 OK", more: str = "") -> None:
        head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nConnection: close\r\n{more}\r\n"
        await self.raw(head.encode())

    async def result(self, result: Any) -> None:
        await self.answer({"jsonrpc": "2.0", "id": self.body["id"], "result": result})

    async def event(self, result: Any) -> None:
        value = {"jsonrpc": "2.0", "id": self.body["id"], "result": result}
        await self.raw(b"data: " + json.dumps(value).encode() + b"\r\n\r\n")


class Liar:
    """A server that serves a card and answers everything else as a test says."""

    def __init__(self, answer: Answer, *, streaming: bool = False, **card: Any) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.answer = answer
        self.methods: list[str] = []
        self._doors = Doors()
        self.card: Any = a_card(self.url, streaming=streaming) | card
        self.serve_card: Answer = lambda talk: talk.answer(self.card)

    @contextlib.asynccontextmanager
    async def open(self, tls: ssl.SSLContext | None = None) -> AsyncIterator[Liar]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, ssl=tls)
        async with server:
            yield self
            await self._doors.shut()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._doors.note()
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            sizes = [
                each for each in head.lower().splitlines() if each.startswith("content-length")
            ]
            size = int(sizes[0].partition(":")[2]) if sizes else 0
            talk = Talk(head, await reader.readexactly(size), writer)
            if head.startswith("GET") and "agent-card.json" in head.splitlines()[0]:
                await self.serve_card(talk)
            else:
                self.methods.append(talk.method)
                await self.answer(talk)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            # A handler that ends cancelled would be an error in the event loop's log.
            pass
        finally:
            writer.close()


def a_card(url: str, *, streaming: bool = False, **more: Any) -> dict[str, Any]:
    """A plain card of protocol 1.0."""
    return {
        "name": "Liar",
        "description": "lies",
        "version": "1",
        "supportedInterfaces": [
            {"url": f"{url}/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
        ],
        "capabilities": {"streaming": streaming},
        "defaultInputModes": ["text/plain"],
        "defaultOutputModes": ["text/plain"],
        "skills": [],
    } | more
