"""Streams of pieces from models, of which some can be closed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing
from typing import Any, cast

from plansmith.ports import Delta


def closing(pieces: AsyncIterator[Delta]) -> AbstractAsyncContextManager[object]:
    """Closes a stream at the end, where it can be closed: left half-way, it lets go at once."""
    return aclosing(cast("Any", pieces)) if hasattr(pieces, "aclose") else AsyncExitStack()
