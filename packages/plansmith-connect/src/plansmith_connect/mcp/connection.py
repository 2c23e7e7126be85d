"""One connection to an MCP server, opened and closed by its own task."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from importlib.metadata import version
from typing import Any, Final, cast

from mcp import Client
from mcp.client.subscriptions import listen
from mcp.shared.dispatcher import ProgressFnT
from mcp.shared.exceptions import MCPError
from mcp_types import (
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    ElicitRequestParams,
    ElicitResult,
    ErrorData,
    Implementation,
    InputRequiredResult,
    PaginatedRequestParams,
    ToolListChangedNotification,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import TypeAdapter, ValidationError

from plansmith.errors import ToolBusy, ToolFailed
from plansmith.plan.data import Json
from plansmith.plan.sentence import Sentence
from plansmith.text import clip, safe
from plansmith_connect.mcp.delivery import DELIVERY, Delivery
from plansmith_connect.mcp.launch import Target
from plansmith_connect.mcp.settings import ServerLimits
from plansmith_connect.mcp.tap import Tap, tapped
from plansmith_connect.mcp.transports import ServerOutput, copied_transport, web_transport

Ask = Callable[[ElicitRequestParams], Awaitable[ElicitResult | ErrorData]]
_REPLY: Final[TypeAdapter[Any]] = TypeAdapter(CallToolResult | InputRequiredResult)
_MOST_PAGES: Final = 200
_MOST_NAMED: Final = 5
_MOST_OUTPUT: Final = 400

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
        limits: ServerLimits,
        mode: str,
        ask: Ask,
        changed: Callable[[], None],
    ) -> None:
        self._target, self._limits, self._mode = target, limits, mode
        self._ask, self._changed = ask, changed
        self._output = ServerOutput(limits.stderr_bytes)
        self._tap = Tap(
            most_requests=limits.requests,
            most_tools=limits.tools,
            ended=self._has_ended,
            version=lambda: self.protocol,
        )
        self._open, self._stop, self._listing = asyncio.Event(), asyncio.Event(), asyncio.Lock()
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
        """The protocol revision in use."""
        return self._client.protocol_version if self._client is not None else ""

    async def ready(self) -> None:
        """Waits until the server can be used; raises why it cannot."""
        await self._open.wait()
        if self._failure is not None:
            raise self._failure

    async def close(self) -> None:
        """Closes the connection."""
        self._stop.set()
        if not self._open.is_set():
            self._task.cancel()
        if self._is_here():
            await asyncio.wait({self._task})

    async def tools(self) -> tuple[list[Json], list[str]]:
        """Returns the raw tool definitions, and notes on those left out."""
        client = self._used()
        if client.server_capabilities.tools is None:
            return [], [Sentence("it offers no tools")]
        raw, bad, most = list[Json](), list[Json](), self._limits.tools
        cursor: str | None = None
        async with self._listing, asyncio.timeout(self._limits.list_s):
            for _ in range(_MOST_PAGES):
                params = PaginatedRequestParams(cursor=cursor)
                page = await client.session.list_tools(params=params)
                readable = {tool.name for tool in page.tools}
                for each in self._tap.page:
                    (raw if _name_of(each) in readable else bad).append(each)
                cursor = page.next_cursor
                if cursor is None or len(raw) + len(bad) > most:
                    break
        if cursor is not None or len(raw) + len(bad) > most:
            raise ToolFailed(Sentence("it has more than {most} tools, or endless pages", most=most))
        return raw, _unreadable(bad)

    async def call(
        self,
        tool: str,
        arguments: dict[str, Any],
        *,
        delivery: Delivery,
        progress: ProgressFnT,
        responses: dict[str, Any] | None = None,
        state: str | None = None,
    ) -> CallToolResult | InputRequiredResult:
        """Makes one request; cancelling the caller also cancels it at the server."""
        session = self._used().session
        DELIVERY.set(delivery)
        if not self._target.url:  # over HTTP the transport sees whether there is a connection
            delivery.sent = True
        params = CallToolRequestParams(
            name=tool, arguments=arguments, input_responses=responses, request_state=state
        )
        # Not `session.call_tool`: its check of results may take for ever on a hostile pattern.
        reply: CallToolResult | InputRequiredResult = await session.send_request(
            CallToolRequest(params=params), _REPLY, progress_callback=progress
        )
        return reply

    def last_words(self) -> str:
        """Returns the server's last output outside the protocol, for an error message."""
        text = safe(self._target.hush(self._output.last))
        return (
            Sentence("; it said: {text}", text=clip(text[-_MOST_OUTPUT:], _MOST_OUTPUT))
            if text
            else ""
        )

    def _used(self) -> Client:
        if self._client is None:
            raise ToolBusy(Sentence("the server is not connected"))
        return self._client

    async def _run(self) -> None:
        try:
            async with asyncio.timeout(self._limits.start_s) as limit, self._connect() as client:
                limit.reschedule(None)
                self._client = client
                self._open.set()
                await self._until_over(client)
        except TimeoutError:
            late = Sentence(
                "it did not start within {seconds} s{more}",
                seconds=f"{self._limits.start_s:g}",
                more=self.last_words(),
            )
            self._failure = ToolBusy(late)
        except Exception as error:  # noqa: BLE001 - any failure goes to the waiting caller
            self._failure = self._as_failure(error)
        finally:
            self._failure = self._failure or ToolBusy(Sentence("the connection is over"))
            self._stop.set()
            self._open.set()

    def _connect(self) -> Client:
        transport: AbstractAsyncContextManager[Any] = (
            web_transport(self._target, limits=self._limits)
            if self._target.url
            else copied_transport(self._target, limits=self._limits, output=self._output)
        )
        return Client(
            cast("Any", tapped(transport, self._tap)),
            mode=self._mode,
            cache=None,
            client_info=Implementation(name="plansmith", version=version("plansmith")),
            elicitation_callback=self._elicit,
            message_handler=self._on_message,
        )

    async def _until_over(self, client: Client) -> None:
        tools = client.server_capabilities.tools
        modern = client.protocol_version in MODERN_PROTOCOL_VERSIONS
        news = asyncio.ensure_future(self._follow(client))
        if not (modern and tools is not None and tools.list_changed):
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

    async def _elicit(
        self, context: object, params: ElicitRequestParams
    ) -> ElicitResult | ErrorData:
        del context
        return await self._ask(params)

    async def _on_message(self, message: object) -> None:
        if isinstance(message, ToolListChangedNotification):
            self._changed()

    def _has_ended(self, why: str) -> None:
        self._output.fault = self._output.fault or why
        self._stop.set()

    def _as_failure(self, error: Exception) -> ToolFailed:
        if self._output.fault:
            return ToolFailed(self._output.fault)
        cause = next(_leaves(error))
        if isinstance(cause, ToolFailed):
            return cause
        why = f"{self._target.hush(safe(str(cause)))}{self.last_words()}"
        if isinstance(cause, (FileNotFoundError, PermissionError)):
            return ToolFailed(Sentence("its command cannot be started: {why}", why=why))
        if isinstance(cause, ValidationError):
            return ToolFailed(Sentence("it does not follow the protocol"))
        passing = isinstance(cause, (MCPError, OSError))
        return ToolBusy(why) if passing else ToolFailed(f"{type(cause).__name__}: {why}")


def _unreadable(bad: list[Json]) -> list[str]:
    if not bad:
        return []
    names = ", ".join(clip(repr(_name_of(each)), 80) for each in bad[:_MOST_NAMED])
    return [
        Sentence(
            "{count} of its tools do not follow the protocol: {names}", count=len(bad), names=names
        )
    ]


def _name_of(raw: Json) -> Json:
    return raw.get("name") if isinstance(raw, dict) else None


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for each in cast("BaseExceptionGroup[BaseException]", error).exceptions:
            yield from _leaves(each)
    else:
        yield error
