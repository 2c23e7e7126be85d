"""Reads the HTTP header Retry-After."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime


def retry_after(header: str | None) -> float | None:
    """Returns the seconds that a server wants its client to wait; None if it names none."""
    value = (header or "").strip()
    if value.isdecimal() and value.isascii():
        return float(value[:9])
    try:
        until = parsedate_to_datetime(value)
    except ValueError:
        return None
    return max(0.0, (until.replace(tzinfo=until.tzinfo or UTC) - datetime.now(UTC)).total_seconds())
