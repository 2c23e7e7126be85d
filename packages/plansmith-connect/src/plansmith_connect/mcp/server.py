"""One MCP server: starts it when it is first needed, lists its tools and calls them."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any, Final

import mcp_types as types
from mcp.shared.dispatcher import ProgressFnT
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from plansmith.errors import PlansmithError, ToolBusy, ToolFailed, failure_of_call
from plansmith.plan.capability import Effect
from plansmith.plan.data import Json
from plansmith.plan.sentence import Sentence
from plansmith.ports import Call
from plansmith.text import clip, safe
from plansmith_connect.mcp.connection import Connection, Reply
from plansmith_connect.mcp.delivery import Delivery
from plansmith_connect.mcp.launch import Target
from plansmith_connect.mcp.listing import Listed, Listing, read_listing
from plansmith_connect.mcp.questions import (
    Exchange,
    Question,
    input_needed,
    pages_of,
    questions_of,
    refusal,
    take_answer,
)
from plansmith_connect.mcp.results import call_failure, result_json

_STATE_WAIT_S: Final = 0.2
_MAX_PROGRESS: Final = 300


@dataclass(frozen=True, slots=True)
class Request:
    """A call of a tool at the server, and how often the server has asked so far."""

    listed: Listed
    arguments: dict[str, Any]
    call: Call
    delivery: Delivery
    responses: dict[str, Any] | None = None
    state: str | None = None
    rounds: int = 0


class McpServer:
    """One server. Remembers a failure to start or list for a while."""

    def __init__(self, name: str, target: Target) -> None:
        self.name = name
        self._target, self._limits = target, target.settings.limits
        self._connection: Connection | None = None
        self._listing: Listing | None = None
        self._listed_at = 0.0
        self._changes = 0
        self._next_turn = 0.0
        self._failure: tuple[float, ToolFailed] | None = None
        self._exchanges: dict[Exchange, None] = {}
        self._parked: dict[str, Exchange] = {}

    @property
    def is_running(self) -> bool:
        return self._connection is not None and not self._connection.is_over

    @property
    def protocol(self) -> str:
        return self._connection.protocol if self._connection is not None else ""

    async def close(self) -> None:
        """Stops the server; running calls fail."""
        parked, self._parked = self._parked, {}
        for exchange in parked.values():
            await self._drop(exchange)
        if self._connection is not None:
            await self._connection.close()

    async def listing(self, *, again: bool) -> Listing:
        """Returns the tools; reads them again after a restart, a change, or a while.

        Without `again`, a server that failed a moment ago is not tried again.
        """
        if not again and self._failure is not None and not self.is_running:
            since, failure = self._failure
            if time.monotonic() - since < self._limits.retry_s:
                raise failure
        try:
            connection = await self._connected()
            listing, age = self._listing, time.monotonic() - self._listed_at
            if listing is None or age > self._limits.fresh_s:
                before = self._changes
                listing = await self._read(connection)
                # What changed while it was read is read again next time.
                if self._changes == before:
                    self._listing, self._listed_at = listing, time.monotonic()
        except ToolFailed as failure:
            self._failure = (time.monotonic(), failure)
            raise
        self._failure = None
        return listing

    async def _connected(self) -> Connection:
        connection = self._connection
        if connection is None or connection.is_over:
            self._forget_listing()
            self._exchanges.clear()
            connection = self._connection = Connection(
                self._target, ask=self._ask, changed=self._forget_listing
            )
        try:
            await connection.ready()
        except ToolFailed as failure:
            why = Sentence("{name} did not start: {why}", name=safe(self.name), why=failure.message)
            raise type(failure)(why) from None
        return connection

    def _forget_listing(self) -> None:
        self._listing = None
        self._changes += 1

    async def _read(self, connection: Connection) -> Listing:
        name = safe(self.name)
        try:
            raw, notes = await connection.tools()
        except TimeoutError:
            seconds = f"{self._limits.list_s:g}"
            late = Sentence(
                "{name} did not list its tools within {seconds} s", name=name, seconds=seconds
            )
            raise ToolBusy(late) from None
        except ValidationError:
            why = Sentence("the tool list of {name} is not readable", name=name)
            raise ToolFailed(why) from None
        except ToolFailed as failure:
            raise type(failure)(f"{name}: {failure.message}") from None
        except MCPError as error:
            reason = connection.reason(error.message)
            why = Sentence("{name} did not list its tools: {why}", name=name, why=reason)
            raise ToolBusy(why) from None
        listing = read_listing(self.name, self._target.settings, raw)
        own_notes = (f"{self.name}: {note}" for note in notes)
        return Listing(listing.tools, (*own_notes, *listing.notes))

    async def call(
        self, listed: Listed, arguments: Mapping[str, Json], call: Call, delivery: Delivery
    ) -> Json:
        """Returns the tool's result; with a reply, continues the call that asked.

        Only a call that was not sent was certainly not made: `delivery` tells.
        """
        name, request = listed.spec.name, Request(listed, dict(arguments), call, delivery)
        try:
            if call.reply is None:
                return await self._begin(request)
            state, answer = call.reply.state, call.reply.answer
            if isinstance(state, dict) and "token" in state:
                return await self._continue(request, str(state["token"]), answer)
            return await self._begin(replace(request, **take_answer(self.name, state, answer)))
        except ToolFailed as failure:
            is_named = name in failure.message
            message = failure.message if is_named else f"{name}: {failure.message}"
            raise failure_of_call(failure, sent=delivery.sent, message=message) from None

    async def _begin(self, request: Request) -> Json:
        if self._limits.calls_per_second is not None:
            now = time.monotonic()
            start, self._next_turn = self._next_turn, max(now, self._next_turn)
            self._next_turn += 1 / self._limits.calls_per_second
            await asyncio.sleep(start - now)
        connection = await self._connected()
        exchange = Exchange(
            lambda exchange: connection.call(
                request.listed.wire,
                request.arguments,
                delivery=request.delivery,
                progress=self._progress_reporter(exchange),
                responses=request.responses,
                state=request.state,
            ),
            progress=request.call.progress,
            most=self._limits.questions,
        )
        self._exchanges[exchange] = None
        return await self._finish(request, exchange, connection)

    async def _finish(self, request: Request, exchange: Exchange, connection: Connection) -> Json:
        outcome = await self._next(request, exchange, connection)
        if isinstance(outcome, Question):
            token = secrets.token_hex(16)
            try:
                asked = input_needed(self.name, outcome.asked, {"token": token})
            except ToolFailed:  # it cannot be put to the person
                await self._drop(exchange)
                raise
            self._parked[token] = exchange
            exchange.expiry = asyncio.ensure_future(self._expire(token))
            raise asked
        if isinstance(outcome, types.InputRequiredResult):
            return await self._asked_again(request, outcome)
        has_schema = request.listed.spec.output_schema is not None
        most, note = self._limits.binary_bytes, request.call.progress
        try:
            return result_json(outcome, has_schema=has_schema, binary_bytes=most, note=note)
        except ToolFailed as failure:
            raise ToolFailed(self._target.hide_secrets(failure.message)) from None

    async def _next(
        self, request: Request, exchange: Exchange, connection: Connection
    ) -> Reply | Question:
        spec, seconds = request.listed.spec, request.listed.spec.timeout_s or self._limits.call_s
        outcome: Reply | Question | None = None
        try:
            outcome = await exchange.next(seconds)
        except TimeoutError:
            why = Sentence("no answer from its server for {seconds} s", seconds=f"{seconds:g}")
            raise ToolBusy(
                Sentence("{name} gave no result: {why}", name=spec.name, why=why)
            ) from None
        except ValidationError:
            why = Sentence(
                "{name} was called, and its reply does not follow the protocol", name=spec.name
            )
            raise ToolFailed(why) from None
        except MCPError as error:
            raise await self._failed(request, connection, error) from None
        else:
            return outcome
        finally:
            if not isinstance(outcome, Question):
                await self._drop(exchange)
            if exchange.fault:
                # One who does not stop asking would go on in the next call.
                await connection.close()

    async def _drop(self, exchange: Exchange) -> None:
        self._exchanges.pop(exchange, None)
        await exchange.drop()

    async def _failed(
        self, request: Request, connection: Connection, error: MCPError
    ) -> PlansmithError:
        if error.code == types.URL_ELICITATION_REQUIRED:
            return pages_of(
                self.name, error, rounds=self._rounds(request), most=self._limits.questions
            )
        if request.delivery.status == HTTPStatus.NOT_FOUND:  # the server has ended our session
            await connection.close()
        self._forget_listing()
        message = connection.reason(str(error))
        failure = call_failure(error, request.listed.spec.name, request.delivery, message=message)
        # A server that went beyond a limit would do so again.
        return ToolFailed(failure.message, hint=failure.hint) if connection.fault else failure

    async def _asked_again(self, request: Request, result: types.InputRequiredResult) -> Json:
        """Handles a question of a server of 2026: raises it, or retries a little later."""
        rounds, most = self._rounds(request), self._limits.questions
        if result.input_requests:
            raise questions_of(self.name, result, rounds=rounds, most=most)
        await asyncio.sleep(_STATE_WAIT_S)
        again = replace(request, state=result.request_state, responses=None, rounds=rounds)
        return await self._begin(again)

    def _rounds(self, request: Request) -> int:
        most = self._limits.questions
        if request.rounds >= most:
            raise ToolFailed(Sentence("it asked more than {most} times", most=most))
        return request.rounds + 1

    # Servers before 2026 wait for the answer in the middle of the call: it stays in memory.

    async def _ask(
        self, context: object, params: types.ElicitRequestParams
    ) -> types.ElicitResult | types.ErrorData:
        del context
        free = [each for each in self._exchanges if not each.open] or [*self._exchanges]
        return await free[0].ask(params) if free else refusal("no call is being made")

    async def _expire(self, token: str) -> None:
        await asyncio.sleep(self._limits.answer_s)
        exchange = self._parked.pop(token, None)
        if exchange is not None:
            exchange.expiry = None
            await self._drop(exchange)

    async def _continue(self, request: Request, token: str, answer: Json) -> Json:
        exchange, connection = self._parked.get(token), self._connection
        if exchange is None or connection is None or connection.is_over:
            self._parked.pop(token, None)
            gone, spec = "its server no longer waits for the answer", request.listed.spec
            if spec.effect is not Effect.READ and not spec.idempotent:
                raise ToolFailed(gone)
            request.call.progress(f"{gone}: the call is made again")
            return await self._begin(request)
        exchange.answer(answer)
        del self._parked[token]
        exchange.go_on(request.call.progress)
        return await self._finish(request, exchange, connection)

    def _progress_reporter(self, exchange: Exchange) -> ProgressFnT:
        count = 0

        async def report(progress: float, total: float | None, message: str | None) -> None:
            nonlocal count
            count += 1
            if count > self._limits.progress:
                return
            share = f"{progress:g} of {total:g}" if total else f"{progress:g}"
            text = (
                clip(safe(self._target.hide_secrets(message)), _MAX_PROGRESS) if message else share
            )
            last = " (what follows is not shown)" if count == self._limits.progress else ""
            exchange.progress(f"{text}{last}")

        return report
