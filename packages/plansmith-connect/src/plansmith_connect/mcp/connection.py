"""One connection to an MCP server, opened and closed by its own task."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from importlib.metadata import version
from typing import Any, Final, Self, cast

import anyio
import mcp_types as types
from mcp import Client
from mcp.client.session import ElicitationFnT
from mcp.client.subscriptions import listen
from mcp.shared.dispatcher import ProgressFnT
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from mcp_types.methods import validate_server_result
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import TypeAdapter, ValidationError

from plansmith.errors import ToolBusy, ToolFailed
from plansmith.plan.data import Json
from plansmith.plan.sentence import Sentence
from plansmith.text import clip, safe
from plansmith_connect.mcp.delivery import DELIVERY, Delivery
from plansmith_connect.mcp.launch import Target
from plansmith_connect.mcp.transports import ServerOutput, stdio_transport, web_transport

Reply = types.CallToolResult | types.InputRequiredResult
_REPLY: Final[TypeAdapter[Any]] = TypeAdapter(Reply)
_MAX_PAGES: Final = 200
_MAX_NAMED: Final = 5
_MAX_OUTPUT: Final = 400

# What a server sends must not reach the terminal by way of the library's log.
for _name in ("mcp", "client"):
    logging.getLogger(_name).addHandler(logging.NullHandler())


class Connection:
    """A connection that is open until `close`, or until the server ends.

    The library's contexts must be left by the task that entered them: that is `_run`.
    """

    def __init__(
        self,
        target: Target,
        *,
        ask: ElicitationFnT,
        changed: Callable[[], None],
    ) -> None:
        self._target, self._settings, self._limits = target, target.settings, target.settings.limits
        self._ask, self._changed = ask, changed
        self._output = ServerOutput(self._limits.stderr_bytes)
        self._open, self._stop, self._listing = asyncio.Event(), asyncio.Event(), asyncio.Lock()
        self._unanswered: set[int | str] = set()
        self._page: list[Json] = []
        self._client: Client | None = None
        self._failure: ToolFailed | None = None
        self._loop = asyncio.get_running_loop()
        self._task = self._loop.create_task(self._run())

    @property
    def is_over(self) -> bool:
        """Whether the connection can no longer be used, also after a change of event loop."""
        return self._task.done() or self._stop.is_set() or not self._is_here()

    def _is_here(self) -> bool:
        try:
            return self._loop is asyncio.get_running_loop()
        except RuntimeError:
            return not self._loop.is_closed()

    @property
    def fault(self) -> str:
        """What the server did to end the connection; empty if nothing."""
        return self._output.fault

    @property
    def protocol(self) -> str:
        return self._client.protocol_version if self._client is not None else ""

    async def ready(self) -> None:
        """Waits until the server can be used; raises why it cannot."""
        await self._open.wait()
        if self._failure is not None:
            raise self._failure

    async def close(self) -> None:
        self._stop.set()
        if not self._open.is_set():
            self._task.cancel()
        if self._is_here():
            await asyncio.wait({self._task})

    async def tools(self) -> tuple[list[Json], list[str]]:
        """Returns the raw tool definitions, and notes on those left out."""
        client = self._open_client()
        if client.server_capabilities.tools is None:
            return [], [Sentence("it offers no tools")]
        raw, bad, most = list[Json](), list[str](), self._limits.tools
        cursor: str | None = None
        async with self._listing, asyncio.timeout(self._limits.list_s):
            for _ in range(_MAX_PAGES):
                params = types.PaginatedRequestParams(cursor=cursor)
                page = await client.session.list_tools(params=params)
                readable = [tool.name for tool in page.tools]
                for each in self._page:
                    name = each.get("name") if isinstance(each, dict) else None
                    if name in readable:
                        raw.append(each)
                    else:
                        bad.append(clip(repr(name), 80))
                cursor = page.next_cursor
                if cursor is None or len(raw) + len(bad) > most:
                    break
        if cursor is not None or len(raw) + len(bad) > most:
            raise ToolFailed(Sentence("it has more than {most} tools, or endless pages", most=most))
        if not bad:
            return raw, []
        names = ", ".join(bad[:_MAX_NAMED])
        return raw, [
            Sentence(
                "{count} of its tools do not follow the protocol: {names}",
                count=len(bad),
                names=names,
            )
        ]

    async def call(
        self,
        tool: str,
        arguments: dict[str, Any],
        *,
        delivery: Delivery,
        progress: ProgressFnT,
        responses: dict[str, Any] | None = None,
        state: str | None = None,
    ) -> Reply:
        """Makes one request; cancelling the caller also cancels it at the server."""
        session = self._open_client().session
        DELIVERY.set(delivery)
        if not self._settings.url:  # over HTTP the transport sees whether there is a connection
            delivery.sent = True
        params = types.CallToolRequestParams(
            name=tool, arguments=arguments, input_responses=responses, request_state=state
        )
        # Not `session.call_tool`: its check of results may take for ever on a hostile pattern.
        reply: Reply = await session.send_request(
            types.CallToolRequest(params=params), _REPLY, progress_callback=progress
        )
        return reply

    def reason(self, message: str) -> str:
        """Returns why something failed; quotes the last output of a server that has ended."""
        fault = self.fault or self._target.hide_secrets(safe(message))
        return f"{fault}{self._last_output() if self.is_over else ''}"

    def _last_output(self) -> str:
        text = safe(self._target.hide_secrets(self._output.last))[-_MAX_OUTPUT:]
        return Sentence("; it said: {text}", text=text) if text else ""

    def _open_client(self) -> Client:
        if self._client is None:
            raise ToolBusy(Sentence("the server is not connected"))
        return self._client

    async def _run(self) -> None:
        try:
            client = Client(
                cast("Any", self._observed()),
                mode=self._settings.protocol,
                cache=None,
                client_info=types.Implementation(name="plansmith", version=version("plansmith")),
                elicitation_callback=self._ask,
                message_handler=self._on_message,
            )
            async with asyncio.timeout(self._limits.start_s) as limit, client:
                limit.reschedule(None)
                self._client = client
                self._open.set()
                await self._until_over(client)
        except TimeoutError:
            seconds, more = f"{self._limits.start_s:g}", self._last_output()
            self._failure = ToolBusy(
                Sentence("it did not start within {seconds} s{more}", seconds=seconds, more=more)
            )
        except Exception as error:  # noqa: BLE001 - any failure goes to the waiting caller
            self._failure = self._as_failure(error)
        finally:
            self._failure = self._failure or ToolBusy(Sentence("the connection is over"))
            self._stop.set()
            self._open.set()

    async def _until_over(self, client: Client) -> None:
        tools = client.server_capabilities.tools
        is_modern = client.protocol_version in MODERN_PROTOCOL_VERSIONS
        news = asyncio.ensure_future(self._follow(client))
        if not (is_modern and tools is not None and tools.list_changed):
            news.cancel()
        try:
            await self._stop.wait()
        finally:
            news.cancel()
            await asyncio.wait({news})

    async def _follow(self, client: Client) -> None:
        """Subscribes to changes of the tool list, where the protocol requires it."""
        try:
            async with listen(client.session, tools_list_changed=True) as events:
                async for _ in events:
                    self._changed()
        except (MCPError, RuntimeError, TimeoutError):
            # Without news the list is only read again when it is old.
            self._changed()

    async def _on_message(self, message: object) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self._changed()

    def _as_failure(self, error: BaseException) -> ToolFailed:
        if self.fault:
            return ToolFailed(self.fault)
        while isinstance(error, BaseExceptionGroup):
            error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
        if isinstance(error, ToolFailed):
            return error
        why = f"{self._target.hide_secrets(safe(str(error)))}{self._last_output()}"
        if isinstance(error, (FileNotFoundError, PermissionError)):
            return ToolFailed(Sentence("its command cannot be started: {why}", why=why))
        if isinstance(error, ValidationError):
            return ToolFailed(Sentence("it does not follow the protocol"))
        is_passing = isinstance(error, (MCPError, OSError))
        return ToolBusy(why) if is_passing else ToolFailed(f"{type(error).__name__}: {why}")

    # All messages pass here: the client's own models drop unknown fields of definitions.

    @asynccontextmanager
    async def _observed(self) -> AsyncGenerator[tuple[_Observed, _Observed]]:
        transport = (
            web_transport(self._settings)
            if self._settings.url
            else stdio_transport(self._settings, self._output)
        )
        async with transport as (read, write):
            yield _Observed(read, self), _Observed(write, self)

    def end(self, why: str) -> None:
        """Ends the connection, since the server ended it or went beyond a limit."""
        self._output.fault = self._output.fault or why
        self._stop.set()

    def on_sent(self, message: object) -> None:
        if (
            isinstance(message, (types.JSONRPCResponse, types.JSONRPCError))
            and message.id is not None
        ):
            self._unanswered.discard(message.id)

    def on_receive(self, message: object) -> None:
        if isinstance(message, types.JSONRPCResponse):
            tools = message.result.get("tools") if self._listing.locked() else None
            if isinstance(tools, list):
                # The client gets only what it can read, so that one bad tool hides no other.
                self._page = cast("list[Json]", tools)[: self._limits.tools + 1]
                kept = [each for each in self._page if self._is_readable(message.result, each)]
                message.result["tools"] = kept
        elif isinstance(message, types.JSONRPCRequest):
            self._unanswered.add(message.id)
            most = self._limits.requests
            if len(self._unanswered) > most:
                self.end(Sentence("it asked more than {most} things at once", most=most))
                raise anyio.EndOfStream

    def _is_readable(self, page: dict[str, Any], tool: Json) -> bool:
        result = {**page, "tools": [tool]}
        try:
            with suppress(KeyError):
                validate_server_result("tools/list", self.protocol, result)
            types.ListToolsResult.model_validate(result, by_name=False)
        except ValidationError:
            return False
        return True


class _Observed:
    """A stream of a connection, which sees all messages that come or go."""

    def __init__(self, inner: Any, connection: Connection) -> None:
        self._inner, self._connection = inner, connection

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def receive(self) -> SessionMessage | Exception:
        try:
            each: SessionMessage | Exception = await self._inner.receive()
        except (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
            self._connection.end("")
            raise
        if isinstance(each, SessionMessage):
            self._connection.on_receive(each.message)
        return each

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def send(self, item: SessionMessage, /) -> None:
        await self._inner.send(item)
        self._connection.on_sent(item.message)
