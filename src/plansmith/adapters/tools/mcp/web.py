"""Web: a server reached over streamable HTTP; no reply is larger than the limit, none unpacked."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any, Final, cast

import httpx2
from mcp.client.streamable_http import streamable_http_client
from mcp_types import INTERNAL_ERROR

from plansmith.adapters.tools.mcp.launch import Target
from plansmith.adapters.tools.mcp.settings import ServerLimits

_EVENTS: Final = "text/event-stream"
_CONNECT_S: Final = 10.0
_UNSENT: Final = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)
# Longer than any call may take: the call's own limit is what ends it.
_BEYOND_CALL_S: Final = 60.0


class _Bounded(httpx2.AsyncByteStream):
    """A body that may not be longer than a limit."""

    def __init__(self, inner: httpx2.AsyncByteStream, most: int) -> None:
        self._inner = inner
        self._most = most

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
    """An HTTP client whose failures become JSON-RPC errors of the one request they concern."""

    def __init__(self, *, limits: ServerLimits, headers: dict[str, str]) -> None:
        read = limits.call_s + _BEYOND_CALL_S
        super().__init__(headers=headers, timeout=httpx2.Timeout(_CONNECT_S, read=read, pool=read))
        self._most, self._farewell_s = limits.message_bytes, limits.stop_s

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send without offering compression, so that what is counted is what is held."""
        request.headers["accept-encoding"] = "identity"
        if request.method != "POST":
            # The stream of news may be silent for long; the farewell may not hold anybody up.
            read = None if request.method == "GET" else self._farewell_s
            request.extensions["timeout"] = {**request.extensions["timeout"], "read": read}
        try:
            response = await super().send(request, **options)
        except httpx2.TransportError as error:
            sent = not isinstance(error, _UNSENT)
            return _failure(request, 502, f"{type(error).__name__}: {error}", sent=sent)
        if response.headers.get("content-encoding", "identity") != "identity":
            await response.aclose()
            return _failure(request, 502, "the reply is compressed, unasked", sent=True)
        kind = response.headers.get("content-type", "").lower()
        if not kind.startswith(_EVENTS):
            stream = cast("httpx2.AsyncByteStream", response.stream)
            response.stream = _Bounded(stream, self._most)
        if _is_plain_failure(request, response.status_code, kind):
            await response.aclose()
            words = f"HTTP {response.status_code} {_phrase(response.status_code)}".strip()
            return _failure(request, response.status_code, words, sent=True)
        return response


def _is_plain_failure(request: httpx2.Request, status: int, kind: str) -> bool:
    """Whether a reply says nothing but its status; 404 means that a session has ended."""
    return (
        request.method == "POST"
        and status >= HTTPStatus.BAD_REQUEST
        and status != HTTPStatus.NOT_FOUND
        and not kind.startswith("application/json")
    )


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""


def _failure(request: httpx2.Request, status: int, text: str, *, sent: bool) -> httpx2.Response:
    error = {"code": INTERNAL_ERROR, "message": text, "data": {"http": status, "sent": sent}}
    body = json.dumps({"jsonrpc": "2.0", "id": None, "error": error}).encode()
    headers = {"content-type": "application/json"}
    return httpx2.Response(status, headers=headers, content=body, request=request)


@asynccontextmanager
async def web_transport(target: Target, *, limits: ServerLimits) -> AsyncGenerator[Any]:
    """The streams of a server at a URL."""
    async with (
        BoundedClient(limits=limits, headers=dict(target.headers or {})) as client,
        streamable_http_client(
            target.url, http_client=client, max_sse_event_size=limits.message_bytes
        ) as streams,
    ):
        yield streams
