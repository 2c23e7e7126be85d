"""The event stream: what happens in all runs, with replay, and plans being drafted."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import partial
from typing import Final

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from plansmith.errors import PlansmithError
from plansmith.plan.data import Json
from plansmith.plan.events import Event
from plansmith.ports import News
from plansmith.server.auth import Auth
from plansmith.server.errors import HttpProblem
from plansmith.server.openapi import Answer, Ask
from plansmith.server.schemas import requests as b
from plansmith.server.state import ServerState

PING_S: Final = 15.0
MOST_STREAMS: Final = 200
_BATCH: Final = 500
_WAITING: Final = 100
_END: Final = ""
_HEADERS: Final = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


async def stream(ask: Ask, given: b.StreamQuery) -> Answer:
    """Server-sent events of one run or of all, from a position on or from now."""
    server_state = ask.server_state
    if given.run:
        await server_state.journal(given.run)
    after = given.after
    resumed = ask.header("last-event-id")
    if resumed.isascii() and resumed.isdigit():
        after = int(resumed[:18])
    keys: Auth = ask.request.app.state.keys
    allowed = partial(keys.is_good, ask.grant)
    body = _Stream(server_state, given.run, allowed, given.lang or ask.language).lines(after)
    return _Counted(server_state, body)


class _Counted(StreamingResponse):
    """A stream that counts from its first byte to its end; one too many is refused."""

    def __init__(self, server_state: ServerState, body: AsyncIterator[str]) -> None:
        super().__init__(body, media_type="text/event-stream", headers=_HEADERS)
        self._meters = server_state.meters

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream; nothing may come between the look at the count and its change."""
        if self._meters.streams >= MOST_STREAMS:
            hint = "close some pages"
            told = HttpProblem(503, "too_many_streams", "too many streams are open", hint=hint)
            await told.response()(scope, receive, send)
            return
        self._meters.streams += 1
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._meters.streams -= 1


class _Stream:
    """What one client is sent."""

    def __init__(
        self, server_state: ServerState, run: str, allowed: Callable[[], bool], language: str
    ) -> None:
        self._office = server_state
        self._language = language
        self._allowed = allowed
        self._store = server_state.smith.store
        self._run = run

    async def lines(self, after: int | None) -> AsyncIterator[str]:
        """First a snapshot, unless the client says where it was; then everything behind."""
        yield "retry: 1000\n\n"
        newest = await self._store.wait_news(-1)
        # A position of another store, or of one that was restored, is of no use here.
        if after is None or after > newest:
            after = newest
            yield _text("snapshot", await self._snapshot(after), at=after)
        async for text in self._follow(after):
            yield text

    async def _snapshot(self, position: int) -> dict[str, Json]:
        rows = await self._office.rows.open()
        mine = [each.row for each in rows if self._run in ("", each.row["id"])]
        return {"position": position, "runs": [*mine]}

    async def _follow(self, after: int) -> AsyncIterator[str]:
        """Whatever comes, from the journals and from drafts, until the server closes."""
        queue: asyncio.Queue[str] = asyncio.Queue(_WAITING)
        pumps = [
            asyncio.create_task(self._pump_news(after, queue)),
            asyncio.create_task(self._pump_drafts(queue)),
            asyncio.create_task(self._closed(queue)),
        ]
        try:
            while True:
                try:
                    async with asyncio.timeout(PING_S):
                        text = await queue.get()
                except TimeoutError:
                    text = ": ping\n\n"
                # A token that was taken back meanwhile hears no more, either.
                if text == _END or not self._allowed():
                    return
                yield text
        finally:
            for each in pumps:
                each.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)

    async def _pump_news(self, after: int, queue: asyncio.Queue[str]) -> None:
        try:
            while True:
                news = await self._store.news(after, limit=_BATCH)
                async for text in self._told(news):
                    await queue.put(text)
                after = news[-1].position if news else after
                if not news:
                    await self._store.wait_news(after)
        except PlansmithError as error:
            # The client comes back, and finds the store well again or is told why not.
            self._office.log.warning("stream_ended", error=str(error))
            await queue.put(_END)

    async def _pump_drafts(self, queue: asyncio.Queue[str]) -> None:
        with self._office.drafts.listening() as drafts:
            while True:
                draft = await drafts.get()
                if self._run in ("", draft["run"]):
                    await queue.put(_text("draft", draft))

    async def _closed(self, queue: asyncio.Queue[str]) -> None:
        await self._office.closing.wait()
        await queue.put(_END)

    async def _told(self, news: Sequence[News]) -> AsyncIterator[str]:
        mine = [each for each in news if self._run in ("", each.run)]
        found = await self._events(mine)
        for each in mine:
            event = found.get((each.run, each.number))
            if event is not None:  # a run that was removed meanwhile has none
                self._office.meters.events += 1
                data = event.shown_json(self._language) | {"position": each.position}
                yield _text("run_event", data, at=each.position)

    async def _events(self, news: Sequence[News]) -> Mapping[tuple[str, int], Event]:
        firsts: dict[str, int] = {}
        for each in news:
            firsts.setdefault(each.run, each.number)
        found: dict[tuple[str, int], Event] = {}
        for run, first in firsts.items():
            for event in await self._store.events(run, after=first - 1):
                found[run, event.number] = event
        return found


def _text(event: str, data: Mapping[str, Json], *, at: int | None = None) -> str:
    head = f"id: {at}\n" if at is not None else ""
    return f"{head}event: {event}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n"
