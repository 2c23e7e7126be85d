"""Observes all messages between client and server: keeps raw tool lists and counts requests."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any, Self, cast

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCRequest, JSONRPCResponse, ListToolsResult
from mcp_types.methods import validate_server_result
from pydantic import ValidationError

from plansmith.plan.data import Json
from plansmith.plan.sentence import Sentence


class Tap:
    """Observes one connection.

    The client's own models drop unknown fields, so raw definitions are taken from here.
    """

    def __init__(
        self,
        *,
        most_requests: int,
        most_tools: int,
        ended: Callable[[str], None],
        version: Callable[[], str],
    ) -> None:
        self._most = most_requests
        self._most_tools = most_tools
        self.ended, self._version = ended, version
        self._listing: set[int | str] = set()
        self._unanswered: set[int | str] = set()
        self.page: list[Json] = []

    def on_send(self, each: SessionMessage) -> None:
        """Called with a message of the client before it is sent."""
        message = each.message
        if isinstance(message, JSONRPCRequest) and message.method == "tools/list":
            self._listing.add(message.id)

    def on_sent(self, each: SessionMessage) -> None:
        """Called with a message of the client after it was sent."""
        message = each.message
        if isinstance(message, (JSONRPCResponse, JSONRPCError)) and message.id is not None:
            self._unanswered.discard(message.id)

    def on_receive(self, each: SessionMessage | Exception) -> None:
        """Called with a message of the server."""
        if isinstance(each, Exception):
            return
        message = each.message
        if isinstance(message, JSONRPCResponse) and message.id in self._listing:
            self._listing.discard(message.id)
            self._keep_page(message.result)
        elif isinstance(message, JSONRPCRequest):
            self._unanswered.add(message.id)
            if len(self._unanswered) > self._most:
                self.ended(Sentence("it asked more than {most} things at once", most=self._most))
                raise anyio.EndOfStream

    def _keep_page(self, result: dict[str, Any]) -> None:
        """Keeps a raw page of tools; passes only readable ones to the client, within the limit."""
        tools = result.get("tools")
        if isinstance(tools, list):
            self.page = cast("list[Json]", tools)[: self._most_tools + 1]
            read = [each for each in self.page if self._is_readable({**result, "tools": [each]})]
            result["tools"] = read

    def _is_readable(self, result: dict[str, Any]) -> bool:
        """Whether a page with this one tool follows the protocol."""
        try:
            with suppress(KeyError):
                validate_server_result("tools/list", self._version(), result)
            ListToolsResult.model_validate(result, by_name=False)
        except ValidationError:
            return False
        return True


class _Stream:
    """One of the two streams of a connection."""

    def __init__(self, inner: Any, tap: Tap) -> None:
        self._inner, self._tap = inner, tap

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class _Read(_Stream):
    """The incoming stream, observed."""

    async def receive(self) -> SessionMessage | Exception:
        try:
            each: SessionMessage | Exception = await self._inner.receive()
        except (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
            self._tap.ended("")
            raise
        self._tap.on_receive(each)
        return each

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None


class _Write(_Stream):
    """The outgoing stream, observed."""

    async def send(self, item: SessionMessage, /) -> None:
        self._tap.on_send(item)
        await self._inner.send(item)
        self._tap.on_sent(item)


@asynccontextmanager
async def tapped(
    transport: AbstractAsyncContextManager[Any], tap: Tap
) -> AsyncGenerator[tuple[_Read, _Write]]:
    """Returns the transport with both streams observed."""
    async with transport as (read, write):
        yield _Read(read, tap), _Write(write, tap)
