"""Connections: how many there may be, and how long one may take to say what it wants."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from typing import Any, Final, cast

from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

if sys.platform != "win32":
    import resource

BACKLOG: Final = 128
_MOST: Final = 512
_FEWEST: Final = 16
_RESERVED: Final = 256
_WANTED_FILES: Final = 4096
_FULL: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\n"
    b"Connection: close\r\n\r\n"
)


@dataclass(frozen=True, slots=True)
class Room:
    """How many connections there may be, and of one address, and the time for a request's head."""

    most: int = _MOST
    per_peer: int = _MOST * 3 // 4
    head_s: float = 10.0


def make_room(head_s: float = 10.0, *, most: int = 0) -> Room:
    """Room for so many connections, or for as many as leave runs the files they need."""
    if most:
        return Room(most=most, per_peer=max(1, most * 3 // 4), head_s=head_s)
    if sys.platform == "win32":
        return Room(head_s=head_s)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _WANTED_FILES if hard == resource.RLIM_INFINITY else min(hard, _WANTED_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft = wanted
    files = _WANTED_FILES if soft == resource.RLIM_INFINITY else soft
    # Half of what is left: new ones are taken in by the dozen before old ones are closed.
    most = max(_FEWEST, min(_MOST, (files - _RESERVED) // 2))
    return Room(most=most, per_peer=max(1, most * 3 // 4), head_s=head_s)


class Connection(H11Protocol):
    """uvicorn's connection, which ends when its head does not come, or when others need its place.

    A full server closes the connection that has asked for nothing the longest. So whoever asks at
    once is answered, however many are held open by somebody who never asks.
    """

    def __init__(self, *, room: Room, **uvicorn: Any) -> None:
        super().__init__(**uvicorn)
        self._room = room
        self._timer: asyncio.TimerHandle | None = None
        self.since = self.loop.time()

    @property
    def is_idle(self) -> bool:
        """Whether no request of it is being answered."""
        cycle = cast("RequestResponseCycle | None", self.cycle)
        return cycle is None or cycle.response_complete

    def connection_made(self, transport: Any) -> None:
        """Take it in, in the place of an idle one if there are too many."""
        super().connection_made(transport)
        self._wait_for_head()
        crowd = self._crowd()
        if not crowd:
            return
        idle = [each for each in crowd if each is not self and each.is_idle]
        if idle:
            min(idle, key=lambda each: each.since).drop()
        else:
            self.transport.write(_FULL)
            self.drop(at_once=False)

    def _crowd(self) -> list[Connection]:
        """Those of whom one is too many: of this address, or of all; nobody when there is room."""
        everyone = cast("list[Connection]", list(self.connections))
        host = self.client[0] if self.client else ""
        here = [each for each in everyone if (each.client or ("",))[0] == host]
        if len(here) > self._room.per_peer:
            return here
        return everyone if len(everyone) > self._room.most else []

    def drop(self, *, at_once: bool = True) -> None:
        """Close it, and let its place go now."""
        self._forget_head()
        self.connections.discard(self)
        if at_once:
            self.transport.abort()
        else:
            self.transport.close()

    def data_received(self, data: bytes) -> None:
        """Take data in; a head that has begun has to be whole in time."""
        if self.is_idle and self._timer is None:
            self._wait_for_head()
        super().data_received(data)
        if not self.is_idle:
            self._forget_head()

    def on_response_complete(self) -> None:
        """It is idle from now on."""
        self.since = self.loop.time()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """It is gone."""
        self._forget_head()
        super().connection_lost(exc)

    def _wait_for_head(self) -> None:
        self._timer = self.loop.call_later(self._room.head_s, self._too_slow)

    def _forget_head(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _too_slow(self) -> None:
        self._timer = None
        if self.is_idle:
            self.drop()
