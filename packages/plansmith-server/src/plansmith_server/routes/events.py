"""Routes of the event stream, and of the values that its events tell of."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from pydantic import BaseModel
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from plansmith.errors import PlansmithError
from plansmith.plan import events as e
from plansmith.plan.data import Json, json_text
from plansmith.plan.sentence import Sentence
from plansmith_server import bodies as b
from plansmith_server.api import Answer, Ask, route
from plansmith_server.errors import HttpProblem
from plansmith_server.news import follow_news
from plansmith_server.ops.metrics import Metrics
from plansmith_server.ops.tasks import background_tasks
from plansmith_server.state import ServerState
from plansmith_server.team.auth import Auth
from plansmith_server.views import JsonObject, step_view

PING_S: Final = 15.0
MAX_STREAMS: Final = 200
_WAITING: Final = 4
_END: Final = ""
_CHANGES: Final = (e.StepStarted, e.StepDone, e.StepReused, e.StepFailed, e.StepSkipped)
_VALUES: Final = ("inputs", "result", "result_hash", "result_size", "clipped")
_HEADERS: Final = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


class ChangedValues(BaseModel):
    """Inputs and results by step, and the number of the last event that they are of."""

    last: int
    steps: dict[str, dict[str, Json]]


@route("GET /v1/runs/{id}/values", "look", answer=ChangedValues)
async def values(ask: Ask, *, after: b.Number = 0) -> Answer:
    """Returns the inputs and results of the steps that changed after an event."""
    store, journal = ask.smith.store, await ask.runs.journals.load_cached(ask.run)
    bodies = [each.body for each in journal.events[after:]]
    changed = {each.step for each in bodies if isinstance(each, _CHANGES)}
    states = {name: each for name, each in journal.run.steps.items() if name in changed}
    digests = [each for step in states.values() for each in (step.inputs, step.result_hash) if each]
    known = dict(zip(digests, await asyncio.gather(*map(store.get, digests)), strict=True))
    found = {
        name: step_view(step, known.get(step.result_hash), known.get(step.inputs))
        for name, step in states.items()
    }
    steps = {name: {each: view[each] for each in _VALUES} for name, view in found.items()}
    return {"last": max(after, journal.last), "steps": steps}


@route("GET /v1/events", "look", media="text/event-stream")
async def stream(
    ask: Ask,
    *,
    run: b.Text = "",
    after: b.Number | None = None,
    lang: b.Text = "",
    brief: bool = False,
) -> Answer:
    """Streams the events of one run or of all, from a position or from now on.

    `lang` counts instead of Accept-Language; `brief` leaves the open runs out of the snapshot.
    """
    if run:
        await ask.state.journal(run)
    resumed = ask.header("last-event-id")
    if resumed.isascii() and resumed.isdigit():
        after = int(resumed[:18])
    auth: Auth = ask.request.app.state.auth
    allowed = partial(auth.is_good, ask.grant)
    source = _Stream(ask.state, run, allowed, lang or ask.language, brief)
    return _CountedStream(ask.state.metrics, source.lines(after))


class _CountedStream(StreamingResponse):
    def __init__(self, metrics: Metrics, body: AsyncIterator[str]) -> None:
        super().__init__(body, media_type="text/event-stream", headers=_HEADERS)
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends the stream; must not await between reading the count and changing it."""
        if self._metrics.streams >= MAX_STREAMS:
            why, hint = Sentence("too many streams are open"), Sentence("close some pages")
            problem = HttpProblem(503, "too_many_streams", why, hint=hint)
            await problem.response()(scope, receive, send)
            return
        self._metrics.streams += 1
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._metrics.streams -= 1


@dataclass(slots=True)
class _Stream:
    state: ServerState
    run: str
    allowed: Callable[[], bool]
    language: str
    brief: bool
    queue: asyncio.Queue[str] = field(default_factory=lambda: asyncio.Queue[str](_WAITING))

    async def lines(self, after: int | None) -> AsyncIterator[str]:
        """Yields a snapshot, unless the client names its position, and then every later event."""
        yield "retry: 1000\n\n"
        newest = await self.state.smith.store.wait_news(-1)
        # A larger position comes from another store, or from before a restore.
        if after is None or after > newest:
            after, snapshot = newest, dict[str, Any](position=newest)
            if not self.brief:
                rows = [each.row for each in await self.state.open_runs.all()]
                snapshot["runs"] = [each for each in rows if self.run in ("", each["id"])]
            yield _text("snapshot", snapshot, at=after)
        works = [self._news(after), self._closed()]
        works.append(self._rows("draft", self.state.drafts.listening()))
        if not self.run:
            works.append(self._rows("conversation", self.state.conversations.listening()))
        async with background_tasks(*works):
            while True:
                try:
                    async with asyncio.timeout(PING_S):
                        text = await self.queue.get()
                except TimeoutError:
                    text = ": ping\n\n"
                # The token may have been revoked meanwhile.
                if text == _END or not self.allowed():
                    return
                yield text

    async def _news(self, after: int) -> None:
        store, reader = self.state.smith.store, self.state.events
        try:
            async for news in follow_news(store, self.state.clock, after, limit=100):
                mine = [each for each in news if self.run in ("", each.run)]
                for each, event in (await reader.read(mine)).items():
                    self.state.metrics.events += 1
                    text = reader.text(event, each.position, self.language)
                    await self.queue.put(f"id: {each.position}\nevent: run_event\ndata: {text}\n\n")
        except PlansmithError as error:
            # The client reconnects, and then gets events again or an error.
            self.state.log.warning("stream_ended", error=str(error))
            await self.queue.put(_END)

    async def _rows(
        self, event: str, listening: AbstractContextManager[asyncio.Queue[JsonObject]]
    ) -> None:
        with listening as rows:
            while True:
                row = await rows.get()
                if self.run in ("", row.get("run")):
                    await self.queue.put(_text(event, row))

    async def _closed(self) -> None:
        await self.state.closing.wait()
        await self.queue.put(_END)


def _text(event: str, data: Mapping[str, Any], *, at: int | None = None) -> str:
    head = f"id: {at}\n" if at is not None else ""
    return f"{head}event: {event}\ndata: {json_text(data)}\n\n"
