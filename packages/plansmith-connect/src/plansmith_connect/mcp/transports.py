"""Transports to MCP servers with size limits: a local process, or a URL."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import ExitStack, asynccontextmanager, suppress
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, cast

import anyio
import httpx2
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from mcp_types import INTERNAL_ERROR, PARSE_ERROR, ErrorData, JSONRPCError, jsonrpc_message_adapter

from plansmith_connect.mcp.delivery import DELIVERY, Delivery
from plansmith_connect.mcp.settings import ServerLimits, ServerSettings
from plansmith_connect.mcp.trusted_copy import trusted_copy
from plansmith_connect.retry_after import retry_after

_POLL_S: Final = 0.005
_CHUNK: Final = 64 * 1024
_ID: Final = re.compile(rb'"id"\s*:\s*(\d{1,15})\b')
_ENDS: Final = 200

Incoming = MemoryObjectSendStream[SessionMessage | Exception]
Streams = tuple[
    MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]
]
_EVENTS: Final = "text/event-stream"
_CONNECT_S: Final = 10.0
_UNSENT: Final = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)
# Longer than any call may take: the call's own limit is what ends it.
_BEYOND_CALL_S: Final = 60.0


class ServerOutput:
    """The last output of a server outside the protocol, and why it was ended."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._tail = bytearray()
        self.fault = ""

    def add(self, data: bytes) -> None:
        self._tail += data
        del self._tail[: max(0, len(self._tail) - self._most)]

    @property
    def last(self) -> str:
        return self._tail.decode(errors="replace").strip()


@asynccontextmanager
async def stdio_transport(
    settings: ServerSettings, output: ServerOutput
) -> AsyncGenerator[Streams]:
    """Starts the command in its own process group, and ends the group in any case.

    A command of a folder starts in a copy of the files that were trusted.
    """
    to_session, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write, from_session = anyio.create_memory_object_stream[SessionMessage](0)
    with ExitStack() as stack:
        for stream in (to_session, read, write, from_session):
            stack.callback(stream.close)
        cwd, limits = settings.cwd, settings.limits
        if settings.folder:
            copying = trusted_copy(Path(settings.folder), settings.files)
            cwd = f"{await asyncio.to_thread(stack.enter_context, copying)}/{cwd or '.'}"
        process = await asyncio.create_subprocess_exec(
            settings.command,
            *settings.args,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=dict(settings.env),
            cwd=cwd or None,
            start_new_session=True,
        )
        async with anyio.create_task_group() as group:
            group.start_soon(_read_messages, process.stdout, to_session, limits, output)
            group.start_soon(_write_messages, process.stdin, from_session)
            group.start_soon(_read_stderr, process.stderr, output)
            try:
                yield read, write
            finally:
                with anyio.CancelScope(shield=True):
                    await end(process, limits.stop_s)
                group.cancel_scope.cancel()


async def _read_messages(
    stdout: Any, session: Incoming, limits: ServerLimits, output: ServerOutput
) -> None:
    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
        async with session:
            while line := await _line(stdout, limits, output):
                message = parse_line(line)
                if message is not None:
                    await session.send(message)
                else:
                    output.add(line[:_CHUNK])


async def _line(stdout: Any, limits: ServerLimits, output: ServerOutput) -> bytes:
    """Reads a line of any length up to the limit; empty at the end of the output."""
    line = b""
    while not line.endswith(b"\n"):
        try:
            line += await stdout.readuntil(b"\n")
        except asyncio.LimitOverrunError as longer:
            line += await stdout.readexactly(longer.consumed)
        except asyncio.IncompleteReadError:
            return b""
        if len(line) > limits.message_bytes:
            output.fault = f"it sent a message of more than {limits.message_bytes:,} bytes"
            return b""
    return line


def parse_line(line: bytes) -> SessionMessage | None:
    """Parses a message; an unreadable reply fails its request; None for other text."""
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError:
        found = _ID.search(line[:_ENDS]) or _ID.search(line[-_ENDS:])
        if found is None or not line.lstrip().startswith(b"{"):
            return None
    error = ErrorData(code=PARSE_ERROR, message="the reply is not valid JSON in UTF-8")
    return SessionMessage(JSONRPCError(jsonrpc="2.0", id=int(found[1]), error=error))


async def _write_messages(stdin: Any, session: MemoryObjectReceiveStream[SessionMessage]) -> None:
    # A server that is gone is noticed where it is listened to.
    with suppress(OSError):
        async for each in session:
            text = each.message.model_dump_json(by_alias=True, exclude_unset=True)
            stdin.write(text.encode() + b"\n")
            await stdin.drain()


async def _read_stderr(stderr: Any, output: ServerOutput) -> None:
    while data := await stderr.read(_CHUNK):
        output.add(data)


