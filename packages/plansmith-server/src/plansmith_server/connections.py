"""Limits how many connections a server has, and closes those that ask for nothing."""

from __future__ import annotations

import asyncio
import sys
from typing import Any, Final, cast

from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

if sys.platform != "win32":
    import resource

_MOST: Final = 512
_FEWEST: Final = 16
_RESERVED: Final = 256
_WANTED_FILES: Final = 4096
_FULL: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\n"
    b"Connection: close\r\n\r\n"
)


def most_connections() -> int:
    """Returns how many connections leave enough open files for runs."""
    # Half of what is left: many new connections arrive before old ones are closed.
    return max(_FEWEST, min(_MOST, (_open_files() - _RESERVED) // 2))


def _open_files() -> int:
    """Returns how many files this process may open, after raising that as far as it helps."""
    if sys.platform == "win32":
        return _WANTED_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return _WANTED_FILES
    wanted = _WANTED_FILES if hard == resource.RLIM_INFINITY else min(hard, _WANTED_FILES)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return max(soft, wanted)


class Connection(H11Protocol):
    """A connection that closes if no request head arrives in time, or when others need its place.

    Of the `most` connections one address may have three quarters.

    A full server closes the connection that has been idle the longest, so that a client which
    sends a request is served, however many connections somebody else holds open.
    """

    def __init__(self, *, most: int, head_s: float, **uvicorn: Any) -> None:
        super().__init__(**uvicorn)
        self._most, self._head_s = most, head_s
        self._timer: asyncio.TimerHandle | None = None
        self.since = self.loop.time()

    @property
    def is_idle(self) -> bool:
        cycle = cast("RequestResponseCycle | None", self.cycle)
        return cycle is None or cycle.response_complete

    def connection_made(self, transport: Any) -> None:
        """Accepts the connection; closes an idle one if there are too many."""
        super().connection_made(transport)
        self._start_timer()
        too_many = self._too_many()
        idle = [each for each in too_many if each is not self and each.is_idle]
        if idle:
            min(idle, key=lambda each: each.since).drop()
        elif too_many:
            self.transport.write(_FULL)
            self.drop(at_once=False)

    def _too_many(self) -> list[Connection]:
        """The connections of which one has to close: those of this address, or all; or none."""
        everyone = cast("list[Connection]", list(self.connections))
        host = self.client[0] if self.client else ""
        here = [each for each in everyone if (each.client or ("",))[0] == host]
        if len(here) > max(1, self._most * 3 // 4):
            return here
        return everyone if len(everyone) > self._most else []

    def drop(self, *, at_once: bool = True) -> None:
        self._stop_timer()
        self.connections.discard(self)
        if at_once:
            self.transport.abort()
        else:
            self.transport.close()

    def data_received(self, data: bytes) -> None:
        """Receives data; a request head that has begun must be complete in time."""
        if self.is_idle and self._timer is None:
            self._start_timer()
        super().data_received(data)
        if not self.is_idle:
            self._stop_timer()

    def on_response_complete(self) -> None:
        self.since = self.loop.time()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def _start_timer(self) -> None:
        self._timer = self.loop.call_later(self._head_s, self._too_slow)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _too_slow(self) -> None:
        self._timer = None
        if self.is_idle:
            self.drop()
