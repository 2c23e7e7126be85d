"""Handles POST requests with the same Idempotency-Key once and repeats the response."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from starlette.responses import Response

from plansmith.plan.sentence import Sentence
from plansmith_server.errors import HttpProblem

# What is kept for all clients of a tenant; of whoever has the most, the oldest goes.
MOST_BYTES: Final = 16_000_000
_LARGEST: Final = 1_000_000
_ENTRY_BYTES: Final = 2_000
_LONGEST: Final = 200
_SECONDS: Final = 24 * 3600.0


@dataclass(slots=True)
class _StoredAnswer:
    digest: str
    at: float
    # Without a response if that was too large.
    future: asyncio.Future[tuple[int, bytes, dict[str, str]] | None]
    size: int = _ENTRY_BYTES


class Idempotency:
    """Keeps responses by key, for a day at most and no longer than the server runs."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._answers: dict[tuple[str, str], _StoredAnswer] = {}
        self._sizes: Counter[str] = Counter()  # by the client, with which a place begins

    @property
    def size(self) -> int:
        return self._sizes.total()

    async def once(
        self, key: str, place: str, body: bytes, handle: Callable[[], Awaitable[Response]]
    ) -> Response:
        """Returns the response of the first request with this key, or handles it now."""
        if len(key) > _LONGEST:
            why = Sentence("an Idempotency-Key has at most {count} characters", count=_LONGEST)
            raise HttpProblem(422, "invalid_input", why)
        digest = sha256(body).hexdigest()
        known = self._answers.get((place, key))
        if known is None or self._now() - known.at > _SECONDS:
            return await self._first((place, key), digest, handle)
        if known.digest != digest:
            why = Sentence("this Idempotency-Key was used with another body")
            hint = Sentence("use another Idempotency-Key for another request")
            raise HttpProblem(422, "key_reused", why, hint=hint)
        answer = await asyncio.shield(known.future)
        if answer is None:
            hint = Sentence("it was handled once; read what it changed")
            why = Sentence("the response was too large to be kept")
            raise HttpProblem(409, "handled", why, hint=hint)
        status, content, headers = answer
        return Response(content, status, {**headers, "Idempotency-Replayed": "true"})

    async def _first(
        self, name: tuple[str, str], digest: str, handle: Callable[[], Awaitable[Response]]
    ) -> Response:
        self._keep(name, _StoredAnswer(digest, self._now(), asyncio.Future()))
        future = self._answers[name].future
        try:
            response = await handle()
        except BaseException as error:
            # A failed request may be repeated with the same key.
            self._keep(name, None)
            future.set_exception(error)
            future.exception()
            raise
        kind, content = response.headers.get("content-type", ""), bytes(response.body)
        whole = response.status_code, content, {"content-type": kind}
        fits = len(content) <= _LARGEST
        future.set_result(whole if fits else None)
        size = _ENTRY_BYTES + (len(content) if fits else 0)
        self._keep(name, _StoredAnswer(digest, self._now(), future, size))
        return response

    def _keep(self, name: tuple[str, str], kept: _StoredAnswer | None) -> None:
        """Keeps an answer, or forgets it; of whoever has the most, the oldest goes."""
        before = self._answers.pop(name, None)
        client = name[0].partition(" ")[0]
        self._sizes[client] += (kept.size if kept else 0) - (before.size if before else 0)
        if kept is not None:
            self._answers[name] = kept
        if self.size > MOST_BYTES:
            [(most, _)] = self._sizes.most_common(1)
            done = (each for each, answer in self._answers.items() if answer.future.done())
            oldest = next((each for each in done if each[0].partition(" ")[0] == most), None)
            if oldest is not None:  # else all are under way
                self._keep(oldest, None)
