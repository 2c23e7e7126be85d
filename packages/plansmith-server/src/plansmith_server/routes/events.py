"""Routes of the event stream, and of the values that its events tell of."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import partial
from typing import Final

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from plansmith.errors import PlansmithError, StoreAway
from plansmith.plan import events as e
from plansmith.plan.data import Json, json_text, stored_json
from plansmith.ports import JournalStore, News
from plansmith_server.errors import HttpProblem
from plansmith_server.openapi import Answer, Ask
from plansmith_server.schemas import requests as b
from plansmith_server.serialize import CLIP, clip
from plansmith_server.state import ServerState
from plansmith_server.team.auth import Auth

PING_S: Final = 15.0
MOST_STREAMS: Final = 200
_BATCH: Final = 100
_WAITING: Final = 4
_END: Final = ""
_AWAY_S: Final = 0.5
_HEADERS: Final = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


async def stream(ask: Ask, given: b.StreamQuery) -> Answer:
    """Streams the events of one run or of all, from a position or from now on."""
    server_state = ask.server_state
    if given.run:
        await server_state.journal(given.run)
    after = given.after
    resumed = ask.header("last-event-id")
    if resumed.isascii() and resumed.isdigit():
        after = int(resumed[:18])
    auth: Auth = ask.request.app.state.auth
    allowed = partial(auth.is_good, ask.grant)
    language = given.lang or ask.language
    source = _Stream(server_state, given.run, allowed, language, brief=given.brief)
    return _CountedStream(server_state, source.lines(after))


async def values(ask: Ask, given: b.AfterQuery) -> Answer:
    """Returns the inputs and results that events after a number tell of."""
    store = ask.server_state.smith.store
    events = await store.events(ask.run, after=given.after)
    if not events:
        await ask.server_state.journal(ask.run)  # 404 if there is no such run
    last = events[-1].number if events else given.after
    return {"last": last, "steps": await _changed(store, events)}


async def _changed(store: JournalStore, events: Sequence[e.Event]) -> dict[str, Json]:
    """Returns what the events tell of each step: the inputs of its call, and its result."""
    inputs: dict[str, str] = {}
    results: dict[str, str] = {}
    for event in events:
        match event.body:
            case e.StepStarted(step=step, inputs=digest):
                inputs[step] = digest
                results.pop(step, None)
            case (
                e.StepDone(step=step, result=digest)
                | e.StepReused(step=step, result=digest)
                | e.StepFailed(step=step, result=digest)
                | e.StepSkipped(step=step, result=digest)
            ):
                results[step] = digest
            case _:
                pass
    wanted = sorted({each for each in (*inputs.values(), *results.values()) if each})
    values = dict(zip(wanted, await asyncio.gather(*map(store.get, wanted)), strict=True))
    found: dict[str, dict[str, Json]] = {}
    for step, digest in inputs.items():
        found[step] = {"inputs": clip(values.get(digest), CLIP), "result_hash": ""}
    for step, digest in results.items():
        found[step] = found.get(step, {}) | _result(digest, values.get(digest))
    return {**found}


def _result(digest: str, value: Json) -> dict[str, Json]:
    """Returns a result as `serialize.step_view` does."""
    if not digest:
        return {"result_hash": ""}
    size = len(stored_json(value))
    return {
        "result": clip(value, CLIP),
        "result_hash": digest,
        "result_size": size,
        "clipped": size > CLIP,
    }


class _CountedStream(StreamingResponse):
    """Counts the open streams and refuses one too many."""

    def __init__(self, server_state: ServerState, body: AsyncIterator[str]) -> None:
        super().__init__(body, media_type="text/event-stream", headers=_HEADERS)
        self._metrics = server_state.metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends the stream; must not await between reading the count and changing it."""
        if self._metrics.streams >= MOST_STREAMS:
            hint = "close some pages"
            problem = HttpProblem(503, "too_many_streams", "too many streams are open", hint=hint)
            await problem.response()(scope, receive, send)
            return
        self._metrics.streams += 1
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._metrics.streams -= 1


class _Stream:
    """Makes the events that one client receives."""

    def __init__(
        self,
        server_state: ServerState,
        run: str,
        allowed: Callable[[], bool],
        language: str,
        *,
        brief: bool,
    ) -> None:
        self._state = server_state
        self._brief = brief
        self._language = language
        self._allowed = allowed
        self._store = server_state.smith.store
        self._run = run

    async def lines(self, after: int | None) -> AsyncIterator[str]:
        """Yields a snapshot, unless the client names its position, and then every later event."""
        yield "retry: 1000\n\n"
        newest = await self._store.wait_news(-1)
        # A larger position comes from another store, or from before a restore.
        if after is None or after > newest:
            after = newest
            yield _text("snapshot", await self._snapshot(after), at=after)
        async for text in self._follow(after):
            yield text

    async def _snapshot(self, position: int) -> dict[str, Json]:
        if self._brief:
            return {"position": position}
        rows = await self._state.open_runs.all()
        mine = [each.row for each in rows if self._run in ("", each.row["id"])]
        return {"position": position, "runs": [*mine]}

    async def _follow(self, after: int) -> AsyncIterator[str]:
        """Yields events of journals and drafts until the server closes."""
        queue: asyncio.Queue[str] = asyncio.Queue(_WAITING)
        pumps = [
            asyncio.create_task(self._pump_news(after, queue)),
            asyncio.create_task(self._pump_drafts(queue)),
            asyncio.create_task(self._pump_conversations(queue)),
            asyncio.create_task(self._closed(queue)),
        ]
        try:
            while True:
                try:
                    async with asyncio.timeout(PING_S):
                        text = await queue.get()
                except TimeoutError:
                    text = ": ping\n\n"
                # The token may have been revoked meanwhile.
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
                try:
                    news = await self._store.news(after, limit=_BATCH)
                    if not news:
                        await self._store.wait_news(after)
                except StoreAway:
                    await self._state.smith.runs.journals.clock.sleep(_AWAY_S)
                    continue
                async for text in self._event_texts(news):
                    await queue.put(text)
                after = news[-1].position if news else after
        except PlansmithError as error:
            # The client reconnects, and then gets events again or an error.
            self._state.log.warning("stream_ended", error=str(error))
            await queue.put(_END)

    async def _pump_drafts(self, queue: asyncio.Queue[str]) -> None:
        with self._state.drafts.listening() as drafts:
            while True:
                draft = await drafts.get()
                if self._run in ("", draft["run"]):
                    await queue.put(_text("draft", draft))

    async def _pump_conversations(self, queue: asyncio.Queue[str]) -> None:
        if self._run:
            return
        with self._state.conversations.listening() as changed:
            while True:
                await queue.put(_text("conversation", await changed.get()))

    async def _closed(self, queue: asyncio.Queue[str]) -> None:
        await self._state.closing.wait()
        await queue.put(_END)

    async def _event_texts(self, news: Sequence[News]) -> AsyncIterator[str]:
        mine = [each for each in news if self._run in ("", each.run)]
        reader = self._state.events
        for each, event in (await reader.read(mine)).items():
            self._state.metrics.events += 1
            text = reader.text(event, each.position, self._language)
            yield f"id: {each.position}\nevent: run_event\ndata: {text}\n\n"


def _text(event: str, data: Mapping[str, Json], *, at: int | None = None) -> str:
    head = f"id: {at}\n" if at is not None else ""
    return f"{head}event: {event}\ndata: {json_text(data)}\n\n"
