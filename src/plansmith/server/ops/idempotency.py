"""Handles POST requests with the same Idempotency-Key once and repeats the response."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from starlette.responses import Response

from plansmith.server.errors import HttpProblem

_KEPT: Final = 10_000
_LONGEST: Final = 200
_SECONDS: Final = 24 * 3600.0


@dataclass(frozen=True, slots=True)
class _StoredAnswer:
    digest: str
    at: float
    future: asyncio.Future[tuple[int, bytes, dict[str, str]]]


class Idempotency:
    """Keeps responses by key, for a day and no longer than the server runs."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._answers: OrderedDict[tuple[str, str], _StoredAnswer] = OrderedDict()

    async def once(
        self, key: str, place: str, body: bytes, handle: Callable[[], Awaitable[Response]]
    ) -> Response:
        """Returns the response of the first request with this key, or handles it now."""
        if len(key) > _LONGEST:
            raise HttpProblem(
                422, "invalid_input", f"an Idempotency-Key has at most {_LONGEST} characters"
            )
        digest = sha256(body).hexdigest()
        known = self._answers.get((place, key))
        if known is None or self._now() - known.at > _SECONDS:
            return await self._first(key, place, digest, handle)
        if known.digest != digest:
            hint = "use another Idempotency-Key for another request"
            raise HttpProblem(
                422, "key_reused", "this Idempotency-Key was used with another body", hint=hint
            )
        status, content, headers = await asyncio.shield(known.future)
        return Response(content, status, {**headers, "Idempotency-Replayed": "true"})

    async def _first(
        self, key: str, place: str, digest: str, handle: Callable[[], Awaitable[Response]]
    ) -> Response:
        future: asyncio.Future[tuple[int, bytes, dict[str, str]]]
        future = asyncio.get_running_loop().create_future()
        self._answers[place, key] = _StoredAnswer(digest, self._now(), future)
        self._answers.move_to_end((place, key))
        if len(self._answers) > _KEPT:
            self._answers.popitem(last=False)
        try:
            response = await handle()
        except BaseException as error:
            # A failed request may be repeated with the same key.
            del self._answers[place, key]
            future.set_exception(error)
            future.exception()
            raise
        kind = response.headers.get("content-type", "")
        future.set_result((response.status_code, bytes(response.body), {"content-type": kind}))
        return response
