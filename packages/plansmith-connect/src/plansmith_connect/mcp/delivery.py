"""What our own transport knows about a call; nothing of it is read from what a server sends."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(slots=True)
class Delivery:
    """Whether any request of a call was sent, and the status of the last answer over HTTP."""

    sent: bool = False
    status: int | None = None
    retry_after: float | None = None


# The library makes the HTTP requests of a call in the context of the call.
DELIVERY: ContextVar[Delivery] = ContextVar("delivery")
