"""Rates: how often one client may ask, as a bucket that fills again with time."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

_MOST_CLIENTS: Final = 10_000


class Rates:
    """Buckets by client; the longest unseen is forgotten when there are too many."""

    def __init__(self, *, per_second: float, burst: int, now: Callable[[], float]) -> None:
        self._per_second = per_second
        self._burst = float(burst)
        self._now = now
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, client: str) -> float:
        """Seconds to wait before the next request; nothing when this one may go on."""
        wait = self.wait(client)
        if not wait:
            left, at = self._buckets[client]
            self._buckets[client] = left - 1, at
        return wait

    def wait(self, client: str) -> float:
        """The same, without counting a request."""
        now = self._now()
        left, at = self._buckets.get(client, (self._burst, now))
        left = min(self._burst, left + (now - at) * self._per_second)
        self._buckets[client] = left, now
        self._buckets.move_to_end(client)
        if len(self._buckets) > _MOST_CLIENTS:
            self._buckets.popitem(last=False)
        return 0.0 if left >= 1 else (1 - left) / self._per_second