async def end(process: asyncio.subprocess.Process, patience_s: float) -> None:
    """Ends a server: closes its input, then terminates it, then kills its process group."""
    if process.stdin is not None:
        process.stdin.close()
    if not await _is_gone(process, patience_s):
        _signal(process, signal.SIGTERM)
        await _is_gone(process, patience_s)
    # Also when the server itself went by itself: what it started must not stay behind.
    _signal(process, signal.SIGKILL if sys.platform != "win32" else signal.SIGTERM)
    await _is_gone(process, patience_s)
    # A child that left the group may hold the pipes; the transport would wait for it for ever.
    if process.stdin is not None and process.stdin.transport.get_write_buffer_size():
        process.stdin.transport.abort()
    transport: Any = getattr(process, "_transport", None)
    if transport is not None:
        transport.close()
    with anyio.move_on_after(patience_s):
        await process.wait()


async def _is_gone(process: asyncio.subprocess.Process, seconds: float) -> bool:
    """Whether the process ends in time; `wait` would also wait for output that nobody reads."""
    with anyio.move_on_after(seconds):
        while process.returncode is None:  # noqa: ASYNC110 - a process has no such event
            await anyio.sleep(_POLL_S)
    return process.returncode is not None


def _signal(process: asyncio.subprocess.Process, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        if sys.platform == "win32":
            process.send_signal(number)
        else:
            os.killpg(process.pid, number)


class _Bounded(httpx2.AsyncByteStream):
    """A response body that may not be longer than a limit."""

    def __init__(self, inner: httpx2.AsyncByteStream, most: int) -> None:
        self._inner, self._most = inner, most

    async def __aiter__(self) -> AsyncIterator[bytes]:
        seen = 0
        async for chunk in self._inner:
            seen += len(chunk)
            if seen > self._most:
                # An error of this kind fails the one request, and not the whole connection.
                raise httpx2.StreamError(f"the reply is larger than {self._most:,} bytes")
            yield chunk

    async def aclose(self) -> None:
        await self._inner.aclose()


class BoundedClient(httpx2.AsyncClient):
    """An HTTP client that turns failures into JSON-RPC errors of the failed request."""

    def __init__(self, *, limits: ServerLimits, headers: dict[str, str]) -> None:
        read = limits.call_s + _BEYOND_CALL_S
        super().__init__(headers=headers, timeout=httpx2.Timeout(_CONNECT_S, read=read, pool=read))
        self._most, self._farewell_s = limits.message_bytes, limits.stop_s

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Sends without offering compression, so that size limits count what is received."""
        request.headers["accept-encoding"] = "identity"
        if request.method != "POST":
            # The stream of news may be silent for long; the farewell may not hold anybody up.
            read = None if request.method == "GET" else self._farewell_s
            request.extensions["timeout"] = {**request.extensions["timeout"], "read": read}
        delivery = DELIVERY.get(None) or Delivery()
        try:
            response = await super().send(request, **options)
        except httpx2.TransportError as error:
            delivery.sent = delivery.sent or not isinstance(error, _UNSENT)
            return _failure(request, f"{type(error).__name__}: {error}")
        delivery.sent, delivery.status = True, response.status_code
        delivery.retry_after = retry_after(response.headers.get("retry-after"))
        if response.headers.get("content-encoding", "identity") != "identity":
            await response.aclose()
            return _failure(request, "the reply is compressed, which was not requested")
        kind = response.headers.get("content-type", "").lower()
        if not kind.startswith(_EVENTS):
            stream = cast("httpx2.AsyncByteStream", response.stream)
            response.stream = _Bounded(stream, self._most)
        if _is_plain_failure(request, response.status_code, kind):
            await response.aclose()
            text = f"HTTP {response.status_code} {response.reason_phrase}".strip()
            return _failure(request, text, status=response.status_code)
        return response


def _is_plain_failure(request: httpx2.Request, status: int, kind: str) -> bool:
    """Whether a reply has only a status; 404 the library itself explains."""
    return (
        request.method == "POST"
        and status >= HTTPStatus.BAD_REQUEST
        and status != HTTPStatus.NOT_FOUND
        and not kind.startswith("application/json")
    )


def _failure(
    request: httpx2.Request, text: str, *, status: int = HTTPStatus.BAD_GATEWAY
) -> httpx2.Response:
    error = {"code": INTERNAL_ERROR, "message": text}
    body = json.dumps({"jsonrpc": "2.0", "id": None, "error": error}).encode()
    headers = {"content-type": "application/json"}
    return httpx2.Response(status, headers=headers, content=body, request=request)


@asynccontextmanager
async def web_transport(settings: ServerSettings) -> AsyncGenerator[Any]:
    """Opens the streams of a server at a URL."""
    async with (
        BoundedClient(limits=settings.limits, headers=dict(settings.headers)) as client,
        streamable_http_client(
            settings.url, http_client=client, max_sse_event_size=settings.limits.message_bytes
        ) as streams,
    ):
        yield streams
