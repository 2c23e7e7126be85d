"""Handles POST requests with the same Idempotency-Key once and repeats the response."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from starlette.responses import Response

from plansmith.server.errors import HttpProblem

# What is kept for all clients of a tenant; of whoever has the most, the oldest goes.
MOST_BYTES: Final = 16_000_000
_LARGEST: Final = 1_000_000
_ENTRY_BYTES: Final = 2_000
_LONGEST: Final = 200
_SECONDS: Final = 24 * 3600.0
_Answer = tuple[int, bytes, dict[str, str]]
_Place = tuple[str, str, str]


@dataclass(slots=True)
class _StoredAnswer:
    digest: str
    at: float
    future: asyncio.Future[_Answer | None]
    size: int = _ENTRY_BYTES


class Idempotency:
    """Keeps responses by key, for a day at most and no longer than the server runs."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._answers: dict[_Place, _StoredAnswer] = {}
        self._bytes: Counter[str] = Counter()

    @property
    def bytes(self) -> int:
        """About how much memory the responses take."""
        return self._bytes.total()

    async def once(
        self, who: str, key: str, path: str, body: bytes, handle: Callable[[], Awaitable[Response]]
    ) -> Response:
        """Returns the response of a client's first request with this key, or handles it now."""
        if len(key) > _LONGEST:
            raise HttpProblem(
                422, "invalid_input", f"an Idempotency-Key has at most {_LONGEST} characters"
            )
        place, digest = (who, path[:1000], key), sha256(body).hexdigest()
        known = self._answers.get(place)
        if known is None or self._now() - known.at > _SECONDS:
            return await self._first(place, digest, handle)
        if known.digest != digest:
            hint = "use another Idempotency-Key for another request"
            raise HttpProblem(
                422, "key_reused", "this Idempotency-Key was used with another body", hint=hint
            )
        answer = await asyncio.shield(known.future)
        if answer is None:
            hint = "it was handled once; read what it changed"
            raise HttpProblem(409, "handled", "the response was too large to be kept", hint=hint)
        status, content, headers = answer
        return Response(content, status, {**headers, "Idempotency-Replayed": "true"})

    async def _first(
        self, place: _Place, digest: str, handle: Callable[[], Awaitable[Response]]
    ) -> Response:
        self._forget(place)
        future: asyncio.Future[_Answer | None] = asyncio.get_running_loop().create_future()
        kept = self._answers[place] = _StoredAnswer(digest, self._now(), future)
        self._bytes[place[0]] += kept.size
        try:
            response = await handle()
        except BaseException as error:
            # A failed request may be repeated with the same key.
            self._forget(place)
            future.set_exception(error)
            future.exception()
            raise
        kind, content = response.headers.get("content-type", ""), bytes(response.body)
        fits = len(content) <= _LARGEST and self._answers.get(place) is kept
        future.set_result((response.status_code, content, {"content-type": kind}) if fits else None)
        kept.size += len(content) if fits else 0
        self._bytes[place[0]] += len(content) if fits else 0
        self._make_room()
        return response

    def _make_room(self) -> None:
        while self.bytes > MOST_BYTES:
            [(most, _)] = self._bytes.most_common(1)
            done = (each for each, kept in self._answers.items() if kept.future.done())
            oldest = next((each for each in done if each[0] == most), None)
            if oldest is None:
                return  # all are under way, and no more than there are connections
            self._forget(oldest)

    def _forget(self, place: _Place) -> None:
        kept = self._answers.pop(place, None)
        if kept is not None:
            self._bytes[place[0]] -= kept.size
            self._bytes += Counter()  # drops those who have nothing left
