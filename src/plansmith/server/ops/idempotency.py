"""Does a POST with the same Idempotency-Key once, and answers it twice."""

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
    """Answers by key, for a day and as long as the server runs."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._said: OrderedDict[tuple[str, str], _StoredAnswer] = OrderedDict()

    async def once(
        self, key: str, place: str, body: bytes, do: Callable[[], Awaitable[Response]]
    ) -> Response:
        """The answer of the first request with this key, or do it now."""
        if len(key) > _LONGEST:
            raise HttpProblem(422, "invalid_input", f"a key has at most {_LONGEST} letters")
        digest = sha256(body).hexdigest()
        known = self._said.get((place, key))
        if known is None or self._now() - known.at > _SECONDS:
            return await self._first(key, place, digest, do)
        if known.digest != digest:
            hint = "use another Idempotency-Key for another request"
            raise HttpProblem(422, "key_reused", "this key came with another body", hint=hint)
        status, content, headers = await asyncio.shield(known.future)
        return Response(content, status, {**headers, "Idempotency-Replayed": "true"})

    async def _first(
        self, key: str, place: str, digest: str, do: Callable[[], Awaitable[Response]]
    ) -> Response:
        future: asyncio.Future[tuple[int, bytes, dict[str, str]]]
        future = asyncio.get_running_loop().create_future()
        self._said[place, key] = _StoredAnswer(digest, self._now(), future)
        self._said.move_to_end((place, key))
        if len(self._said) > _KEPT:
            self._said.popitem(last=False)
        try:
            response = await do()
        except BaseException as error:
            # What failed may be tried again under the same key.
            del self._said[place, key]
            future.set_exception(error)
            future.exception()
            raise
        kind = response.headers.get("content-type", "")
        future.set_result((response.status_code, bytes(response.body), {"content-type": kind}))
        return response
